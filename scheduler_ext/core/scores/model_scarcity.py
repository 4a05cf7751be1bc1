"""Leave rare models to the pods that need them."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.core.criterion import Scoring


class ModelScarcity:
    """1 on the model of which the cluster has most idle, less on scarcer ones, in proportion."""

    name = "model-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return len(scoring.snapshot.cluster.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        snapshot = scoring.snapshot
        nothing = np.zeros(len(snapshot.states))
        parts = [snapshot.unit_plenty.get(ask.resource, nothing) for ask, _ in scoring.units]
        parts += [snapshot.plenty[where] for where in scoring.per_share]
        # Most pods ask one thing.
        value: Floats = parts[0] if len(parts) == 1 else np.mean(parts, axis=0)
        return value
