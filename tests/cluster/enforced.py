"""An extender that binds, on a server with nodes of shares."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.live import LiveInventory
from scheduler_ext.cluster.scheduler_lease import Leadership
from scheduler_ext.counters import LabelValues
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import BindSection, Configuration, FilterSection
from tests.cluster.api.api_paths import GPU_NODES, LEASES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, Json, gpu, gpu_node, names_body, node, pod

LABELS = {"gpu.scheduler-ext.io/sharing": "memory"}
# Of an 80 GiB GPU, less a tenth.
ADVERTISED = 2 * (81920 - 8192)
HALF = 36_000
DEVICES = "devices.gpu.scheduler-ext.io/main"


class Enforced:
    """Two nodes of two GPUs each, shared; an extender that binds."""

    def __init__(
        self, server: ApiServer, transport: Transport, lease: bool = False, max_candidates: int = 100
    ) -> None:
        self.server = server
        config = Configuration(
            filter=FilterSection(max_candidates=max_candidates),
            bind=BindSection(enabled=True, deadline="60s"),
        )
        self.extender = Extender(config)
        leader = partial(Leadership, namespace="gpu-scheduler", name="gpu-scheduler", pod="me")
        self.live = LiveInventory(transport, self.extender, config, leader if lease else None, "me")
        for name in "ab":
            server.store.put(NODES, node(name, {SHARE: str(ADVERTISED)}, labels=LABELS))
            self.report(name)

    def report(self, name: str) -> None:
        found = gpu_node(name, [gpu(0, uuid=f"GPU-{name}0"), gpu(1, uuid=f"GPU-{name}1")])
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.server.clock()))
        found["metadata"]["managedFields"] = [{"subresource": "status", "time": written}]
        self.server.store.put(GPU_NODES, found)

    def start(self) -> None:
        self.live.start()
        eventually(lambda: self.live.snapshot is not None)
        self.server.wait_for_watches(len(self.live.status().watches))

    def share(self, name: str, mib: int = HALF) -> Json:
        asking = pod(name, {SHARE: str(mib)}, schedulerName="gpu-scheduler")
        self.server.store.put(PODS, asking)
        return asking

    def bind(self, name: str, on: str, uid: str = "") -> str:
        """The reply to kube-scheduler; empty when the pod is bound."""
        binder = self.live.binder
        assert binder is not None
        asked = {
            "PodName": name,
            "PodNamespace": "default",
            "PodUID": uid or f"uid-{name}",
            "Node": on,
        }
        answer = binder.bind(json.dumps(asked).encode(), time.monotonic() + binder.deadline_s)
        return str(json.loads(answer.body)["Error"])

    def there(self, name: str) -> Json:
        found: Json = self.server.store.get(PODS, name, "default").object()
        return found

    def gpu_of(self, name: str) -> str:
        found = self.there(name)["metadata"]["annotations"][DEVICES]
        assert isinstance(found, str)
        return found

    def fitting(self, asking: Json) -> str:
        answer = self.extender.filter(names_body(asking, list("ab")), time.monotonic() + 60)
        return "".join(json.loads(answer.body)["NodeNames"])

    def counted(self) -> Counter[LabelValues]:
        assert self.live.binder is not None
        return +self.live.binder.results


def held_by(server: ApiServer, holder: str) -> None:
    """Give the Lease to a holder; "me_1" is a scheduler in the extender's own pod."""
    metadata = {"name": "gpu-scheduler", "namespace": "gpu-scheduler", "uid": "lease"}
    server.store.put(LEASES, {"metadata": metadata, "spec": {"holderIdentity": holder}})
