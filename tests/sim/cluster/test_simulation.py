"""simulate cluster: in order, with victims, faulty pods, and the value of what pods take."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.cluster.simulation import by_priority
from scheduler_ext.wire.config import Configuration, PreemptionSection
from tests.examples import examples
from tests.extender.foreseeing import WHOLE, asking_pods, asks, clusters, numbered, read
from tests.extender.preempting import on_gpu, share_node, whole_node
from tests.kube_objects import SHARE, Json, gpu, gpu_node, node, pod
from tests.sim.cluster.foreseeing import foreseen


def names(items: list[Json]) -> list[str | None]:
    return [item["node"] for item in items]


@examples(15, long=300)
@given(clusters(), st.lists(asking_pods(), min_size=1, max_size=6), st.booleans())
def test_victims_were_on_the_node_and_have_lower_priority(
    objects: list[Json], pods: list[Json], empty_victims: bool
) -> None:
    coming = [numbered(each, i) for i, each in enumerate(pods)]
    config = Configuration(preemption=PreemptionSection(empty_victims=empty_victims))
    items = foreseen(coming, *objects, config=config)
    assert [item["pod"] for item in items] == [f"default/copy-{i}" for i in range(len(pods))]
    priority = {
        f"default/{each['metadata']['name']}": each["spec"]["priority"]
        for each in (*objects, *coming)
        if each["kind"] == "Pod"
    }
    there = {
        f"default/{each['metadata']['name']}": each["spec"]["nodeName"]
        for each in objects
        if each["kind"] == "Pod"
    }
    for item in items:
        event(f"{len(item['victims'])} victims")
        for victim in item["victims"]:
            assert there.pop(victim) == item["node"]
            assert priority[victim] < priority[item["pod"]]
        if item["node"] is not None:
            there[item["pod"]] = item["node"]
        assert (item["node"] is None) == (item["reason"] is not None)


def test_by_priority_the_highest_come_first_and_equals_as_they_were() -> None:
    pods = [asks("low", priority=1), asks("a", priority=7), asks("none"), asks("b", priority=7)]
    assert [each.metadata.name for each in by_priority(read(*pods)) if each.metadata] == [
        "a",
        "b",
        "low",
        "none",
    ]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        pytest.param({SHARE: "8Gi"}, "absurd", id="an absurd share"),
        pytest.param({"cpu": "lots"}, "cpu: quantity 'lots'", id="a word for CPU"),
        pytest.param({"cpu": "-5"}, "cpu: a negative amount; ask 0 or more", id="a negative amount"),
    ],
)
def test_a_pod_that_cannot_be_read_says_so_and_the_next_comes(limits: Json, message: str) -> None:
    items = foreseen([asks("bad", limits), asks("good", {WHOLE: "1"})], *whole_node("n", None))
    assert names(items) == [None, "n"]
    assert items[0]["reason"] == "pod's GPU request is invalid"
    assert message in items[0]["message"]
    assert items[1]["message"] is None


def test_copies_of_one_manifest_are_pods_of_their_own() -> None:
    pods = [asks(f"p{i}", {SHARE: "60000"}) for i in range(2)]
    for each in pods:
        each["metadata"]["uid"] = "same"
    assert names(foreseen(pods, *share_node("n", 2))) == ["n", "n"]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_pod_that_ended_elsewhere_counts_as_new_with_a_note(deleted: bool) -> None:
    ended = asks("p0", {WHOLE: "1"}, phase=None if deleted else "Succeeded")
    if deleted:
        ended["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    items = foreseen([ended, asks("p1", {WHOLE: "1"})], *whole_node("n", None))
    assert names(items) == ["n", None]
    told = "a pod that has ended or is being deleted (it is placed as a new one)"
    assert [item["notModelled"] for item in items] == [[told], []]


def test_a_pod_that_runs_already_is_refused_by_name() -> None:
    objects = [*whole_node("n", None), on_gpu("x", "n")]
    with pytest.raises(SimulationError, match=r"^Pod default/x is on node n already; give"):
        foreseen([asks("x", {WHOLE: "1"})], *objects)


def test_without_nodes_the_reason_is_that_there_are_none() -> None:
    (item,) = foreseen([asks("p", {WHOLE: "1"})], pod("elsewhere"))
    told = (item["node"], item["reason"], item["nearestMiss"])
    assert told == (None, "no nodes available to schedule pods", None)


PRICE = {"gpu.scheduler-ext.io/value": "2.5"}
# Three instances, as many as fit on one GPU.
CUT = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-2g.20gb",
    "nvidia.com/gpu.count": "3",
    "nvidia.com/gpu.memory": "19456",
    "nvidia.com/mig.strategy": "single",
}
ANNOTATED = node("priced", {WHOLE: "8"})
ANNOTATED["metadata"]["annotations"] = PRICE


@pytest.mark.parametrize(
    ("asked", "objects", "config", "value"),
    [
        pytest.param(
            {WHOLE: "2"},
            [gpu_node("priced", [gpu(i) for i in range(8)]), ANNOTATED],
            {"A100": 1.0},
            5.0,
            id="by the annotation of the node",
        ),
        pytest.param({SHARE: "8"}, share_node("n", 1), {}, 0.000369, id="a small share, below a cent"),
        pytest.param(
            {WHOLE: "1"},
            [node("n", {WHOLE: "3"}, labels=CUT)],
            {"A100": 1.0},
            0.333333,
            id="a MIG instance that labels offer as a GPU",
        ),
        pytest.param({}, whole_node("n", None), {}, 0.0, id="a pod without GPUs"),
    ],
)
def test_the_value_of_what_a_pod_takes(
    asked: dict[str, str], objects: list[Json], config: dict[str, float], value: float | None
) -> None:
    (item,) = foreseen([pod("p", asked)], *objects, config=Configuration(values=config))
    assert item["valuePerHour"] == value
