"""Keep large MIG placements possible."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.criterion import Scoring
from scheduler_ext.core.snapshot import Floats


class MigPlaceability:
    """1 where holding the instance destroys no placeability of its GPU, 0 where it destroys all.

    The device plugin picks the instance, so a node is judged by the mean over its GPUs with a free one.
    """

    name = "mig"

    def applies(self, scoring: Scoring) -> bool:
        return any(columns.mig_loss.any() for _, columns in scoring.units)

    def value(self, scoring: Scoring) -> Floats:
        loss = np.zeros(len(scoring.snapshot.states))
        for ask, columns in scoring.units:
            free = columns.free > 0
            mean = np.where(free, columns.mig_loss, 0.0).sum(0) / np.maximum(free.sum(0), 1)
            loss += ask.count * mean
        value: Floats = np.clip(1.0 - loss, 0.0, 1.0)
        return value
