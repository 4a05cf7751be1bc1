"""GPU nodes and pods of one test, in a namespace of its own; all gone when it ends."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import Installation
from tests.kube_objects import gpu, gpu_node

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SCHEDULER = "gpu-scheduler"
# An instance of half an A100 with 80 GB.
MIG_HALF = "nvidia.com/mig-3g.40gb"
# Product label and memory in MiB of the models used here, as GPU Feature Discovery gives them.
GFD = {
    "A100-80GB": ("NVIDIA-A100-SXM4-80GB", 81920),
    "H100-80GB": ("NVIDIA-H100-80GB-HBM3", 81559),
    "T4": ("Tesla-T4", 15360),
}


def discovered(model: str, gpus: int) -> Json:
    """The labels of GPU Feature Discovery."""
    product, total_mib = GFD[model]
    return {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": str(total_mib),
    }


def halves(uuid: str) -> Json:
    """The MIG state of an A100 in two halves."""
    instances = [
        {"uuid": f"MIG-{uuid}-{start}", "profile": "3g.40gb", "start": start, "size": 4} for start in (0, 4)
    ]
    return {"enabled": True, "gridSize": 8, "instances": instances}


class Workload:
    """Creates nodes and pods, waits for their results, and removes them."""

    def __init__(self, installation: Installation) -> None:
        # A test that breaks something and fails before it is repaired should be one failure, not eight.
        installation.await_ready()
        self.installation = installation
        self.api = installation.api
        self.namespace = f"test-{uuid.uuid4().hex[:8]}"
        self._nodes: list[str] = []
        self._cluster_objects: list[str] = []
        # Reports of nodes that are not yet written.
        self._unwritten: dict[str, Json] = {}
        self._gpu_nodes: set[str] = set()
        self._numbers = itertools.count()
        self.api.create_namespace(self.namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything and wait until it is gone, so that the next test finds the cluster empty."""
        try:
            self.api.request("DELETE", self._pods, {"gracePeriodSeconds": 0})
            eventually(lambda: not self.api.items(self._pods), "all pods are gone")
        finally:
            nodes = [f"{root}/{name}" for name in self._nodes for root in (GPU_NODES, "/api/v1/nodes")]
            for path in (*self._cluster_objects, *nodes):
                self.api.delete(path)
            self.api.delete(f"/api/v1/namespaces/{self.namespace}")

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def name(self, stem: str) -> str:
        """A node name that no other test uses."""
        return f"{self.namespace[5:]}-{stem}"

    def add_node(
        self,
        stem: str,
        resources: Json,
        devices: Sequence[Json] = (),
        labels: Json | None = None,
        **status: Any,
    ) -> str:
        """A GPU node with room for anything but its `resources`, and a GPUNode for it if it has devices.

        `status` are further fields of the GPUNode's status. `publish` writes the report.
        """
        name = self.name(stem)
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", **resources}
        self.api.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
                "spec": {"taints": [TAINT]},
                "status": {"capacity": room},
            },
        )
        self._nodes.append(name)
        self._gpu_nodes.add(name)
        if devices:
            self.report(name, devices, **status)
        return name

    def add_whole(self, stem: str, gpus: int, model: str = "A100-80GB", labels: Json | None = None) -> str:
        """A node of whole GPUs, all free, with the labels of GPU Feature Discovery."""
        total_mib = GFD[model][1]
        devices = [gpu(i, f"GPU-{self.name(stem)}-{i}", model=model, total=total_mib) for i in range(gpus)]
        every = discovered(model, gpus) | (labels or {})
        return self.add_node(stem, {"nvidia.com/gpu": str(gpus)}, devices, every)

    def add_mig(self, stem: str, gpus: int = 1, labels: Json | None = None) -> str:
        """A node of A100s in two halves each, all free."""
        uuids = [f"GPU-{self.name(stem)}-{i}" for i in range(gpus)]
        devices = [gpu(i, each, mig=halves(each)) for i, each in enumerate(uuids)]
        return self.add_node(stem, {MIG_HALF: str(2 * gpus)}, devices, labels, migStrategy="mixed")

    def remove_node(self, name: str) -> None:
        """Delete a node and its report."""
        for root in (GPU_NODES, "/api/v1/nodes"):
            self.api.delete(f"{root}/{name}")
        self._nodes.remove(name)
        self._gpu_nodes.discard(name)

    def report(self, node: str, devices: Sequence[Json], **status: Any) -> None:
        """Set a node's GPUNode from the next `publish` on."""
        self._unwritten[node] = gpu_node(node, devices, **status)

    def publish(self, *, all_known: bool = True) -> None:
        """Write the nodes' reports, as agents would, and wait until every extender knows them, and a GPU of
        each node (not `all_known`: of some)."""
        before = self.installation.generations()
        for name in self._nodes:
            self._await_settled(name)
        self.write_reports()
        self.installation.await_inventory(len(self._gpu_nodes) if all_known else None, before)

    def write_reports(self) -> None:
        """Write the nodes' reports, as agents would."""
        for name, report in self._unwritten.items():
            self._await_settled(name)
            write_report(self.api, report)
        self._unwritten = {}

    def _await_settled(self, name: str) -> None:
        def settled() -> bool:
            status = self.api.get(f"/api/v1/nodes/{name}")["status"]
            return bool(status.get("allocatable", {}).keys() >= status["capacity"].keys())

        eventually(settled, f"node {name} has allocatable")

    def add_priority_class(self, stem: str, value: int) -> str:
        """A PriorityClass of this test."""
        name = self.name(stem)
        collection = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.api.create(collection, {"metadata": {"name": name}, "value": value})
        self._cluster_objects.append(f"{collection}/{name}")
        return name

    def pod(
        self,
        limits: Json | None = None,
        *,
        annotations: Json | None = None,
        scheduler: str = SCHEDULER,
        containers: Sequence[Json] | None = None,
        labels: Json | None = None,
        **spec: Any,
    ) -> Json:
        """A pod that tolerates GPU nodes, not yet created."""
        name = f"pod-{next(self._numbers)}"
        main = {"name": "main", "image": "train:1", "resources": {"limits": limits or {}}}
        return {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "annotations": annotations or {},
                "labels": labels or {},
            },
            "spec": {
                "schedulerName": scheduler,
                "tolerations": [TOLERATION],
                "containers": list(containers or [main]),
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }

    def create(self, pod: Json) -> str:
        """Create it; its name."""
        name: str = self.api.create(self._pods, pod)["metadata"]["name"]
        return name

    def create_all(self, pods: Sequence[Json]) -> list[str]:
        """Create many at once; their names."""
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(self.create, pods))

    def load(self, node: str) -> None:
        """Let a pod take half of a node's processors and memory: kube-scheduler itself then prefers other
        nodes, and the extender is indifferent.
        """
        half = {"requests": {"cpu": "32", "memory": "256Gi"}}
        container = {"name": "main", "image": "load:1", "resources": half}
        self.await_running(self.create(self.pod(nodeName=node, containers=[container])))

    def remove(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        self.api.delete(f"{self._pods}/{name}")
        alone = f"metadata.name={name}"
        eventually(lambda: not self.api.items(self._pods, fieldSelector=alone), f"{name} is gone")

    def get(self, name: str) -> Json:
        """The pod as it is now."""
        return self.api.get(f"{self._pods}/{name}")

    def all_pods(self) -> list[Json]:
        """All pods of this test."""
        return self.api.items(self._pods)

    def await_node(self, name: str, timeout_s: float = 30.0) -> str:
        """The node a pod is bound to."""
        return str(eventually(lambda: self.get(name)["spec"].get("nodeName"), f"{name} is bound", timeout_s))

    def await_running(self, *names: str) -> None:
        """Wait until these pods run, because each of their changes wakes a waiting pod."""

        def running() -> bool:
            pods = (pod for pod in self.all_pods() if pod["metadata"]["name"] in names)
            return [pod["status"]["phase"] for pod in pods] == ["Running"] * len(names)

        eventually(running, f"these pods run: {names}", 60.0)

    def place(self, pod: Json) -> str:
        """Create a pod and wait for its node."""
        return self.await_node(self.create(pod))

    def place_seen(self, pod: Json) -> str:
        """As `place`, and wait until every extender knows the pod on its node."""
        before = self.installation.generations()
        node = self.place(pod)
        self.installation.await_inventory(len(self._gpu_nodes), before)
        return node

    def unscheduled(self, name: str) -> Json:
        """Why it has no node: its condition PodScheduled; empty before the first attempt, and when bound."""
        for condition in self.get(name)["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return dict(condition)
        return {}

    def events(self, name: str, reason: str) -> list[Json]:
        """The pod's events of one reason, oldest first."""
        query = {"fieldSelector": f"regarding.name={name},reason={reason}"}
        return self.api.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events", **query)

    def await_event(self, name: str, reason: str) -> Json:
        """The first event of a reason."""
        return eventually(lambda: self.events(name, reason), f"{name} has an event {reason}")[0]
