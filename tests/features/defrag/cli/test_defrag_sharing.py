"""Moves that change how a pod shares its GPU."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import WHOLE, Written, run
from tests.features.defrag.planning import whole_node, whole_pod
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, holder, inventory, node, pod


def sliced(strategy: str, *holders: str) -> list[Json]:
    """Node s, with one GPU in four slices, some of which are held."""
    device = gpu(0, "GPU-s") | {"holders": [holder(name) for name in holders]}
    sharing = {"strategy": strategy, "replicas": 4}
    return [gpu_node("s", [device], sharing=sharing), node("s", {WHOLE: "4"})]


def cut() -> list[Json]:
    """Node s, with a GPU whose one MIG instance is handed out as a GPU."""
    instance = {"uuid": "MIG-s", "profile": "3g.40gb", "start": 0, "size": 4}
    mig = {"enabled": True, "gridSize": 8, "instances": [instance]}
    return [gpu_node("s", [gpu(0, "GPU-s", mig=mig)], migStrategy="single"), node("s", {WHOLE: "1"})]


def leaves_for(*node_s: Json, sharing: str | None = None) -> list[Json]:
    """The pod x has to leave node a, and only node s takes it."""
    annotations = {f"{ANNOTATION}sharing": sharing} if sharing else {}
    moved = whole_pod("x", "a", annotations=annotations)
    return [*whole_node("a", 2, "x"), *node_s, moved, pod("w", {WHOLE: "2"})]


def leaves_slices() -> list[Json]:
    """The pod x has to leave the slices of node s for the whole GPU of node a."""
    asking = pod("w", {WHOLE: "4"}, annotations={f"{ANNOTATION}sharing": "any"})
    return [*whole_node("a", 1), *sliced("time-slicing", "x"), whole_pod("x", "s"), asking]


REMEDY = f"; {ANNOTATION}sharing: exclusive in its template keeps it from shared GPUs"


@pytest.mark.parametrize(
    ("objects", "kinds", "notes"),
    [
        pytest.param(
            leaves_for(*sliced("time-slicing")),
            ("none", "time-slicing"),
            [f"pod default/x leaves a GPU of its own on a for a time-sliced GPU on s{REMEDY}"],
            id="from a GPU of its own to a time slice",
        ),
        pytest.param(
            leaves_for(*cut()),
            ("none", "mig"),
            ["pod default/x leaves a GPU of its own on a for a MIG instance in place of a GPU on s"],
            id="from a GPU of its own to a MIG instance that is handed out as a GPU",
        ),
        pytest.param(
            leaves_slices(),
            ("time-slicing", "none"),
            ["pod default/x leaves a time-sliced GPU on s for a GPU of its own on a"],
            id="from a time slice to a GPU of its own",
        ),
        pytest.param(
            leaves_for(*sliced("time-slicing"), sharing="any"),
            ("none", "time-slicing"),
            [],
            id="a pod that accepts any sharing needs no note",
        ),
        pytest.param(leaves_for(*whole_node("s", 1)), ("none", "none"), [], id="GPUs of its own on both"),
    ],
)
def test_a_plan_says_where_a_move_changes_the_sharing(
    written: Written, objects: list[Json], kinds: tuple[str, str], notes: list[str]
) -> None:
    path = written("cluster.json", inventory(*objects))
    answer = json.loads(run("defrag", "--for", "w", "--inventory", path, "-o", "json").stdout)
    (move,) = answer["moves"]
    assert (move["from"]["sharing"], move["to"]["sharing"]) == kinds
    assert answer["notes"] == notes
    table = run("defrag", "--for", "w", "--inventory", path).stdout.splitlines()
    assert [line for line in table if line.startswith("Note: ")] == [f"Note: {note}" for note in notes]
