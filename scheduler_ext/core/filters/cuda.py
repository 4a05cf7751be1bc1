"""Does the driver support the CUDA version the pod needs?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import CUDA_TOO_OLD
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, version_number
from scheduler_ext.core.request.request import GpuRequest


class Cuda:
    """Refuses nodes whose driver supports a lower CUDA version than asked, or does not say."""

    name = "cuda"
    reason = CUDA_TOO_OLD

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
