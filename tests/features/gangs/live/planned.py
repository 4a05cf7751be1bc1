"""Extenders that plan for refused pods, and for gangs as well, on a followed cluster."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from typing import Any

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.cluster.scheduler_lease import Leadership
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.gang_request import GATE
from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.gangs.live.own_writes import OwnWrites
from scheduler_ext.features.gangs.live.planning import Planning
from scheduler_ext.features.gangs.planning.plan import Entry, State
from scheduler_ext.features.gangs.serving import GangsServing
from scheduler_ext.features.gangs.settings import GangsSection, NominateSection
from scheduler_ext.features.gangs.wire.nomination import START_BY
from scheduler_ext.server.serving import AllFeatures, servings
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.test_agent_labels import EVENTS
from tests.kube_objects import Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
OURS = "gpu.scheduler-ext.io/"
REFUSED: Json = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
GANGS = GangsSection(enabled=True)
PREEMPTING = GangsSection(enabled=True, preempts=True)


class Planned:
    """The server, and the extenders that were started."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server, self.transport = server, transport
        self.lives: list[LiveInventory] = []

    def add_nodes(self, *names: str, gpus: int = 1) -> None:
        """Nodes of so many GPUs each."""
        for name in names:
            self.server.store.put(NODES, node(name, {WHOLE: str(gpus)}))
            devices = [gpu(i, f"GPU-{name}-{i}") for i in range(gpus)]
            self.server.store.put(GPU_NODES, gpu_node(name, devices))

    def extender(
        self, gangs: GangsSection | None = None, lease: tuple[str, str, str] | None = None
    ) -> LiveInventory:
        """One more extender that plans, and writes while it holds the lease (namespace, name, pod)."""
        config = Configuration().with_sections(NominateSection(gangs=gangs or GangsSection()))
        leader = None
        if lease is not None:
            leader = partial(Leadership, namespace=lease[0], name=lease[1], pod=lease[2])
        features = servings(config)
        live = LiveInventory(self.transport, Extender(config, features), config, features, leader)
        self.lives.append(live)
        live.start()
        eventually(lambda: live.snapshot is not None)
        return live

    def wait(self, name: str, **fields: Any) -> Json:
        """A pod of one GPU waits that kube-scheduler found no node for, unless it has gates; `fields` are
        its annotations, its status, and further ones of its spec."""
        tried = {} if fields.get("schedulingGates") else {"conditions": [REFUSED]}
        status = tried | fields.pop("status", {})
        made = pod(name, {WHOLE: "1"}, **{"schedulerName": "gpu-scheduler", **fields})
        made["status"] |= status
        made["metadata"]["creationTimestamp"] = time_text(time.time())
        self.server.store.put(PODS, made)
        return made

    def add(
        self, *names: str, size: int = 2, gang: str = "train", ungated: bool = False, **fields: Any
    ) -> None:
        """Members of a gang."""
        notes = {f"{OURS}gang": gang, f"{OURS}gang-size": str(size), **fields.pop("annotations", {})}
        gates = [] if ungated else [{"name": GATE}]
        for name in names:
            self.wait(name, annotations=notes, schedulingGates=gates, **fields)

    def get(self, name: str) -> Json:
        """A pod as it is now."""
        return self.server.store.get(PODS, name, "default").object()

    def bind(self, name: str, on: str) -> None:
        """Bind a pod as kube-scheduler does."""

        def bound(before: Json) -> Json:
            status = before["status"] | {"phase": "Running"}
            return before | {"spec": before["spec"] | {"nodeName": on}, "status": status}

        self.server.store.update(PODS, name, bound, "default")

    def nominated(self, name: str) -> str | None:
        """The node in a pod's status, if it is that of the annotation."""
        found = self.get(name)
        text = found["metadata"].get("annotations", {}).get(PLANNED_ANNOTATION)
        node_name: str | None = found["status"].get("nominatedNodeName")
        return node_name if text is not None and json.loads(text)["node"] == node_name else None

    def places(self) -> dict[str, str]:
        """The nodes of the nominated pods."""
        found = {name: self.nominated(name) for name in self._pods()}
        return {name: node_name for name, node_name in found.items() if node_name is not None}

    def gated(self) -> set[str]:
        """The pods behind a gate."""
        return {name for name, each in self._pods().items() if each["spec"].get("schedulingGates")}

    def events(self, reason: str, part: str = "") -> set[str]:
        """The pods that Events of a reason are about, those whose note has this part."""
        found = [each.object() for each in self.server.store.collection(EVENTS).current()]
        return {
            each["regarding"]["name"] for each in found if each["reason"] == reason and part in each["note"]
        }

    def writes(self) -> int:
        """The number of writes to pods."""
        return len(self.server.log.all(writes(PODS, "PATCH")))

    def _pods(self) -> dict[str, Json]:
        pods = [each.object() for each in self.server.store.collection(PODS).current()]
        return {each["metadata"]["name"]: each for each in pods}


def started(until: float) -> Json:
    """The status of a member whose gang has until then to start."""
    return {"conditions": [{"type": START_BY, "status": "True", "message": time_text(until)}]}


def is_lift(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and not request.path.endswith("/status")


def is_eviction(request: Request) -> bool:
    """One that is no dry run."""
    return request.method == "POST" and request.path.endswith("/eviction") and not request.query


def is_nomination(request: Request) -> bool:
    return writes(PODS, "PATCH")(request) and request.path.endswith("/status")


def info(live: LiveInventory, name: str) -> NodeInfo:
    assert live.snapshot is not None
    return live.snapshot.nodes[name].info


def serving(live: LiveInventory) -> GangsServing:
    assert isinstance(live._features, AllFeatures)
    return next(each for each in live._features.features if isinstance(each, GangsServing))


def planning(live: LiveInventory) -> Planning:
    return next(each for each in live._loops if isinstance(each, Planning))


def own_writes(live: LiveInventory) -> OwnWrites:
    """What it wrote on pods of gangs."""
    gangs = planning(live).gangs
    assert gangs is not None
    return gangs.writes.own


def entries(live: LiveInventory) -> dict[str, Entry]:
    return {entry.name: entry for entry in planning(live).plan().entries}


def waits_for(live: LiveInventory, name: str = "a") -> str:
    """What a pod waits for with its gang."""
    wait = serving(live).wait_of(f"uid-{name}")
    return wait.text if wait is not None else ""


def states(live: LiveInventory) -> dict[str, State]:
    return {name: entry.state for name, entry in entries(live).items()}


def outcomes(live: LiveInventory) -> Counter[str]:
    found = planning(live).nominations
    return Counter({str(outcome): count for outcome, count in dict(found).items() if count})
