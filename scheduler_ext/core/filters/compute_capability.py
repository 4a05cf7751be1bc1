"""Is the GPU's architecture new enough?"""

from __future__ import annotations

from itertools import chain
from typing import ClassVar

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, lacking_version, where
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import older_version
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, version_number
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot


def _offered(snapshot: Snapshot) -> list[int]:
    """The compute capabilities of the GPUs, highest first."""
    slots = chain.from_iterable(state.slots for state in snapshot.states)
    return sorted({slot.compute_capability for slot in slots if slot.compute_capability}, reverse=True)


COMPUTE_CAPABILITY_TOO_LOW = Reason(
    "node(s) had too low a compute capability",
    "The node's GPUs have a lower CUDA compute capability than asked, or do not say which.",
    "Use nodes with newer GPUs, or lower gpu.scheduler-ext.io/min-compute-capability.",
)


class ComputeCapability(Filter):
    """Keeps GPUs of at least the requested compute capability; an unknown one does not pass."""

    name = "compute-capability"
    reason = COMPUTE_CAPABILITY_TOO_LOW
    kind = MissKind.SIZE
    relaxed: ClassVar = {"min-compute-capability": older_version("min_compute_capability", _offered)}

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and request.min_compute_capability is not None

    def passes(self, view: View) -> Bools:
        needed = version_number(view.request.min_compute_capability)
        return view.narrow(lambda gpu: gpu.compute_capability >= needed)

    def miss(self, view: View, node: Node) -> NearestMiss:
        low = version_number(view.request.min_compute_capability)
        gpus = zip(node.uuids, node.state.slots, strict=True)
        below = [(slot.compute_capability, uuid) for uuid, slot in gpus if slot.compute_capability < low]
        number, uuid = max(below, key=lambda pair: pair[0], default=(0, None))
        have = f"{number // 1_000_000}.{number // 1000 % 1000}" if number else None
        needed = ".".join(map(str, view.request.min_compute_capability or ()))
        return NearestMiss(self.name, uuid, needed, have, "compute capability")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        known = f"compute capability {miss.have}" if miss.have else "an unknown compute capability"
        return f"{where(node, miss.device)} has {known}, needs {miss.needed}"

    def lacks(self, miss: NearestMiss) -> float:
        return lacking_version(miss.needed, miss.have)
