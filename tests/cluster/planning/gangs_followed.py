"""Extenders that plan gangs on a followed cluster of nodes of one GPU each."""

from __future__ import annotations

import time
from typing import Any

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.core.planning.gang import GATE
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, GangsSection, NominateSection
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.test_agent_labels import EVENTS
from tests.kube_objects import Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
OURS = "gpu.scheduler-ext.io/"
GANGS = Configuration(nominate=NominateSection(enabled=True, gangs=GangsSection(enabled=True)))

PREEMPTING = Configuration(
    nominate=NominateSection(enabled=True, gangs=GangsSection(enabled=True, preempts=True))
)


class Cluster:
    """Nodes of one GPU each, with extenders that plan gangs."""

    def __init__(self, server: ApiServer, transport: Transport, *nodes: str) -> None:
        self.server, self.transport = server, transport
        self.lives: list[LiveInventory] = []
        for name in nodes:
            self.add_node(name)

    def add_node(self, name: str) -> None:
        self.server.store.put(NODES, node(name, {WHOLE: "1", "cpu": "8", "memory": "64Gi", "pods": "110"}))
        self.server.store.put(GPU_NODES, gpu_node(name, [gpu(0, f"GPU-{name}")]))

    def extender(self, config: Configuration = GANGS) -> LiveInventory:
        """A running extender."""
        live = LiveInventory(self.transport, Extender(config), config)
        live.start()
        self.lives.append(live)
        eventually(lambda: live.snapshot is not None)
        return live

    def add(self, name: str, size: int = 2, **fields: Any) -> None:
        """A member of the gang `train`."""
        notes = {f"{OURS}gang": "train", f"{OURS}gang-size": str(size), **fields.pop("notes", {})}
        gates = [] if fields.pop("ungated", False) else [{"name": GATE}]
        spec = {"schedulingGates": gates, "schedulerName": "gpu-scheduler", **fields}
        found = pod(name, {WHOLE: "1"}, annotations=notes, **spec)
        found["metadata"]["creationTimestamp"] = time_text(time.time())
        self.server.store.put(PODS, found)

    def get(self, name: str) -> Json:
        """A pod as it is now."""
        return self.server.store.get(PODS, name, "default").object()

    def bind(self, name: str, on: str) -> None:
        """Bind a pod as kube-scheduler does."""

        def bound(before: Json) -> Json:
            status = before["status"] | {"phase": "Running"}
            return before | {"spec": before["spec"] | {"nodeName": on}, "status": status}

        self.server.store.update(PODS, name, bound, "default")

    def places(self) -> dict[str, str]:
        """The nodes of the nominated pods."""
        pods = [each.object() for each in self.server.store.collection(PODS).current()]
        return {
            each["metadata"]["name"]: node
            for each in pods
            if (node := each["status"].get("nominatedNodeName")) is not None
        }

    def gated(self) -> set[str]:
        """The pods behind the gate."""
        pods = [each.object() for each in self.server.store.collection(PODS).current()]
        return {each["metadata"]["name"] for each in pods if each["spec"].get("schedulingGates")}

    def events(self, reason: str) -> list[Json]:
        """The Events of a reason."""
        found = [each.object() for each in self.server.store.collection(EVENTS).current()]
        return [each for each in found if each["reason"] == reason]

    def stop(self) -> None:
        for live in self.lives:
            live.stop()


def is_lift(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and not request.path.endswith("/status")


def is_eviction(request: Request) -> bool:
    """One that is no dry run."""
    return request.method == "POST" and request.path.endswith("/eviction") and not request.query


def is_nomination(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and request.path.endswith("/status")
