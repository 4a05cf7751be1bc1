"""Leave rare models to the pods that need them."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.criterion import Scoring
from scheduler_ext.core.snapshot import Floats


class ModelScarcity:
    """1 on the model of which the cluster has most idle, less on scarcer ones, in proportion."""

    name = "model-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return len(scoring.snapshot.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        idle = scoring.snapshot.idle_by_model
        plenty = idle / max(float(idle.max(initial=0.0)), 1e-9)
        # The device's own model, as slices of it are the same scarce silicon.
        models = scoring.snapshot.devices.model
        parts = []
        for _, columns in scoring.units:
            free = columns.free > 0
            parts.append(np.where(free, plenty[models], 0.0).sum(0) / np.maximum(free.sum(0), 1))
        parts += [plenty[models[where]] for where in scoring.per_share]
        value: Floats = sum(parts) / len(parts)
        return value
