"""Is it a GPU model the pod names?"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.miss import NearestMiss, few, where
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import Change, Trial
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.node.offered import models_offered
from scheduler_ext.core.request.request import GpuRequest

_NAMED = 8

MODEL_MISMATCH = Reason(
    "node(s) didn't match the requested GPU model",
    "The node's GPUs are of another model than the pod's gpu.scheduler-ext.io/model names.",
    "Compare the annotation with `scheduler-ext inventory`; A100 is a family, A100-80GB one model.",
)


class Model(Filter):
    """Keeps GPUs whose canonical model or family is one of the names in the pod's annotation."""

    name = "model"
    reason = MODEL_MISMATCH
    relaxed: ClassVar = {"model": lambda request, trial: _other_models(request, trial)}

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

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        wished = few(str(miss.needed).split(","))
        return f"{where(node, miss.device)} is of model {miss.have or 'unknown'}, not {wished}"


def _other_models(request: GpuRequest, trial: Trial) -> Change | None:
    """The models of the nodes where the pod would fit without this wish."""
    rows = trial.where(replace(request, models=()))
    snapshot = trial.snapshot
    order = snapshot.rows(list(snapshot.nodes)).tolist()
    fitting = [node for row, node in zip(order, snapshot.nodes.values(), strict=True) if rows[row]]
    models = models_offered(fitting, request)[:_NAMED]
    if not models:
        return None
    which = ", or one of these," if models[1:] else ""
    said = f"{','.join(models)}{which} instead of {few(request.models)}"
    return said, replace(request, models=tuple(models))
