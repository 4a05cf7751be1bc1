"""Answers to pods that see some nodes differently, while snapshots are published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.snapshot.table import Table, build_snapshot
from scheduler_ext.extender import generation
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.generation import Generation, NodeViews
from scheduler_ext.extender.preemption_answers import PreemptionAnswers
from tests.core.asked import share, t4
from tests.core.cycle.test_overlay import SIZING, UNEVEN, assert_same
from tests.core.reported import bound, node, wants
from tests.explain.test_replay import Running, running
from tests.explain.test_waiting import board
from tests.extender.foreseeing import read
from tests.extender.preempting import (
    asks_shares,
    filtered,
    infos_of,
    nominated,
    on_share,
    preempt_body,
    share_node,
    uids,
    until,
)
from tests.kube_objects import SHARE, Json, names_body, nodes_body, pod
from tests.strategies import snapshot_of

NAMES = [f"n{i}" for i in range(9)]
# Of a GPU's 73,728 MiB it keeps 50,000 on n0 from pods of lower priority.
WAITS = nominated(pod("waits", {SHARE: "50000"}, priority=100), "n0")
ASKING = pod("asks", {SHARE: "30000"})


def cluster(*more: Json) -> list[Json]:
    """A GPU on each node."""
    return [*(each for name in NAMES for each in share_node(name, 1)), WAITS, *more]


def fitting(extender: Extender, asking: Json = ASKING, names: list[str] = NAMES) -> list[str]:
    return filtered(extender, asking, names)[0]


class Forbidden:
    """A lock that no reader may take."""

    def __enter__(self) -> None:
        raise AssertionError("a reader took the lock of the writers")

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def there() -> Running:
    """A cluster where one pod is nominated and two others wait."""
    return running(*cluster(on_share("holds", 20_000, "n1", 0), ASKING, pod("large", {SHARE: "80000"})))


@pytest.fixture
def only_reading(there: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, only the few nodes that differ for a pod may be written into columns."""
    make = Table.__init__

    def few(table: Table, nodes: Any, *rest: Any, **more: Any) -> None:
        assert len(nodes) <= 2, "a reader made a table of the cluster"
        make(table, nodes, *rest, **more)

    monkeypatch.setattr(there.extender, "_writing", Forbidden())
    monkeypatch.setattr(there.extender, "_table", None)
    monkeypatch.setattr(Table, "__init__", few)


def listed(there: Running) -> None:
    # A pod that cannot be examined stays in the list, without its nearest node.
    assert all(line["nearest"] is not None for line in board(there).lines())


def counted(there: Running) -> None:
    assert board(there).reasons()["Insufficient GPU memory on one device"] == 1


READERS: dict[str, Callable[[Running], object]] = {
    "filter": lambda there: fitting(there.extender),
    "filter of the nominated node": lambda there: fitting(there.extender, WAITS, ["n0"]),
    "prioritize": lambda there: there.extender.prioritize(names_body(ASKING, NAMES), until()),
    "an autoscaler's filter": lambda there: there.extender.filter(
        nodes_body(ASKING, [share_node("n0", 1)[1]]), until()
    ),
    "preempt": lambda there: there.extender.preemptor.preempt(
        preempt_body(asks_shares("urgent", 60_000), {"n1": uids("holds")}), until()
    ),
    "explain of a pod that waits": lambda there: there.explainer().of_name("default", "asks"),
    "explain of a pod that fits nowhere": lambda there: there.explainer().of_name("default", "large"),
    "explain of a pod that has its node": lambda there: there.explainer().of_name("default", "holds"),
    "explain of a manifest": lambda there: there.explainer().of_manifest(read(ASKING)[0]),
    "the list of pods that wait": lambda there: listed(there),
    "a scrape": lambda there: counted(there),
    "a snapshot file": lambda there: there.explainer().snapshot_file(),
}


@pytest.mark.usefixtures("only_reading")
@pytest.mark.parametrize("reader", READERS)
def test_readers_neither_wait_for_writers_nor_make_a_table(there: Running, reader: str) -> None:
    READERS[reader](there)


def test_an_answer_is_of_the_nodes_as_the_pod_sees_them() -> None:
    extender = running(*cluster()).extender
    assert fitting(extender) == NAMES[1:]
    assert fitting(extender, WAITS) == NAMES
    assert fitting(extender, pod("higher", {SHARE: "30000"}, priority=101)) == NAMES


@pytest.mark.parametrize("asking", [ASKING, WAITS], ids=["a node differs", "no node differs"])
def test_a_publication_makes_remembered_answers_void(asking: Json) -> None:
    """The nodes that differ for the pod are the same before and after."""
    extender = running(*cluster()).extender
    before = fitting(extender, asking)
    held = infos_of(*cluster(on_share("holds", 60_000, "n5", 0)))
    extender.update_nodes({"n5": held["n5"]})
    assert fitting(extender, asking) == [name for name in before if name != "n5"]
    extender.update_nodes({"n5": infos_of(*cluster())["n5"]})
    assert fitting(extender, asking) == before


def test_a_node_is_seen_as_it_is_now_where_only_another_gpu_changed() -> None:
    """The nominated pod keeps its place, and is known there by the same GPU as before."""
    extender = running(*share_node("n0", 2), WAITS).extender
    asking = pod("large", {SHARE: "60000"})
    assert fitting(extender, asking, ["n0"]) == ["n0"]
    sick = share_node("n0", 2)
    sick[0]["status"]["devices"][1]["health"] = {"state": "Unhealthy", "reason": "XID 79"}
    extender.update_nodes({"n0": infos_of(*sick, WAITS)["n0"]})
    assert fitting(extender, asking, ["n0"]) == []
    assert fitting(extender, pod("small", {SHARE: "20000"}), ["n0"]) == ["n0"]


def test_an_answer_names_the_generation_that_decided() -> None:
    extender = running(*cluster()).extender
    for count in (1, 2):
        basis = extender.filter(names_body(ASKING, NAMES), until()).basis
        assert basis is not None
        # A view of the snapshot in which n0 differs for the pod.
        assert basis.decision.snapshot is not extender.snapshot
        assert basis.decision.snapshot.generation == count
        extender.update_nodes({"n5": infos_of(*cluster())["n5"]})


def test_a_view_that_counts_otherwise_is_decided_by_itself() -> None:
    """With the nominated pod, a GPU of another size stands for the node, and all nodes are compared again."""
    waits = bound("w", wants(30_000, SHARE), devices={"main": ("GPU-0",)})
    infos = (
        replace(UNEVEN, name="n", nominated=(waits,)),
        replace(node(t4(0), cpu_milli=16_000), name="small"),
    )
    classes = {TaskClass(8000, gpus=2): 2, TaskClass(gpus=1, models=("T4",)): 1}
    base = snapshot_of(infos, workload=Workload.of(classes))
    held = Generation(base, SIZING.policy, NodeViews(SIZING))
    seen = held.snapshot_with(PreemptionAnswers(SIZING).nodes_with_nominated_pods(base, "stranger", 0))
    own = SIZING.resolved(replace(UNEVEN, name="n", pods=(waits,)))
    expected = build_snapshot({**base.nodes, "n": own}, base.generation, forecast=base.expected)
    asking = share(1_000, cpu_milli=1_000)
    assert_same(held.decide(asking, seen), filter_nodes(asking, expected, SIZING.policy))


@pytest.mark.parametrize("step", ["filter_nodes", "with_nodes", "filter_overlay"])
def test_a_search_begun_before_a_publication_is_no_answer_after_it(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    extender = running(*cluster()).extender
    held = infos_of(*cluster(on_share("holds", 60_000, "n5", 0)))
    made = getattr(generation, step)

    def late(*args: object) -> object:
        monkeypatch.undo()
        extender.update_nodes({"n5": held["n5"]})
        return made(*args)

    monkeypatch.setattr(generation, step, late)
    # The generation of the request decides.
    assert fitting(extender) == NAMES[1:]
    assert fitting(extender) == [name for name in NAMES[1:] if name != "n5"]


def test_pods_that_see_the_same_share_a_decision() -> None:
    """Two pods that see the same nodes differently."""
    extender = running(*cluster()).extender
    answers = [
        extender.filter(names_body(asking, NAMES), until()).basis
        for asking in (ASKING, pod("other", {SHARE: "30000"}))
    ]
    assert answers[0] is not None
    assert answers[1] is not None
    assert answers[0].decision is answers[1].decision
