"""Nodes of shared GPUs and pods that request shares of them, on a cluster with the overlay for shares."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.history import Recorder, audited, wrongs
from tests.e2e.installation import Installation, running_installation
from tests.e2e.shares.share_cluster import NAMESPACE as SHARES
from tests.e2e.shares.share_cluster import ShareCluster
from tests.e2e.workload import Workload
from tests.held import DEVICES
from tests.kube_objects import SHARE, gpu

SHARING = {"gpu.scheduler-ext.io/sharing": "memory"}
TOTAL_MIB = 81920
# Less the default headroom of a tenth.
ROOM_MIB = TOTAL_MIB - 8192
HALF = ROOM_MIB // 2
ACCOUNT = "system:serviceaccount:gpu-scheduler:gpu-scheduler-extender"
_INSPECT_PORT = 8890


class ShareWorkload(Workload):
    """A Workload with shares."""

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation)
        self._reports: dict[str, Json] = {}
        self._sequence = 1

    def add_shared(self, stem: str, gpus: int, labels: Json | None = None) -> str:
        """A node whose GPUs are offered as shares; the extender advertises them."""
        devices = [gpu(i, self.gpu(stem, i), total=TOTAL_MIB) for i in range(gpus)]
        return self.add_node(stem, {}, devices, SHARING | (labels or {}))

    def gpu(self, stem: str, index: int) -> str:
        """The UUID of a GPU of `add_shared`."""
        return f"GPU-{self.name(stem)}-{index}"

    def report(self, node: str, devices: Sequence[Json], **status: Any) -> None:
        super().report(node, devices, sequence=self._sequence, **status)
        self._reports[node] = self._unwritten[node]

    def publish(self, *, all_known: bool = True) -> None:
        """As in every Workload; then nodes of shares advertise their memory."""
        super().publish(all_known=all_known)
        for node, report in self._reports.items():
            if SHARING.items() <= self.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].items():
                self.await_advertised(node, ROOM_MIB * len(report["status"]["devices"]))

    def renew(self) -> None:
        """Repeat the reports of all nodes, as agents do, so that they do not become stale."""
        self._sequence += 1
        for report in self._reports.values():
            report["status"]["sequence"] = self._sequence
            write_report(self.api, report)

    def advertised(self, node: str) -> list[str | None]:
        """The amounts in capacity and allocatable."""
        status = self.api.get(f"/api/v1/nodes/{node}")["status"]
        return [status[kind].get(SHARE) for kind in ("capacity", "allocatable")]

    def await_advertised(self, node: str, mib: int) -> None:
        """Wait until a node advertises this amount."""
        wanted = [str(mib), str(mib)]
        eventually(lambda: self.advertised(node) == wanted, f"{node} advertises {mib}")

    def share(self, mib: int = HALF, **fields: Any) -> Json:
        """A pod with one share."""
        return self.pod({SHARE: str(mib)}, **fields)

    def devices(self, name: str) -> dict[str, str]:
        """The GPU of each container of a bound pod."""
        return devices_of(self.get(name))

    def place_on_gpu(self, pod: Json) -> str:
        """Create a pod with one share and wait; its GPU."""
        name = self.create(pod)
        self.await_node(name)
        return self.devices(name)["main"]

    def bind(self, name: str, node: str) -> None:
        """Bind a pod as the administrator, who may bind but assigns no GPU."""
        metadata = {"name": name, "namespace": self.namespace}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.api.create(f"{self._pods}/{name}/binding", {**binding, "target": target})

    def bound(self) -> list[str]:
        """The names of the pods that have a node."""
        return [pod["metadata"]["name"] for pod in self.all_pods() if "nodeName" in pod["spec"]]

    def pods_by_gpu(self) -> Counter[str]:
        """The number of pods with one share on each GPU."""
        annotations = [pod["metadata"].get("annotations", {}) for pod in self.all_pods()]
        return Counter(found[key] for found in annotations if (key := f"{DEVICES}main") in found)

    def remove_all(self) -> None:
        """Delete all pods, and wait until they are gone."""
        self.api.request("DELETE", self._pods, {"gracePeriodSeconds": 0})
        eventually(lambda: not self.all_pods(), "all pods are gone")

    def wrongs(self, recorder: Recorder) -> list[str]:
        """All errors in the recorded history of this namespace's pods."""
        room = {f"{node}/{resource}": int(amount) for node, resource, amount in self._handed_out()}
        for report in self._reports.values():
            room |= {device["uuid"]: ROOM_MIB for device in report["status"]["devices"]}
        writes = audited(self.installation.plane.audit_log)
        return wrongs(recorder.events, writes, self.namespace, room, ACCOUNT)

    def _handed_out(self) -> Iterator[tuple[str, str, str]]:
        """The resources of device plugins."""
        for node in self._nodes:
            for resource, amount in self.api.get(f"/api/v1/nodes/{node}")["status"]["capacity"].items():
                if resource.startswith("nvidia.com/"):
                    yield node, resource, amount

    def ledger(self, pod: RunningPod) -> Json:
        """The nodes of one extender's ledger."""
        url = f"http://{LOOPBACK}:{pod.ports.local(_INSPECT_PORT)}/debug/ledger"
        nodes: Json = json.loads(unverified.get(url))["nodes"]
        return nodes


def devices_of(pod: Json) -> dict[str, str]:
    """The GPU of each container of a bound pod."""
    annotations = pod["metadata"].get("annotations", {})
    return {key.removeprefix(DEVICES): value for key, value in annotations.items() if key.startswith(DEVICES)}


@contextlib.contextmanager
def running_share_installation(
    directory: Path, overlay: str | Path = "overlays/shares", **options: Any
) -> Iterator[Installation]:
    """A cluster of its own with an overlay of shares installed, whose API server logs all Bindings; `options`
    are those of `running_cluster`.
    """
    with running_installation(directory, overlay, audit=True, **options) as installation:
        installation.api.create_namespace(SHARES)
        ShareCluster(installation.plane).await_policies()
        yield installation
