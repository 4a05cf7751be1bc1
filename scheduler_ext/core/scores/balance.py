"""Leave no GPUs without CPU beside them, nor CPU without GPUs."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

MOST_GPUS = 2.0


class Balance:
    """1 where the node's remaining CPU keeps its GPUs as valuable to the next pods as before; 0 where two or
    more are lost for each GPU of the request.
    """

    name = "balance"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.snapshot.forecast.knows_cpu

    def value(self, scoring: Scoring) -> Floats:
        lost = (scoring.before.usable - scoring.after.usable) / scoring.gpus
        value: Floats = np.clip(1.0 - lost / MOST_GPUS, 0.0, 1.0)
        return value
