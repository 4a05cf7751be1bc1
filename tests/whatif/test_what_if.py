"""simulate cluster: in order, equal to explain, within the capacity, and with its victims."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.node.promisable import overallocated
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.sim.cluster.simulation import by_priority
from scheduler_ext.whatif.whatif import Asker, WhatIf
from scheduler_ext.wire.config import Configuration, PreemptionSection
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.examples import examples
from tests.explain.explaining import explained
from tests.extender.foreseeing import (
    WHOLE,
    askers,
    asks,
    clusters,
    counted,
    counts,
    foreseen,
    read,
    state_of,
)
from tests.extender.preempting import on_gpu, share_node, whole_node
from tests.kube_objects import SHARE, Json, gpu, gpu_node, node, pod

# More than any of the random nodes takes of most pods.
_MANY = 14


def names(items: list[Json]) -> list[str | None]:
    return [item["node"] for item in items]


def never(asking: Json) -> Json:
    """The pod, with eviction forbidden."""
    return asking | {"spec": asking["spec"] | {"preemptionPolicy": "Never"}}


def numbered(asking: Json, number: int) -> Json:
    return asking | {"metadata": asking["metadata"] | {"name": f"copy-{number}", "uid": f"uid-copy-{number}"}}


# Beside the other commands


@examples(15, long=300)
@given(clusters(), askers())
def test_the_first_pod_goes_where_explain_says(objects: list[Json], asking: Json) -> None:
    asking = never(asking)
    explanation = explained(asking, *objects)
    (item,) = foreseen([asking], *objects)
    event(f"fits: {explanation['fits']}")
    if explanation["fits"]:
        best = explanation["nodes"][0]
        assert item["node"] == best["node"]
        assert best["node"] in explanation["best"]
        assert item["devices"] == best["devices"]
        assert (item["reason"], item["nearestMiss"], item["victims"]) == (None, None, [])
    else:
        refusals = {entry["node"]: entry for entry in explanation["nodes"]}
        entry = refusals[item["nearestNode"]]
        assert item["node"] is None
        assert (item["reason"], item["nearestMiss"]) == (entry["reason"], entry["nearestMiss"])


@examples(15, long=300)
@given(clusters(), askers())
def test_more_than_none_fit_where_explain_says_so(objects: list[Json], asking: Json) -> None:
    explanation, answer = explained(asking, *objects), counted(asking, *objects)
    assert (answer["total"] is None or answer["total"] > 0) == explanation["fits"]
    fitting = {entry["node"] for entry in explanation["nodes"] if entry["verdict"] == "fits"}
    assert fitting == {name for name, count in counts(answer).items() if count != 0}
    refused = {entry["node"]: entry["reason"] for entry in explanation["nodes"] if entry["reason"]}
    assert refused == {each["node"]: each["limit"] for each in answer["nodes"] if each["count"] == 0}


@examples(15, long=300)
@given(clusters(most=1), askers())
def test_a_node_takes_as_many_as_come_one_after_the_other(objects: list[Json], asking: Json) -> None:
    items = foreseen([numbered(never(asking), i) for i in range(_MANY)], *objects)
    placed = sum(item["node"] is not None for item in items)
    event(f"{placed} of {_MANY} fit")
    answer = counted(asking, *objects)
    (count,) = counts(answer).values()
    assert placed == (_MANY if count is None else min(count, _MANY))
    if placed < _MANY:
        # Only this node is near, because it is the only one.
        assert items[-1]["reason"] == answer["nodes"][0]["limit"] == answer["next"]["reason"]
        assert items[-1]["nearestMiss"] == answer["next"]["nearestMiss"]


# Existing objects


@examples(15, long=300)
@given(clusters(), st.lists(askers(), min_size=1, max_size=8))
def test_nothing_is_promised_twice(objects: list[Json], pods: list[Json]) -> None:
    cluster, resources = WhatIf(state_of(*objects), Configuration()), Configuration().resource_names()
    for i, asked in enumerate(read(*(numbered(each, i) for i, each in enumerate(pods)))):
        request = pod_request(asked, resources)
        assert isinstance(request, GpuRequest)
        asker = Asker(asked, f"uid-copy-{i}", request, pod_needs(asked))
        best = cluster.best(asker)
        if best is not None:
            before = cluster.infos[best]
            cluster.bind(asker, best)
            assert overallocated(before, cluster.infos[best].pods[-1], resources) is None


@examples(15, long=300)
@given(clusters(), st.lists(askers(), min_size=1, max_size=6), st.booleans())
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


def test_whole_gpus_that_the_plugin_picks_are_no_room_for_shares() -> None:
    objects = [gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "2", SHARE: "147456"})]
    pods = [asks("whole", {WHOLE: "1"}), asks("one", {SHARE: "1000"}), asks("two", {SHARE: "70000"})]
    assert names(foreseen(pods, *objects)) == ["n", "n", "n"]
    pods = [asks("whole", {WHOLE: "1"}), asks("one", {SHARE: "70000"}), asks("two", {SHARE: "70000"})]
    assert names(foreseen(pods, *objects)) == ["n", "n", None]


def test_devices_are_those_of_the_containers_that_request_them_after_equal_requests_of_others() -> None:
    pods = [asks("too-much-cpu", {WHOLE: "1", "cpu": "99"}), asks("p", {}, {WHOLE: "1"})]
    items = foreseen(pods, *whole_node("n", None))
    assert [[each["container"] for each in item["devices"]] for item in items] == [[], ["c1"]]


def test_by_priority_the_highest_come_first_and_equals_as_they_were() -> None:
    pods = [asks("low", priority=1), asks("a", priority=7), asks("none"), asks("b", priority=7)]
    assert [each.metadata.name for each in by_priority(read(*pods)) if each.metadata] == [
        "a",
        "b",
        "low",
        "none",
    ]


# Faulty pods


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


def test_devices_that_a_user_wrote_on_a_pod_do_not_count() -> None:
    written = asks("p0", {SHARE: "60000"})
    written["metadata"]["annotations"]["devices.gpu.scheduler-ext.io/c0"] = "GPU-elsewhere"
    pods: list[Any] = [written, asks("p1", {SHARE: "60000"})]
    assert names(foreseen(pods, *share_node("n", 1))) == ["n", None]


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
