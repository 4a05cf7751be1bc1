"""Gates and evictions of gangs, on an API server."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.core.request.gang_request import GATE, GangKey
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.live.gang_calls import GangCalls, PodReference
from scheduler_ext.features.gangs.live.gang_pods import GangPods
from scheduler_ext.features.gangs.wire.gang_pod import GangPod, gang_pod
from scheduler_ext.wire import kube
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import BUDGETS, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, pod

GANG = GangKey("default", "gang", "train")
NOTES = {"gpu.scheduler-ext.io/gang": "train", "gpu.scheduler-ext.io/gang-size": "2"}


def read(document: Json) -> kube.Pod:
    return msgspec.json.decode(json.dumps(document), type=kube.Pod)


def gated(server: ApiServer, name: str, *others: str) -> GangPod:
    gates = [{"name": each} for each in (*others, GATE)]
    document = pod(name, {"nvidia.com/gpu": "1"}, annotations=NOTES, schedulingGates=gates)
    server.store.put(PODS, document)
    return gang_pod(read(document), ResourceNames())


class Pod(NamedTuple):
    """A pod by its names."""

    uid: str
    namespace: str
    name: str


def running(server: ApiServer, name: str, **labels: str) -> Pod:
    document = pod(name, {"nvidia.com/gpu": "1"}, on="n1")
    document["metadata"]["labels"] = labels
    server.store.put(PODS, document)
    return Pod(f"uid-{name}", "default", name)


def budget(server: ApiServer, app: str, allowed: int) -> None:
    selector = {"matchLabels": {"app": app}}
    found = {"kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"}}
    status = {"disruptionsAllowed": allowed}
    server.store.put(BUDGETS, found | {"spec": {"selector": selector}, "status": status})


def leaving(server: ApiServer) -> list[str]:
    pods = [each.object()["metadata"] for each in server.store.collection(PODS).current()]
    return sorted(each["name"] for each in pods if "deletionTimestamp" in each)


def gates_of(server: ApiServer, name: str) -> list[str]:
    spec = server.store.get(PODS, name, "default").object()["spec"]
    return [each["name"] for each in spec["schedulingGates"]]


def ignored(_: PodReference) -> None:
    """A pod leaves."""


def test_the_gate_goes_and_those_of_others_stay(server: ApiServer, transport: Transport) -> None:
    member = gated(server, "a", "example.com/mine")
    assert GangCalls(transport).lift(member)
    assert gates_of(server, "a") == ["example.com/mine"]


def test_another_pod_of_the_name_keeps_its_gate(server: ApiServer, transport: Transport) -> None:
    member = gated(server, "a")
    server.store.update(
        PODS, "a", lambda old: old | {"metadata": old["metadata"] | {"uid": "another"}}, "default"
    )
    assert not GangCalls(transport).lift(member)
    assert gates_of(server, "a") == [GATE]


def test_all_victims_are_evicted_and_one_that_is_gone_holds_up_no_other(
    server: ApiServer, transport: Transport
) -> None:
    victims = [Pod("uid-gone", "default", "gone"), running(server, "a"), running(server, "b")]
    assert GangCalls(transport).evict_all(victims, GANG, ignored) is None
    assert leaving(server) == ["a", "b"]


def test_no_victim_is_evicted_if_a_budget_refuses_one(server: ApiServer, transport: Transport) -> None:
    budget(server, "web", 0)
    victims = [running(server, "a"), running(server, "b", app="web")]
    refusal = GangCalls(transport).evict_all(victims, GANG, ignored)
    assert refusal is not None
    assert refusal.startswith("pod default/b may not be evicted now")
    assert leaving(server) == []


@pytest.mark.parametrize(
    ("known", "is_current"),
    [
        pytest.param({"web": 1, "api": 0}, True, id="as the API server has them"),
        pytest.param({"web": 2, "api": 0}, False, id="another number of disruptions"),
        pytest.param({"web": 1}, False, id="one less"),
        pytest.param({"web": 1, "api": 0, "gone": 1}, False, id="one more"),
    ],
)
def test_budgets_of_several_victims_are_those_of_the_api_server(
    server: ApiServer, transport: Transport, known: dict[str, int], is_current: bool
) -> None:
    budget(server, "web", 1)
    budget(server, "api", 0)
    victims = [running(server, "a", app="web"), running(server, "b", app="web")]
    others = Budget("elsewhere", "web", PodSelector({}), 0)
    budgets = [Budget("default", app, PodSelector({"app": app}), left) for app, left in known.items()]
    calls = GangCalls(transport)
    assert calls.are_current([*budgets, others], victims) is is_current
    # The API server judges a single eviction.
    assert calls.are_current([], victims[:1])


def test_the_pods_that_leave_are_known_though_a_later_eviction_fails(
    server: ApiServer, transport: Transport
) -> None:
    victims = [running(server, "a"), running(server, "b"), running(server, "c")]
    server.faults.place(Refuse(429), lambda each: "/b/eviction" in each.path and not each.query)
    left: list[PodReference] = []
    with pytest.raises(ClusterError):
        GangCalls(transport).evict_all(victims, GANG, left.append)
    assert [each.name for each in left] == leaving(server) == ["a"]


def test_pods_without_a_gang_are_not_kept(server: ApiServer) -> None:
    kept = GangPods(ResourceNames())
    kept.upsert("uid-a", read(pod("a", {"nvidia.com/gpu": "1"})), None)
    assert (kept.all(), kept.known()) == ([], set())
    noted = pod("b", annotations=NOTES | {"gpu.scheduler-ext.io/max-duration": "2h"})
    kept.upsert("uid-b", read(noted), None)
    assert [each.name for each in kept.all()] == ["b"]
    assert kept.duration_s("uid-b") == 7200
    kept.forget(["uid-b"])
    assert (kept.all(), kept.known()) == ([], set())
