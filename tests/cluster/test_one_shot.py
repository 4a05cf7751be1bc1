"""A cluster read once gives the state that an extender would have."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster import one_shot as once_module
from scheduler_ext.cluster.client.transport import RefusedError, Transport, UnreachableError
from scheduler_ext.cluster.one_shot import cluster_state
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import Cut, Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.cluster.test_inventory_handlers import NOON, at, reported
from tests.kube_objects import GFD_H100, Json, gpu, node, pod

WHOLE = "nvidia.com/gpu"


def labelled(name: str, created_s_ago: float) -> Json:
    found = node(name, {WHOLE: "8"}, labels=GFD_H100)
    found["metadata"]["creationTimestamp"] = at(created_s_ago)
    return found


@pytest.fixture(autouse=True)
def at_noon(server: ApiServer) -> None:
    server.clock = lambda: NOON


def state(transport: Transport, *, with_objects: bool = False) -> ClusterState:
    return cluster_state(transport, "kubeconfig", Configuration(), with_objects=with_objects)


def test_every_node_with_the_age_of_its_data(server: ApiServer, transport: Transport) -> None:
    server.store.put_all(NODES, [node(name, {WHOLE: "1"}) for name in ("new", "old", "dead")])
    server.store.put_all(NODES, [labelled("joined", 60), labelled("silent", 600), node("cpu")])
    ages_s = {"new": 10, "old": 200, "dead": 600}
    server.store.put_all(GPU_NODES, [reported(name, ago_s=age_s) for name, age_s in ages_s.items()])
    server.store.put_all(
        PODS,
        [
            pod("holds", {WHOLE: "1"}, on="new"),
            pod("done", {WHOLE: "1"}, on="new", phase="Succeeded"),
            pod("waits", {WHOLE: "1"}),
            pod("none", on="cpu"),
        ],
    )
    found = state(transport)
    assert {name: info.freshness for name, info in found.infos.items()} == {
        "new": "Fresh",
        "old": "Stale",
        "dead": "Missing",
        "joined": "Fresh",
        "silent": "Missing",
        "cpu": "Fresh",
    }
    assert found.ages_s == pytest.approx(ages_s, abs=9)
    assert [one.name for one in found.infos["new"].pods if one.holds] == ["holds"]
    assert (found.source, found.problems) == ("kubeconfig", {})
    # They are most of a cluster's memory.
    assert (found.objects.nodes, found.objects.pods) == ({}, [])


def test_objects_are_kept_for_who_asks(server: ApiServer, transport: Transport) -> None:
    """The objects for kube-scheduler's own filters: nodes, and the pods with resources there."""
    server.store.put_all(NODES, [node("a", {WHOLE: "1"}), node("cpu")])
    phases = {"holds": "Running", "done": "Succeeded", "failed": "Failed"}
    server.store.put_all(PODS, [pod(name, on="cpu", phase=phase) for name, phase in phases.items()])
    server.store.put(PODS, pod("waits", {WHOLE: "1"}))
    found = state(transport, with_objects=True)
    assert set(found.objects.nodes) == set(found.infos) == {"a", "cpu"}
    assert [one.metadata.name for one in found.objects.pods if one.metadata] == ["holds"]


def test_large_lists_come_in_pages(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once_module, "PAGE", 2)
    server.store.put_all(NODES, [node(f"n{number}") for number in range(5)])
    assert len(state(transport).infos) == 5
    assert server.log.count(lists(NODES)) == 3


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param(
            reported("bad", gpu(0), gpu(0, "GPU-1")), "GPUNode bad: status.devices[1].index", id="contradicts"
        ),
        pytest.param(
            reported("bad", gpu(0) | {"index": -1}), "bad: status.devices[0].index: Expected", id="is none"
        ),
    ],
)
def test_one_report_that_is_nonsense_hides_no_other(
    server: ApiServer, transport: Transport, bad: Json, problem: str
) -> None:
    server.store.put_all(NODES, [node("bad"), node("good")])
    server.store.put_all(GPU_NODES, [bad, reported("good")])
    found = state(transport)
    assert found.infos["good"].report is not None
    assert found.infos["bad"].report is None
    assert len(found.problems) == 1
    assert problem in found.problems["bad"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(Refuse(403, "Forbidden", "may not list"), RefusedError, id="an account without rights"),
        pytest.param(Cut(20), UnreachableError, id="half a list"),
    ],
)
@pytest.mark.parametrize("path", [NODES, GPU_NODES])
def test_a_failed_list_is_an_error(
    server: ApiServer, transport: Transport, path: str, fault: Refuse | Cut, error: type[ClusterError]
) -> None:
    server.faults.place(fault, lists(path))
    with pytest.raises(error):
        state(transport)
