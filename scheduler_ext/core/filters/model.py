"""Is it a GPU model the pod names?"""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import MODEL_MISMATCH
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class Model:
    """Keeps GPUs whose canonical model or family is one of the names in the pod's annotation."""

    name = "model"
    reason = MODEL_MISMATCH

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and bool(request.models)

    def passes(self, view: View) -> Bools:
        wanted = np.array(
            [view.request.model_rank(model) is not None for model in view.snapshot.models], np.bool_
        )
        return view.narrow(lambda gpu: wanted[gpu.model])

    def miss(self, view: View, node: Node) -> NearestMiss:
        # Under MIG strategy single a GPU is offered under its slice's name, not its own.
        offered = [
            (u, unit.model)
            for u, slot in zip(node.uuids, node.state.slots, strict=True)
            for unit in slot.units
        ]
        offered = offered or [(u, slot.model) for u, slot in zip(node.uuids, node.state.slots, strict=True)]
        other = next(
            ((u, model.name) for u, model in offered if view.request.model_rank(model) is None), (None, None)
        )
        return NearestMiss(self.name, other[0], ",".join(view.request.models), other[1], "model")
