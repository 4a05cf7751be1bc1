"""Is the GPU's architecture new enough?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import COMPUTE_CAPABILITY_TOO_LOW
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, version_number
from scheduler_ext.core.request.request import GpuRequest


class ComputeCapability:
    """Keeps GPUs of at least the asked compute capability; one that is unknown does not pass."""

    name = "compute-capability"
    reason = COMPUTE_CAPABILITY_TOO_LOW

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
