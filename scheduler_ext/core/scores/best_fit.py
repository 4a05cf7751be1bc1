"""Fill nodes that are nearly full, or, for spread, use the emptiest."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

# For shares the GPU matters more than its node: a GPU filled up is one fewer to fragment.
_GPU_PART = 0.7


class BestFit:
    """1 where least is left over: on the GPUs that get shares, and on the node as a whole."""

    name = "best-fit"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.strategy in ("binpack", "spread")

    def value(self, scoring: Scoring) -> Floats:
        full: Floats = 1.0 - scoring.idle_after
        if scoring.fit is not None:
            devices, load = scoring.snapshot.devices, scoring.fit.load_mib
            left = [
                np.maximum(devices.share_free_mib[where] - load[where], 0) / devices.share_size_mib[where]
                for where in scoring.per_share
            ]
            tight = 1.0 - sum(left) / len(left)
            full = _GPU_PART * tight + (1 - _GPU_PART) * full
        return 1.0 - full if scoring.strategy == "spread" else full
