"""Does the driver support the CUDA version the pod needs?"""

from __future__ import annotations

from typing import ClassVar

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, lacking_version
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import older_version
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, version_number
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot


def _offered(snapshot: Snapshot) -> list[int]:
    """The CUDA versions of the nodes, newest first."""
    return sorted({state.cuda for state in snapshot.states if state.cuda}, reverse=True)


CUDA_TOO_OLD = Reason(
    "node(s) had too old a CUDA driver",
    "The node's driver supports a lower CUDA version than min-cuda, or does not say which.",
    "Upgrade the driver, or lower gpu.scheduler-ext.io/min-cuda.",
)


class Cuda(Filter):
    """Refuses nodes whose driver supports a lower CUDA version than requested, or an unknown one."""

    name = "cuda"
    reason = CUDA_TOO_OLD
    kind = MissKind.SIZE
    relaxed: ClassVar = {"min-cuda": older_version("min_cuda", _offered)}

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and request.min_cuda is not None

    def passes(self, view: View) -> Bools:
        return view.snapshot.node.cuda >= version_number(view.request.min_cuda)

    def miss(self, view: View, node: Node) -> NearestMiss:
        number = node.state.cuda
        have = f"{number // 1_000_000}.{number // 1000 % 1000}" if number else None
        return NearestMiss(
            self.name, None, ".".join(map(str, view.request.min_cuda or ())), have, "CUDA version"
        )

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        does = f"supports CUDA {miss.have}" if miss.have else "does not say which CUDA it supports"
        return f"the driver of {node.info.name} {does}, needs {miss.needed}"

    def lacks(self, miss: NearestMiss) -> float:
        return lacking_version(miss.needed, miss.have)
