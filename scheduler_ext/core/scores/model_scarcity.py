"""Leave scarce models to the pods that need them."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class ModelScarcity:
    """1 on models that no pod requests, lower with the scarcity of the model and the used part of a GPU."""

    name = "model-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and len(scoring.snapshot.cluster.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        snapshot = scoring.snapshot
        scarce = snapshot.scarcity[snapshot.devices.model]
        taken = np.zeros(len(snapshot.states))
        for ask, columns in scoring.units:
            taken += ask.count * columns.mean_over_free(scarce * columns.gpu_part)
        if scoring.fit is not None:
            taken += (scarce * scoring.fit.load_mib / snapshot.devices.share_size_mib).sum(0)
        value: Floats = np.clip(1.0 - taken / scoring.gpus, 0.0, 1.0)
        return value
