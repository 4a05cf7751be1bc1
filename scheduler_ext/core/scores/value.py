"""The score of the least valuable GPU that meets a pod's wishes."""

import math

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

# How much value counts in an empty large cluster, relative to a small one.
_LARGE = 0.5


class Value:
    """1 if the pod takes the least valuable GPUs of the cluster, lower with the rank of the taken ones. It
    counts less in a fuller cluster, where packing decides how many more pods fit, and a better GPU would
    hardly stay free. A share counts as its whole GPU. A strategy of the pod's own decides instead."""

    name = "value"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.request.strategy is None and scoring.ranks.differ

    def value(self, scoring: Scoring) -> Floats:
        snapshot = scoring.snapshot
        taken = scoring.of_units(scoring.ranks.of)
        if scoring.fit is not None:
            ranks = scoring.ranks.of(snapshot.devices.model)
            for place in scoring.per_share:
                taken += ranks[place]
        # Idle whole GPUs have no bearing on MIG instances.
        idle_part = 1.0 if any(ask.profile for ask, _ in scoring.units) else snapshot.idle_part
        part = thrift(idle_part, snapshot.smallness)
        value: Floats = np.clip(1.0 - part * taken / scoring.gpus, 0.0, 1.0)
        return value


def thrift(idle_part: float, smallness: float) -> float:
    """How much value counts while this part of the cluster's GPUs is idle, 0 to 1."""
    return smallness + (1.0 - smallness) * _LARGE * math.sqrt(idle_part)
