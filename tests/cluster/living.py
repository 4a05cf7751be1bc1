"""An extender on a followed cluster."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any, TypeVar

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.cluster.scheduler_lease import Leadership
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.serving import servings
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, Json, gpu, gpu_node, names_body, node, pod

T = TypeVar("T")

WHOLE = "nvidia.com/gpu"
ROOM = {WHOLE: "2", "nvidia.com/mig-1g.10gb": "7", SHARE: "163840"}
SICK: Json = {"health": {"state": "Unhealthy", "reason": "XID 79"}}
ONE = pod("one", {WHOLE: "1"})
TWO = pod("two", {WHOLE: "2"})


class Living:
    """A live inventory, its extender and its server; starts with the nodes a and b of one GPU each.

    With a `lease` (namespace, name, pod) the extender is active while that pod's scheduler holds it.
    """

    def __init__(
        self, server: ApiServer, transport: Transport, lease: tuple[str, str, str] | None = None
    ) -> None:
        self.server = server
        self._transport = transport
        self._lease = lease
        self.configure(Configuration())
        self.fill()

    def configure(self, config: Configuration) -> None:
        """Another extender, not started yet."""
        self.features = servings(config)
        self.extender = Extender(config, self.features)
        leader = None
        if self._lease is not None:
            namespace, name, own = self._lease
            leader = partial(Leadership, namespace=namespace, name=name, pod=own)
        self.live = LiveInventory(self._transport, self.extender, config, self.features, leader, "me")

    def loop(self, kind: type[T]) -> T:
        """The loop of a feature."""
        return next(each for each in self.live._loops if isinstance(each, kind))

    def fill(self) -> None:
        for name in "ab":
            self.server.store.put(NODES, node(name, ROOM))
            self.report(name, gpu(0))

    def report(self, name: str, *devices: Json, ago_s: float = 0, **metadata: Any) -> None:
        """A node's agent reported these devices so long ago."""
        found = gpu_node(name, devices)
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.server.clock() - ago_s))
        found["metadata"] |= {"managedFields": [{"subresource": "status", "time": written}]} | metadata
        self.server.store.put(GPU_NODES, found)

    def bind(self, name: str, on: str) -> None:
        """Bind a pod that requests a GPU."""
        self.server.store.put(PODS, pod(name, {WHOLE: "1"}, on=on))

    def start(self) -> None:
        """Follow the cluster, and wait until requests are answered and every watch runs."""
        self.live.start()
        eventually(lambda: self.live.snapshot is not None)
        self.server.wait_for_watches(len(self.live.status().watches))

    def greeted(self) -> None:
        """Wait for the first nudge, and forget it."""
        self.server.log.wait_for(writes(NODES))
        eventually(lambda: self.live.recorder.nudges.total() == 1)
        self.server.log.clear()

    def follows(self, name: str) -> None:
        """A node is added, and everything before it is seen once it is."""
        self.server.store.put(NODES, node(name))
        eventually(lambda: self.live.snapshot is not None and name in self.live.snapshot.nodes)

    def info(self, name: str) -> NodeInfo:
        assert self.live.snapshot is not None
        return self.live.snapshot.nodes[name].info

    def fitting(self, asking: Json = ONE) -> str:
        """The nodes of a to c that filter returns."""
        answer = self.extender.filter(names_body(asking, list("abc")), time.monotonic() + 60)
        return "".join(json.loads(answer.body)["NodeNames"])

    def fits(self, names: str, asking: Json = ONE) -> None:
        """Wait until filter returns these nodes."""
        eventually(lambda: self.fitting(asking) == names)

    def notes(self) -> dict[str, str]:
        return {check.name: check.says for check in self.live.status().checks}

    def ready(self) -> bool:
        return all(check.passed for check in self.live.status().checks)

    def nudged(self) -> list[str]:
        return [request.path.rpartition("/")[2] for request in self.server.log.all(writes(NODES))]
