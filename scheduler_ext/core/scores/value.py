"""The score of the least valuable GPU that meets a pod's constraints."""

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.snapshot.value_weights import value_weight


class Value:
    """1 if the pod takes the least valuable GPUs of the cluster, lower with the rank of the taken ones. How
    much it counts depends on the cluster (core/snapshot/value_weights.py). A share counts as its whole GPU. A
    strategy of the pod's own decides instead."""

    name = "value"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.request.strategy is None and scoring.ranks.differ

    def value(self, scoring: Scoring) -> Floats:
        snapshot = scoring.snapshot
        if any(ask.profile for ask, _ in scoring.units):
            # Idle whole GPUs have no bearing on MIG instances.
            counts = np.full(len(snapshot.models), value_weight(1.0, snapshot.small_cluster))
        else:
            counts = snapshot.value_weights(scoring.values)
        ranks = scoring.ranks.of(snapshot.devices.model, counts)
        taken = scoring.of_units(ranks)
        for place in scoring.per_share:
            taken += ranks[place]
        value: Floats = np.clip(1.0 - taken / scoring.gpus, 0.0, 1.0)
        return value
