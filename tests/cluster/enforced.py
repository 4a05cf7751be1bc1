"""An extender that binds, on a server with nodes of shares."""

from __future__ import annotations

import json
import time

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.wire.config import BindSection, Configuration
from tests.cluster.api.api_paths import LEASES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.living import Living
from tests.kube_objects import SHARE, Json, gpu, node, pod

# Of an 80 GiB GPU, less a tenth.
ADVERTISED = 2 * (81920 - 8192)


class Enforced(Living):
    """Two nodes of two GPUs each, shared; an extender that binds, active by the Lease."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        super().__init__(server, transport, ("gpu-scheduler", "gpu-scheduler", "me"))
        self.configure(Configuration(bind=BindSection(enabled=True, deadline="60s")))

    def fill(self) -> None:
        labels = {"gpu.scheduler-ext.io/sharing": "memory"}
        for name in "ab":
            self.server.store.put(NODES, node(name, {SHARE: str(ADVERTISED)}, labels=labels))
            self.report(name, gpu(0, uuid=f"GPU-{name}0"), gpu(1, uuid=f"GPU-{name}1"))

    def held_by(self, holder: str) -> None:
        """Give the Lease to a holder; "me_1" is a scheduler in the extender's own pod."""
        metadata = {"name": "gpu-scheduler", "namespace": "gpu-scheduler", "uid": "lease"}
        self.server.store.put(LEASES, {"metadata": metadata, "spec": {"holderIdentity": holder}})

    def share(self, name: str, mib: int = 36_000) -> Json:
        """A pod waits."""
        asking = pod(name, {SHARE: str(mib)}, schedulerName="gpu-scheduler")
        self.server.store.put(PODS, asking)
        return asking

    def ask_bind(self, name: str, on: str) -> str:
        """The reply to kube-scheduler's request to bind a pod; empty when it is bound."""
        binder = self.live.binder
        assert binder is not None
        asked = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": on}
        answer = binder.bind(json.dumps(asked).encode(), time.monotonic() + binder.deadline_s)
        return str(json.loads(answer.body)["Error"])
