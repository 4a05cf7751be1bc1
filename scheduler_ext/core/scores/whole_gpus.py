"""Keep whole GPUs together for pods that request several."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

MOST_GPUS = 4.0


class WholeGpus:
    """1 where pods of several GPUs can use as many of the node's whole ones as before, 0 where four or more
    fewer for each GPU of the request.

    Parts of one GPU are useless to a pod of several: 0 for it where GPUs are shared.
    """

    name = "whole-gpus"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        lost = (scoring.before.runs - scoring.after.runs) / scoring.gpus
        value: Floats = np.clip(1.0 - lost / MOST_GPUS, 0.0, 1.0)
        if any(ask.profile is None and ask.count > 1 for ask, _ in scoring.units):
            value = np.where(scoring.snapshot.node.shared, 0.0, value)
        return value
