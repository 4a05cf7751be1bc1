"""The value of what a pod would take."""

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.gpu.value_table import part_of_gpu, value_of


def value_per_hour(decision: Decision, state: int) -> float:
    """The value of what the pod takes of a node in this state, which fits it, in the unit of
    core.gpu.value_table. A MIG instance has its part of all instances of its GPU, a share that of the memory
    for shares."""
    scoring, snapshot = decision.scoring, decision.snapshot
    of_models = np.array([value_of(model, scoring.values) for model in snapshot.models])
    own = snapshot.own_values(scoring.values)
    # Of MIG instances that are offered as GPUs, a node without a report has one for each.
    parts = np.array([part_of_gpu(model) for model in snapshot.models])[snapshot.devices.model]
    each = np.where(own > 0, own, of_models[snapshot.devices.model]) * parts
    return float((scoring.of_units(each) + scoring.of_shares(each))[state])
