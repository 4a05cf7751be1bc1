"""Binds beyond one share in one container: device plugins, init containers, sidecars."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.views.ledger_dump import ledger_dump
from tests.cluster.api.api_paths import GPU_NODES, GPU_RESERVATIONS, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.enforced import Enforced
from tests.cluster.following import eventually
from tests.core.reported import NAMES
from tests.kube_objects import Json, gpu, gpu_node, holder, names_body, node, pod

pytestmark = pytest.mark.usefixtures("impatient")

HALF = "nvidia.com/mig-3g.40gb"
WHOLE = "nvidia.com/gpu"
ASSIGNED = "gpu.scheduler-ext.io/assigned"


@pytest.fixture
def enforced(server: ApiServer, transport: Transport) -> Iterator[Enforced]:
    """With a node m of one GPU in two halves, and a node w of two whole ones."""
    built = Enforced(server, transport)
    server.store.put(NODES, node("m", {HALF: "2"}))
    server.store.put(NODES, node("w", {WHOLE: "2"}))
    report(built, "m", [in_halves(None, None)])
    report(built, "w", [gpu(0, "GPU-w0"), gpu(1, "GPU-w1")])
    yield built
    built.live.stop()


def in_halves(*held_by: str | None) -> Json:
    """A GPU whose two instances these pods hold."""
    instances = [
        {"uuid": f"MIG-{4 * i}", "profile": "3g.40gb", "start": 4 * i, "size": 4}
        | ({"holder": holder(name)} if name is not None else {})
        for i, name in enumerate(held_by)
    ]
    return gpu(0, "GPU-m0", mig={"enabled": True, "gridSize": 8, "instances": instances})


def report(enforced: Enforced, name: str, devices: list[Json]) -> None:
    found = gpu_node(name, devices, migStrategy="mixed")
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(enforced.server.clock()))
    found["metadata"]["managedFields"] = [{"subresource": "status", "time": written}]
    enforced.server.store.put(GPU_NODES, found)


def container(name: str, limits: Json, **more: str) -> Json:
    return {"name": name, "resources": {"limits": limits}} | more


def waits(enforced: Enforced, name: str, limits: Json, *init: Json) -> Json:
    asking = pod(name, limits, schedulerName="gpu-scheduler", initContainers=list(init))
    enforced.server.store.put(PODS, asking)
    return asking


def passes(enforced: Enforced, asking: Json, on: str) -> bool:
    answer = enforced.extender.filter(names_body(asking, [on]), time.monotonic() + 60)
    return bool(json.loads(answer.body)["NodeNames"] == [on])


def intent(enforced: Enforced, on: str) -> Json:
    """The pod's holdings in the reservation of its node."""
    written = enforced.server.store.get(GPU_RESERVATIONS, on).object()
    (only,) = written["spec"]["intents"]
    found: Json = only["pod"]
    return found


def ledger(enforced: Enforced, on: str) -> Json:
    found: Json = ledger_dump(enforced.live.snapshot, NAMES)["nodes"][on]
    return found


def without_device(enforced: Enforced, on: str) -> list[tuple[str, str, int]]:
    return [
        (each["name"], each["resource"], each["count"]) for each in ledger(enforced, on)["unknownDevices"]
    ]


@pytest.mark.parametrize(
    ("resource", "on"), [pytest.param(HALF, "m", id="MIG instances"), pytest.param(WHOLE, "w", id="GPUs")]
)
class TestWhatADevicePluginPicks:
    def test_units_of_a_device_plugin_are_bound_by_resource_and_count(
        self, enforced: Enforced, resource: str, on: str
    ) -> None:
        waits(enforced, "p", {resource: "1"}, container("load", {resource: "2"}))
        enforced.start()
        assert enforced.bind("p", on) == ""
        annotations = enforced.there("p")["metadata"]["annotations"]
        assert annotations.keys() == {ASSIGNED}
        assert json.loads(annotations[ASSIGNED]) == {
            "node": on,
            "containers": [
                {"container": "load", "resource": resource, "count": 2},
                {"container": "main", "resource": resource, "count": 1},
            ],
        }
        assert intent(enforced, on) == {"priority": 0, "units": [{"resource": resource, "count": 2}]}


def test_an_instance_has_no_device_before_kubelets_report(enforced: Enforced) -> None:
    waits(enforced, "p", {HALF: "1"})
    enforced.start()
    assert enforced.bind("p", "m") == ""
    assert without_device(enforced, "m") == [("p", HALF, 1)]
    assert ledger(enforced, "m")["devices"]["GPU-m0"]["holdings"] == []
    report(enforced, "m", [in_halves(None, "p")])
    eventually(lambda: without_device(enforced, "m") == [])
    (seen,) = ledger(enforced, "m")["devices"]["GPU-m0"]["holdings"]
    assert (seen["name"], seen["profile"], seen["start"]) == ("p", "3g.40gb", 4)
    waits(enforced, "q", {HALF: "2"})
    assert not passes(enforced, enforced.there("q"), "m")
