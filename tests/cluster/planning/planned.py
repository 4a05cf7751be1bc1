"""Extenders that plan ahead on a followed cluster of the nodes a and b, of two GPUs each."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.cluster.planning.planning import Planning
from scheduler_ext.cluster.scheduler_lease import Leadership
from scheduler_ext.core.planning.plan import Entry, State
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, NominateSection
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import WHOLE, Living
from tests.kube_objects import Json, gpu, node, pod

ROOM = {WHOLE: "2", "cpu": "64", "memory": "512Gi", "pods": "110"}


class Ahead:
    """The server, and the extenders that were started."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self._transport = transport
        self.running: list[Living] = []

    def start(self, lease: tuple[str, str, str] | None = None, **settings: Any) -> Living:
        """One more extender that plans."""
        config = Configuration(nominate=NominateSection(**{"enabled": True, "from_nodes": 0, **settings}))
        living = Living(self.server, self._transport)
        living.extender = Extender(config)
        leader = None
        if lease is not None:
            leader = partial(Leadership, namespace=lease[0], name=lease[1], pod=lease[2])
        living.live = LiveInventory(self._transport, living.extender, config, leader)
        for name in "ab":
            self.server.store.put(NODES, node(name, ROOM))
            living.report(name, gpu(0, f"{name}0"), gpu(1, f"{name}1"))
        self.running.append(living)
        living.live.start()
        eventually(lambda: living.live.snapshot is not None)
        eventually(lambda: all(len(living.info(name).devices) == 2 for name in "ab"))
        return living

    def wait(self, name: str, **fields: Any) -> Json:
        """A pod of one GPU waits; `fields` are further ones of its spec."""
        status = fields.pop("status", {})
        made = pod(name, {WHOLE: "1"}, **{"schedulerName": "gpu-scheduler", **fields})
        made["status"] |= status
        made["metadata"]["creationTimestamp"] = "2026-11-28T00:00:00Z"
        self.server.store.put(PODS, made)
        return made

    def get(self, name: str) -> Json:
        return self.server.store.get(PODS, name, "default").object()

    def nominated(self, name: str) -> str | None:
        """The node in a pod's status, if it is that of the annotation."""
        found = self.get(name)
        text = found["metadata"].get("annotations", {}).get(PLANNED_ANNOTATION)
        node_name: str | None = found["status"].get("nominatedNodeName")
        return node_name if text is not None and json.loads(text)["node"] == node_name else None

    def bind(self, name: str, on: str) -> None:
        """kube-scheduler binds a pod."""
        found = self.get(name)
        found["spec"]["nodeName"] = on
        found["status"]["phase"] = "Running"
        self.server.store.put(PODS, found)

    def writes(self) -> int:
        """The number of writes to pods."""
        return len(
            self.server.log.all(lambda request: request.method == "PATCH" and "/pods/" in request.path)
        )


def planning(living: Living) -> Planning:
    assert living.live.planning is not None
    return living.live.planning


def entries(living: Living) -> dict[str, Entry]:
    return {entry.name: entry for entry in planning(living).plan().entries}


def states(living: Living) -> dict[str, State]:
    return {name: entry.state for name, entry in entries(living).items()}


def outcomes(living: Living) -> Counter[str]:
    found = planning(living).nominations
    return Counter({str(outcome): count for outcome, count in dict(found).items() if count})
