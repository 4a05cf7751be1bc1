"""High-priority pods take reliable, emptier nodes; low-priority ones fill what is left."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.core.criterion import Scoring

_EMPTINESS_PART = 0.7


class Priority:
    """Emptiness after placement (headroom kept) and health, in favour of high levels; fullness for low ones.

    A pod with a strategy of its own has said what it thinks of emptiness: then only reliability counts.
    """

    name = "priority"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        level = scoring.level
        reliable = level * scoring.snapshot.health + (1 - level) * 0.5
        if scoring.request.strategy is not None:
            return np.asarray(reliable, np.float64)
        empty = level * scoring.idle_after + (1 - level) * (1 - scoring.idle_after)
        value: Floats = _EMPTINESS_PART * empty + (1 - _EMPTINESS_PART) * reliable
        return value
