"""Machine types of a cloud that does not exist, and the node groups in which Karpenter may buy them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tests.e2e.cluster.api import Json
from tests.e2e.workload import GFD, TAINT
from tests.kube_objects import SHARE, gpu

CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
SPOT, ON_DEMAND = "spot", "on-demand"
WHOLE, SHARES = "whole", "memory-shares"
_GPU = "nvidia.com/gpu"
_ZONE = "test-zone-a"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine type. `price` is that of on-demand, per hour; spot costs 40 % of it."""

    name: str
    model: str
    gpus: int
    price: float

    @property
    def room(self) -> dict[str, str]:
        """What a kubelet finds there without a device plugin."""
        return {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "200Gi", "pods": "110"}

    def as_instance_type(self) -> Json:
        """In the form of the file of Karpenter's kwok provider. A cloud states the GPUs of its machines."""
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {**self.room, _GPU: str(self.gpus)},
            "offerings": [
                {
                    "Price": price,
                    "Available": True,
                    "Requirements": [_in(CAPACITY_TYPE, kind), _in("topology.kubernetes.io/zone", _ZONE)],
                }
                for kind, price in ((SPOT, 0.4 * self.price), (ON_DEMAND, self.price))
            ],
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Machines of one type whose GPUs are handed out in one way: WHOLE, SHARES, or by a MIG profile, of which
    each GPU has `instances`.
    """

    name: str
    machine: Machine
    kind: str = WHOLE
    instances: int = 1
    capacity_type: str = SPOT

    @property
    def resource(self) -> str:
        """What its pods request."""
        return {WHOLE: _GPU, SHARES: SHARE}.get(self.kind, f"nvidia.com/mig-{self.kind}")

    @property
    def gpu_mib(self) -> int:
        """The memory of one GPU that may be promised: shares leave a tenth free."""
        total = GFD[self.machine.model][1]
        return total - total // 10 if self.kind == SHARES else total

    @property
    def amount(self) -> int:
        """How much of `resource` a node has."""
        each = {WHOLE: 1, SHARES: self.gpu_mib}.get(self.kind, self.instances)
        return self.machine.gpus * each

    @property
    def plugin_resources(self) -> dict[str, str]:
        """What the device plugin adds; for shares, the extender adds its own."""
        return {} if self.kind == SHARES else {self.resource: str(self.amount)}

    @property
    def discovered_labels(self) -> dict[str, str]:
        """What GPU Feature Discovery adds."""
        product, total_mib = GFD[self.machine.model]
        return {
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(total_mib),
            "nvidia.com/gpu.count": str(self.machine.gpus),
        }

    def devices(self, node: str) -> list[Json]:
        """The GPUs of a node as its agent reports them."""
        total_mib = GFD[self.machine.model][1]
        uuids = [f"GPU-{node[-20:]}-{index}" for index in range(self.machine.gpus)]
        return [
            gpu(index, uuid, total=total_mib, model=self.machine.model, **self._mig(uuid))
            for index, uuid in enumerate(uuids)
        ]

    def _mig(self, uuid: str) -> Json:
        if self.kind in (WHOLE, SHARES):
            return {}
        size = 8 // self.instances
        instances = [
            {"uuid": f"MIG-{uuid}-{number}", "profile": self.kind, "start": number * size, "size": size}
            for number in range(self.instances)
        ]
        return {"mig": {"enabled": True, "gridSize": 8, "instances": instances}}

    def row(self) -> Json:
        """The group in the table of `scheduler-ext autoscaler-config`."""
        is_mig = self.kind not in (WHOLE, SHARES)
        return {
            "name": self.name,
            "instanceTypes": [self.machine.name],
            "model": self.machine.model,
            "gpusPerNode": self.machine.gpus,
            "memoryMiB": GFD[self.machine.model][1],
            "handOut": "mig" if is_mig else self.kind,
            **({"mig": {"profiles": {self.kind: self.instances}}} if is_mig else {}),
            "capacityType": self.capacity_type,
            "max": 20,
            "taints": [TAINT],
        }


def table(groups: Iterable[NodeGroup], consolidate_after: str) -> str:
    """The file for `scheduler-ext autoscaler-config`."""
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return json.dumps(
        {
            "apiVersion": "cli.scheduler-ext.io/v1alpha1",
            "kind": "NodeGroups",
            "karpenter": {"nodeClass": node_class, "consolidateAfter": consolidate_after},
            "groups": [group.row() for group in groups],
        }
    )


def _in(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}
