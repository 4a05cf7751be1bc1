"""Dry runs: in order, equal to explain, and within the capacity."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.node.promisable import overallocated
from scheduler_ext.whatif.whatif import PodInfo, WhatIf, read_pod_info
from scheduler_ext.wire.config import Configuration
from tests.examples import examples
from tests.explain.explaining import explained
from tests.extender.foreseeing import (
    WHOLE,
    asking_pods,
    asks,
    clusters,
    counted,
    counts,
    numbered,
    read,
    state_of,
)
from tests.extender.preempting import share_node, whole_node
from tests.kube_objects import SHARE, Json, gpu, gpu_node, node
from tests.whatif.placing import nodes_of, placed

# More than any of the random nodes takes of most pods.
_MANY = 14


# Beside the other commands


@examples(15, long=300)
@given(clusters(), asking_pods())
def test_the_first_pod_goes_where_explain_says(objects: list[Json], asking: Json) -> None:
    explanation = explained(asking, *objects)
    (found,) = placed([asking], state_of(*objects))
    event(f"fits: {explanation['fits']}")
    if explanation["fits"]:
        best = explanation["nodes"][0]
        assert found.node == best["node"]
        assert best["node"] in explanation["best"]
        assert found.devices == best["devices"]
    else:
        refusals = {entry["node"]: entry for entry in explanation["nodes"]}
        assert found.node is None
        assert found.refusal is not None
        entry = refusals[found.refusal["nearestNode"]]
        assert found.refusal == {
            "reason": entry["reason"],
            "nearestMiss": entry["nearestMiss"],
            "nearestNode": entry["node"],
        }


@examples(15, long=300)
@given(clusters(), asking_pods())
def test_more_than_none_fit_where_explain_says_so(objects: list[Json], asking: Json) -> None:
    explanation, answer = explained(asking, *objects), counted(asking, *objects)
    assert (answer["total"] is None or answer["total"] > 0) == explanation["fits"]
    fitting = {entry["node"] for entry in explanation["nodes"] if entry["verdict"] == "fits"}
    assert fitting == {name for name, count in counts(answer).items() if count != 0}
    refused = {entry["node"]: entry["reason"] for entry in explanation["nodes"] if entry["reason"]}
    assert refused == {each["node"]: each["limit"] for each in answer["nodes"] if each["count"] == 0}


@examples(15, long=300)
@given(clusters(most=1), asking_pods())
def test_a_node_takes_as_many_as_come_one_after_the_other(objects: list[Json], asking: Json) -> None:
    found = placed([numbered(asking, i) for i in range(_MANY)], state_of(*objects))
    fitting = sum(each.node is not None for each in found)
    event(f"{fitting} of {_MANY} fit")
    answer = counted(asking, *objects)
    (count,) = counts(answer).values()
    assert fitting == (_MANY if count is None else min(count, _MANY))
    if fitting < _MANY:
        # Only this node is near, because it is the only one.
        refusal = found[-1].refusal
        assert refusal is not None
        assert refusal["reason"] == answer["nodes"][0]["limit"] == answer["next"]["reason"]
        assert refusal["nearestMiss"] == answer["next"]["nearestMiss"]


# Existing objects


@examples(15, long=300)
@given(clusters(), st.lists(asking_pods(), min_size=1, max_size=8))
def test_nothing_is_promised_twice(objects: list[Json], pods: list[Json]) -> None:
    cluster, resources = WhatIf(state_of(*objects), Configuration()), Configuration().resource_names()
    for i, asked in enumerate(read(*(numbered(each, i) for i, each in enumerate(pods)))):
        pod_info = read_pod_info(asked, f"uid-copy-{i}", resources, None)
        assert isinstance(pod_info, PodInfo)
        best = cluster.best(pod_info)
        if best is not None:
            before = cluster.infos[best]
            cluster.bind(pod_info, best)
            assert overallocated(before, cluster.infos[best].pods[-1], resources) is None


def test_whole_gpus_that_the_plugin_picks_are_no_room_for_shares() -> None:
    objects = [gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "2", SHARE: "147456"})]
    pods = [asks("whole", {WHOLE: "1"}), asks("one", {SHARE: "1000"}), asks("two", {SHARE: "70000"})]
    assert nodes_of(pods, state_of(*objects)) == ["n", "n", "n"]
    pods = [asks("whole", {WHOLE: "1"}), asks("one", {SHARE: "70000"}), asks("two", {SHARE: "70000"})]
    assert nodes_of(pods, state_of(*objects)) == ["n", "n", None]


def test_devices_are_those_of_the_containers_that_request_them_after_equal_requests_of_others() -> None:
    pods = [asks("too-much-cpu", {WHOLE: "1", "cpu": "99"}), asks("p", {}, {WHOLE: "1"})]
    found = placed(pods, state_of(*whole_node("n", None)))
    assert [[each["container"] for each in outcome.devices] for outcome in found] == [[], ["c1"]]


def test_devices_that_a_user_wrote_on_a_pod_do_not_count() -> None:
    written = asks("p0", {SHARE: "60000"})
    written["metadata"]["annotations"]["devices.gpu.scheduler-ext.io/c0"] = "GPU-elsewhere"
    pods = [written, asks("p1", {SHARE: "60000"})]
    assert nodes_of(pods, state_of(*share_node("n", 1))) == ["n", None]
