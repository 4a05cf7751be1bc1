"""Trust reports before labels."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class Reported:
    """1 on nodes with a report, 0 on those known by their labels only.

    Not among the weighted scores: the cycle gives it a part that no other term can outweigh.
    """

    name = "reported"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.snapshot.some_estimated

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.estimated, 0.0, 1.0)
