"""Spot capacity for pods that may be interrupted, on-demand for those that matter."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class Spot:
    """On spot nodes higher for lower priorities; on on-demand nodes the reverse."""

    name = "spot"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.spot, 1.0 - scoring.level, scoring.level)
