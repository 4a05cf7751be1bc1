"""Pods in a namespace `lab`, each on a node of one GPU, whose agents report what the test says."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.cluster.api import Api, eventually
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.workload import GFD, Workload
from tests.kube_objects import gpu, gpu_node, holder

LAB = "lab"
PODS = f"/api/v1/namespaces/{LAB}/pods"
AT = "gpu.scheduler-ext.io/reclaim-at"
RECORD = "gpu.scheduler-ext.io/reclaimed"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = "gpu-scheduler-reclaim"
_BEAT_S = 1.0


class Lab:
    """The pods are idle until `compute`."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.api: Api = installation.api
        self._workload = Workload(installation)
        self._nodes: dict[str, tuple[str, str]] = {}
        self._busy: set[str] = set()
        self._silent: set[str] = set()
        self._beat_at = 0.0
        self._began = time.monotonic()
        self.api.create_namespace(LAB)

    def add(self, name: str, model: str = "T4", **metadata: Any) -> None:
        """A pod that has run for an hour by its node's clock; `metadata` has further fields."""
        node = self._workload.add_node(name, {"nvidia.com/gpu": "1"})
        pod = self._workload.pod({"nvidia.com/gpu": "1"}, nodeName=node)
        pod["metadata"] |= {"name": name, "namespace": LAB, **metadata}
        self.api.create(PODS, pod)
        eventually(lambda: self.api.get(f"{PODS}/{name}")["status"]["phase"] == "Running", f"{name} runs")
        # The kubelet of the tests reports no times for pods without processes.
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
        self.api.patch(f"{PODS}/{name}/status", {"status": {"startTime": started}})
        self._nodes[name] = node, model

    def compute(self, name: str) -> None:
        """From now on the pod's GPU computes."""
        self._busy.add(name)
        self._report(name)

    def silence(self, *names: str) -> None:
        """The agents of these pods report no more: no pod is evicted without a report after its warning."""
        self._silent.update(names)

    def eventually(self, true: Any, what: str, timeout_s: float = 40.0) -> Any:
        """Wait, while agents go on to report."""

        def beating() -> Any:
            if time.monotonic() - self._beat_at > _BEAT_S:
                for name in self._nodes.keys() - self._silent:
                    self._report(name)
                self._beat_at = time.monotonic()
            return true()

        return eventually(beating, what, timeout_s)

    def _report(self, name: str) -> None:
        node, model = self._nodes[name]
        # An equal report would change nothing, and so be no new one.
        idle_s = 0 if name in self._busy else 7200 + int(time.monotonic() - self._began)
        more = {"holders": [holder(name, LAB)], "idleSeconds": idle_s}
        device = gpu(0, f"GPU-{node}", model=model, total=GFD[model][1], **more)
        write_report(self.api, gpu_node(node, [device]))

    def pods(self) -> set[str]:
        """The pods that exist and are not on their way out."""
        found = [each["metadata"] for each in self.api.items(PODS)]
        return {each["name"] for each in found if "deletionTimestamp" not in each}

    def warned(self) -> dict[str, str]:
        """The times of evictions by pod."""
        found = [each["metadata"] for each in self.api.items(PODS)]
        return {each["name"]: each["annotations"][AT] for each in found if AT in each.get("annotations", {})}

    def events(self, reason: str) -> set[str]:
        """The pods with an Event of this reason."""
        path = f"/apis/events.k8s.io/v1/namespaces/{LAB}/events"
        found = self.api.items(path, fieldSelector=f"reason={reason}")
        return {each["regarding"]["name"] for each in found}

    def recorded(self) -> int:
        """The number of pods in the record of evictions."""
        found = self.api.items(LEASES, fieldSelector=f"metadata.name={LEASE}")
        return sum(len(json.loads(each["metadata"]["annotations"][RECORD])) for each in found)
