"""Keep large MIG placements possible."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.core.criterion import Scoring


class MigPlaceability:
    """1 where holding the instance destroys no placeability of its GPU, 0 where it destroys all.

    The device plugin picks the instance, so a node is judged by the mean over its GPUs with a free one.
    """

    name = "mig"

    def applies(self, scoring: Scoring) -> bool:
        everywhere = scoring.snapshot.cluster.units
        offered = (everywhere.get(ask.resource, columns) for ask, columns in scoring.units)
        return any(columns.mean_mig_loss.any() for columns in offered)

    def value(self, scoring: Scoring) -> Floats:
        loss = np.zeros(len(scoring.snapshot.states))
        for ask, columns in scoring.units:
            loss += ask.count * columns.mean_mig_loss
        value: Floats = np.clip(1.0 - loss, 0.0, 1.0)
        return value
