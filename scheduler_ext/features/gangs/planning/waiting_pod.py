"""A waiting pod, as the planner sees it."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from scheduler_ext.core.intree import PodNeeds
from scheduler_ext.core.node.node import BoundPod, PlannedNode
from scheduler_ext.core.request.request import GpuRequest

# Amounts of resources are whole numbers of thousandths.
MILLI = 1000
PODS = "pods"
# To compare requests by size: a large GPU has about so much memory, and MIG divides it into seven.
_GPU_MIB = 80 * 1024
_SLICES = 7

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPod:
    """What a waiting pod asks: GPUs in `pod`, and of other resources `amounts`, in thousandths of their
    units. Pods of one `kind` fit on the same nodes. `number` is the order in which pods of one age came.
    `was_tried`: kube-scheduler has found no node for it yet, and waits for an event. `nominated` is the node
    in its status, `planned` what a planner wrote there. A pod with a text in `not_modelled` or `invalid`
    cannot be planned, and one that is `gated` is not tried. kube-scheduler may refuse a place for what is in
    `unchecked`, which no planner checks."""

    pod: BoundPod
    needs: PodNeeds
    amounts: Amounts
    kind: Hashable
    gpus: float
    number: int = 0
    was_tried: bool = False
    nominated: str | None = None
    planned: PlannedNode | None = None
    not_modelled: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    invalid: str | None = None
    gated: bool = False

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def priority(self) -> int:
        return self.pod.priority

    @property
    def request(self) -> GpuRequest:
        return self.pod.request

    @property
    def is_foreign(self) -> bool:
        """Whether another component has nominated it."""
        return self.nominated is not None and (self.planned is None or self.planned.node != self.nominated)

    def numbered(self, number: int) -> "WaitingPod":
        """The same pod with this number."""
        return replace(self, number=number)

    @property
    def rank(self) -> tuple[int, float, int]:
        """The order in which kube-scheduler tries pods: by priority, then by age."""
        return -self.priority, self.pod.created_at or 0.0, self.number


def asked_gpus(request: GpuRequest) -> float:
    """The size of a request in GPUs, parts of one included."""
    size = 0.0
    for ask in request.units:
        slices = int(ask.profile.partition("g.")[0].rpartition(".")[2]) if ask.profile else _SLICES
        size += max(ask.count, 1) * min(slices / _SLICES, 1.0)
    if request.shares is not None:
        size += request.shares.total_mib / _GPU_MIB
    return size


def amounts_needed(requests: Mapping[str, Fraction], ignored: frozenset[str]) -> dict[str, int]:
    """What a pod takes of a node beside GPUs: its requests without those of `ignored`, rounded up, and its
    place among the pods of the node."""
    needed = {
        name: math.ceil(amount * MILLI) for name, amount in requests.items() if name not in ignored and amount
    }
    return needed | {PODS: MILLI}


def amounts_offered(allocatable: Mapping[str, Fraction]) -> dict[str, int]:
    """What a node has, rounded down."""
    return {name: math.floor(amount * MILLI) for name, amount in allocatable.items()}
