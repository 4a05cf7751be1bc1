"""Of otherwise equal placements, take the fullest node."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

MOST_GPUS = 16.0


class Tightness:
    """1 where no GPU is left idle on the node, 0 where it is sixteen or more for each GPU of the request."""

    name = "tightness"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs

    def value(self, scoring: Scoring) -> Floats:
        value: Floats = np.clip(1.0 - scoring.after.idle / scoring.gpus / MOST_GPUS, 0.0, 1.0)
        return value
