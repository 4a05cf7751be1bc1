"""Prefer nodes without sick GPUs."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.criterion import Scoring
from scheduler_ext.core.snapshot import Floats


class NodeHealth:
    """The part of the node's GPUs that are healthy: a node that lost one may be about to lose another."""

    name = "health"

    def applies(self, scoring: Scoring) -> bool:
        return True

    def value(self, scoring: Scoring) -> Floats:
        devices = scoring.snapshot.devices
        value: Floats = (devices.present & devices.healthy).sum(0) / np.maximum(
            scoring.snapshot.node.devices, 1
        )
        return value
