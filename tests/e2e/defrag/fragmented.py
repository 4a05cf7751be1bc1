"""A fragmented cluster of one test: pods of ReplicaSets leave one GPU free on each node."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Self

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.workload import Workload

ONE = {"nvidia.com/gpu": "1"}
HELD = "gpu.scheduler-ext.io/held"


@dataclass
class Fragmented:
    """Nodes of two GPUs. Those of `owned` have a pod of a ReplicaSet each, which may be moved; other pods
    may not."""

    workload: Workload
    _processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the commands, and delete the ReplicaSets before their pods."""
        self.let_go()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for each in self.workload.api.items(self._path()):
            self.workload.api.request(
                "DELETE", f"{self._path()}/{each['metadata']['name']}", {"propagationPolicy": "Background"}
            )
        eventually(lambda: not self.workload.api.items(self._path()), "all ReplicaSets are gone")

    def _path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.workload.namespace}/replicasets"

    def let_go(self) -> None:
        """Let kept pods end."""
        for pod in self.workload.all_pods():
            if pod["metadata"].get("finalizers"):
                path = f"/api/v1/namespaces/{self.workload.namespace}/pods/{pod['metadata']['name']}"
                self.workload.api.patch(path, {"metadata": {"finalizers": None}})

    def owned(self, name: str, node: str, replicas: int = 1, *, kept: bool = False) -> None:
        """A ReplicaSet whose pods are on a node now, and may go to any node when they are created again. The
        first pods are `kept` on their node after their eviction, until `let_go`.
        """
        workload = self.workload
        labels = {"app": name}
        template = workload.pod(ONE, labels=labels)
        # Its first pods are created by hand on the node, and adopted by the ReplicaSet.
        for i in range(replicas):
            pod = workload.pod(ONE, labels=labels, nodeName=node)
            pod["metadata"]["name"] = f"{name}-{i}"
            if kept:
                pod["metadata"]["finalizers"] = ["test.scheduler-ext.io/kept"]
            workload.create(pod)
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        }
        workload.api.create(self._path(), {"metadata": {"name": name}, "spec": spec})
        first = [f"{name}-{i}" for i in range(replicas)]
        eventually(
            lambda: all("ownerReferences" in workload.get(each)["metadata"] for each in first),
            f"{first} are adopted",
        )
        workload.await_running(*first)

    def fixed(self, node: str) -> None:
        """A pod without a controller on a node."""
        self.workload.await_running(self.workload.create(self.workload.pod(ONE, nodeName=node)))

    def waiting(self, gpus: int) -> str:
        """A pod that fits nowhere, as kube-scheduler has found."""
        name = self.workload.create(self.workload.pod({"nvidia.com/gpu": str(gpus)}))
        self.workload.await_event(name, "FailedScheduling")
        return name

    def defrag(self, name: str, *options: str) -> subprocess.Popen[str]:
        """The command, started."""
        kubeconfig = str(self.workload.installation.plane.kubeconfig("admin"))
        command = [sys.executable, "-m", "scheduler_ext", "defrag", "--kubeconfig", kubeconfig]
        command += ["--for", f"{self.workload.namespace}/{name}", "--min-age", "0s", "-o", "json", *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._processes.append(process)
        return process

    def finished(self, process: subprocess.Popen[str], status: int) -> Json:
        """Its answer."""
        stdout, stderr = process.communicate(timeout=90.0)
        assert process.returncode == status, stdout + stderr
        answer: Json = json.loads(stdout)
        answer["stderr"] = stderr
        return answer

    def held(self) -> dict[str, list[Json]]:
        """The rooms that are held, by node."""
        found = [each["metadata"] for each in self.workload.api.items(GPU_NODES)]
        rooms = {each["name"]: each.get("annotations", {}).get(HELD) for each in found}
        return {node: json.loads(text) for node, text in rooms.items() if text}

    def of(self, owner: str) -> list[Json]:
        """The pods of a ReplicaSet."""
        return [
            pod for pod in self.workload.all_pods() if pod["metadata"].get("labels", {}).get("app") == owner
        ]
