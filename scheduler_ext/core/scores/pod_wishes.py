"""Scores of the pod's own wishes: its strategy, and the order of its models."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats

# For shares the GPU matters more than its node: a GPU filled up is one fewer to fragment.
_GPU_PART = 0.7


class BestFit:
    """1 where least is left over, on the GPUs that get shares and on the node; the reverse for spread."""

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


class ModelPreference:
    """1 on the model named first, 0 on the one named last, evenly between. Where the device plugin picks
    among several models of a node, the least liked one counts."""

    name = "model-preference"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and len(scoring.request.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        last = len(scoring.request.models) - 1
        ranks = [scoring.request.model_rank(model) for model in scoring.snapshot.models]
        rank = np.array([last if r is None else r for r in ranks], np.float64)
        parts = [np.where(columns.free > 0, rank[columns.model], 0.0).max(0) for _, columns in scoring.units]
        parts += [rank[scoring.snapshot.devices.model[where]] for where in scoring.per_share]
        value: Floats = np.clip(1.0 - sum(parts) / len(parts) / last, 0.0, 1.0)
        return value
