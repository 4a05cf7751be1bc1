"""Machine types of a cloud that does not exist, and the node groups in which Karpenter may buy them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tests.e2e.cluster.api import Json
from tests.e2e.workload import GFD, MIG_HALF, TAINT, discovered, halves
from tests.kube_objects import gpu

CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
SPOT, ON_DEMAND = "spot", "on-demand"
WHOLE, SHARES, MIG = "whole", "memory-shares", "mig"
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
    """Machines of one type whose GPUs are handed out in one way: WHOLE, SHARES, or MIG, in halves."""

    name: str
    machine: Machine
    kind: str = WHOLE
    capacity_type: str = SPOT

    @property
    def plugin_resources(self) -> dict[str, str]:
        """What the device plugin adds; for shares, the extender adds its own."""
        gpus = self.machine.gpus
        return {WHOLE: {_GPU: str(gpus)}, SHARES: {}, MIG: {MIG_HALF: str(2 * gpus)}}[self.kind]

    @property
    def discovered_labels(self) -> Json:
        """What GPU Feature Discovery adds."""
        return discovered(self.machine.model, self.machine.gpus)

    def devices(self, node: str) -> list[Json]:
        """The GPUs of a node as its agent reports them."""
        model = self.machine.model
        uuids = [f"GPU-{node[-20:]}-{index}" for index in range(self.machine.gpus)]
        devices = [gpu(index, uuid, total=GFD[model][1], model=model) for index, uuid in enumerate(uuids)]
        if self.kind == MIG:
            return [each | {"mig": halves(each["uuid"])} for each in devices]
        return devices

    def row(self) -> Json:
        """The group in the table of `scheduler-ext autoscaler-config`."""
        return {
            "name": self.name,
            "instanceTypes": [self.machine.name],
            "model": self.machine.model,
            "gpusPerNode": self.machine.gpus,
            "memoryMiB": GFD[self.machine.model][1],
            "handOut": self.kind,
            **({"mig": {"profiles": {"3g.40gb": 2}}} if self.kind == MIG else {}),
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
