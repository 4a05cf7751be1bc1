"""Follow the order in which the pod names its models."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class ModelPreference:
    """1 on the model named first, 0 on the one named last, evenly between.

    Where the device plugin picks among several models of a node, the least liked one counts.
    """

    name = "model-preference"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and len(scoring.request.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        last = len(scoring.request.models) - 1
        ranks = [scoring.request.model_rank(model) for model in scoring.snapshot.models]
        rank = np.array([last if r is None else r for r in ranks], np.float64)
        parts = [np.where(columns.free > 0, rank[columns.model], 0.0).max(0) for _, columns in scoring.units]
        parts += [rank[scoring.snapshot.devices.model[where]] for where in scoring.per_share]
        value: Floats = np.clip(1.0 - sum(parts) / len(parts) / last, 0.0, 1.0)
        return value
