"""A member of a gang in one topology domain goes to its place there, and to no other node."""

from __future__ import annotations

import pytest

from tests.extender.preempting import extender_on, until
from tests.extender.test_extender import filtered
from tests.kube_objects import Json, gpu, gpu_node, names_body, node, nodes_body, pod

WHOLE = "nvidia.com/gpu"
NODES = ("n1", "n2", "n3")
PLACE = "node(s) were not the place of the pod's gang"


def cluster() -> list[Json]:
    reports = [gpu_node(name, [gpu(0, f"GPU-{name}")]) for name in NODES]
    return [*(node(name, {WHOLE: "1"}) for name in NODES), *reports]


@pytest.mark.parametrize(
    ("note", "passed"),
    [
        pytest.param({}, ["n1", "n2", "n3"], id="any node takes a pod without a place of its own"),
        pytest.param({"gpu.scheduler-ext.io/gang-node": "n2"}, ["n2"], id="its place takes it"),
        pytest.param({"gpu.scheduler-ext.io/gang-node": ""}, [], id="without a place it goes nowhere"),
        pytest.param({"gpu.scheduler-ext.io/gang-node": "n9"}, [], id="its place may be gone"),
    ],
)
def test_only_the_place_of_a_member_takes_it(note: Json, passed: list[str]) -> None:
    asking = pod("a", {WHOLE: "1"}, annotations=note)
    found, refused = filtered(extender_on(*cluster()), names_body(asking, NODES))
    assert found == passed
    assert refused == {name: PLACE for name in NODES if name not in passed}


def test_the_place_of_a_member_has_to_fit() -> None:
    asking = pod("a", {WHOLE: "2"}, annotations={"gpu.scheduler-ext.io/gang-node": "n2"})
    _, refused = filtered(extender_on(*cluster()), names_body(asking, NODES))
    assert refused == {"n1": PLACE, "n2": "Insufficient nvidia.com/gpu per device", "n3": PLACE}


def test_nodes_in_the_request_are_limited_too() -> None:
    asking = pod("a", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/gang-node": "n2"})
    body = nodes_body(asking, [node(name, {WHOLE: "1"}) for name in NODES])
    answer = extender_on(*cluster()).filter(body, until())
    assert (answer.nodes_in, answer.nodes_out) == (3, 1)
    assert answer.rejected == {PLACE: 2}
