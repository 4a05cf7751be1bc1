"""Preferred node affinity comes before the extender's points, in explain and where pods are placed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.explain.explaining import explained, free_node
from tests.extender.foreseeing import state_of
from tests.kube_objects import Json, pod
from tests.whatif.placing import nodes_of

WHOLE = "nvidia.com/gpu"
# The extender's order: the fewest GPUs first.
GPUS = {"tight": 1, "roomy": 4, "large": 8}


def in_zone(weight: int, *zones: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": list(zones)}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def preferring(*terms: Json, name: str = "p", gpus: int = 1) -> Json:
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    return pod(name, {WHOLE: str(gpus)}, affinity=affinity)


def cluster() -> list[Json]:
    """A node for each size, in a zone of the same name."""
    return [each for name, count in GPUS.items() for each in free_node(name, count, labels={"zone": name})]


@pytest.mark.parametrize(
    ("gpus", "terms", "order", "preferences"),
    [
        pytest.param(
            1,
            [in_zone(30, "large", "roomy")],
            ["roomy", "large", "tight"],
            [100, 100, 0],
            id="points decide between equally preferred nodes",
        ),
        pytest.param(
            1,
            [in_zone(3, "tight"), in_zone(2, "large"), in_zone(2, "large"), in_zone(1, "roomy")],
            ["large", "tight", "roomy"],
            [100, 75, 25],
            id="the largest sum counts 100",
        ),
        pytest.param(
            1,
            [*3 * [in_zone(100, "large", "roomy", "tight")], in_zone(2, "large"), in_zone(1, "roomy")],
            ["large", "tight", "roomy"],
            [100, 99, 99],
            id="differences below a step are no preference, except to the best",
        ),
        pytest.param(
            2,
            [in_zone(100, "tight"), in_zone(10, "roomy")],
            ["roomy", "large", "tight"],
            [100, 0, 0],
            id="the largest sum of the nodes that fit",
        ),
    ],
)
def test_preferred_nodes_come_first(
    gpus: int, terms: list[Json], order: list[str], preferences: list[int]
) -> None:
    explanation = explained(preferring(*terms, gpus=gpus), *cluster())
    assert [entry["node"] for entry in explanation["nodes"]] == order
    assert [entry["preference"] for entry in explanation["nodes"]] == preferences
    assert (explanation["best"], explanation["notModelled"]) == (order[:1], [])


def test_pods_are_placed_on_preferred_nodes_until_these_are_full() -> None:
    pods = [preferring(in_zone(1, "roomy"), name=f"p{i}", gpus=2) for i in range(3)]
    assert nodes_of(pods, state_of(*cluster())) == ["roomy", "roomy", "large"]


_zones = st.sampled_from(("a", "b", "c"))
_terms = st.lists(st.tuples(st.sampled_from((1, 2, 50, 100)), st.lists(_zones, min_size=1)), max_size=4)


@examples(15, long=300)
@given(
    st.lists(st.tuples(_zones, st.integers(1, 3)), min_size=1, max_size=4),
    st.lists(_terms, min_size=1, max_size=3),
)
def test_each_pod_is_placed_where_explain_finds_it_best(
    nodes: list[tuple[str, int]], asked: list[list[tuple[int, list[str]]]]
) -> None:
    objects = []
    for i, (zone, count) in enumerate(nodes):
        objects += free_node(f"n{i}", count, labels={"zone": zone})
    for i, terms in enumerate(asked):
        asking = preferring(*(in_zone(weight, *zones) for weight, zones in terms), name=f"p{i}")
        explanation = explained(asking, *objects)
        (placed_on,) = nodes_of([asking], state_of(*objects))
        assert placed_on == (explanation["nodes"][0]["node"] if explanation["fits"] else None)
        # Among the nodes that fit, none has a larger sum of weights.
        zone_of = {f"n{j}": zone for j, (zone, _) in enumerate(nodes)}
        sums = {
            entry["node"]: sum(weight for weight, zones in terms if zone_of[entry["node"]] in zones)
            for entry in explanation["nodes"]
            if entry["verdict"] == "fits"
        }
        assert all(sums[name] == max(sums.values()) for name in explanation["best"])
        if placed_on is not None:
            placed = json.loads(json.dumps(asking))
            placed["spec"]["nodeName"] = placed_on
            objects.append(placed)
