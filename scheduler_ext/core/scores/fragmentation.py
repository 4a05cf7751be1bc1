"""Keep idle GPUs usable for the next pods."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

# The worst case is rarer still: a pod that takes a node's last CPU makes all of its GPUs unusable.
MOST_GPUS = 2.0


class Fragmentation:
    """Above one half where the placement makes idle GPUs usable again, below it where it makes some unusable.

    The change of the measure of Weng et al., "Beware of Fragmentation" (USENIX ATC'23), not rounded, for each
    GPU of the request: 0 for two or more.
    """

    name = "fragmentation"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs

    def value(self, scoring: Scoring) -> Floats:
        spoilt = (scoring.after.unusable - scoring.before.unusable) / scoring.gpus
        value: Floats = np.clip(0.5 - spoilt / (2 * MOST_GPUS), 0.0, 1.0)
        return value
