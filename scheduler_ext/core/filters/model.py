"""Is it a GPU model the pod names?"""

from dataclasses import replace
from itertools import chain, compress
from typing import ClassVar

import numpy as np

from scheduler_ext.core.framework.criterion import Change, Filter, Trial, View
from scheduler_ext.core.framework.refusal import NAMED, NearestMiss, Reason, few, where
from scheduler_ext.core.gpu.models import UNNAMED
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class Model(Filter):
    """Keeps GPUs whose canonical model or family is one of the names in the pod's annotation."""

    name = "model"
    reason = Reason(
        "node(s) didn't match the requested GPU model",
        "The node's GPUs are of another model than the pod's gpu.scheduler-ext.io/model names, or of an"
        " unknown one.",
        "Compare the annotation with `scheduler-ext inventory`; A100 is a family, A100-80GB one model.",
    )
    relaxed: ClassVar = {"model": lambda request, trial: _other_models(request, trial)}

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and bool(request.models)

    def passes(self, view: View) -> Bools:
        ranks = [view.request.model_rank(model) for model in view.snapshot.models]
        wanted = np.array([rank is not None for rank in ranks], np.bool_)
        return view.narrow(lambda gpu: wanted[gpu.model])

    def miss(self, view: View, node: Node) -> NearestMiss:
        # Under MIG strategy single a GPU is offered under its slice's name, not its own.
        offered = [(uuid, unit.model) for uuid, slot in node.gpus for unit in slot.units]
        offered = offered or [(uuid, slot.model) for uuid, slot in node.gpus]
        others = ((uuid, model.name) for uuid, model in offered if view.request.model_rank(model) is None)
        uuid, name = next(others, (None, None))
        name = None if name == UNNAMED else name
        return NearestMiss(self.name, uuid, ",".join(view.request.models), name, "model")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        place, wanted = where(node, miss.device), few(str(miss.needed).split(","))
        own = dict(node.gpus).get(miss.device)
        if own is not None and miss.have not in (None, own.model.name):
            # Lists have the name of the GPU itself.
            return f"{place} of model {own.model.name} is offered as {miss.have}, not {wanted}"
        if miss.have is None:
            return f"the model of the GPUs of {place} is not known; the pod needs {wanted}"
        return f"{place} is of model {miss.have}, not {wanted}"


def _other_models(request: GpuRequest, trial: Trial) -> Change | None:
    """The models of the nodes where the pod would fit without this constraint."""
    rows = trial.where(replace(request, models=()))
    nodes = trial.snapshot.nodes
    fitting = compress(nodes.values(), rows[trial.snapshot.rows(list(nodes))])
    resources = {ask.resource for ask in request.units}
    found: set[str] = set()
    for slot in chain.from_iterable(node.state.slots for node in fitting):
        found.update(unit.model.name for unit in slot.units if unit.resource in resources)
        if request.shares is not None and slot.share_free_mib >= 0:
            found.add(slot.model.name)
    models = sorted(found - {UNNAMED})[:NAMED]
    if not models:
        return None
    which = ", or one of these," if models[1:] else ""
    said = f"{','.join(models)}{which} instead of {few(request.models)}"
    return said, replace(request, models=tuple(models))
