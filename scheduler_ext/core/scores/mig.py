"""Keep large MIG placements possible."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class MigPlaceability:
    """1 where the instance costs future MIG pods nothing, 0 where it costs them a GPU. The device plugin
    picks the instance, so a node is judged by the mean over its GPUs with a free one."""

    name = "mig"

    def applies(self, scoring: Scoring) -> bool:
        cluster = scoring.snapshot.cluster
        return any(bool(cluster.mig_loss(ask.resource).any()) for ask, _ in scoring.units)

    def value(self, scoring: Scoring) -> Floats:
        loss = np.zeros(len(scoring.snapshot.states))
        for ask, _ in scoring.units:
            loss += ask.count * scoring.snapshot.mig_loss(ask.resource)
        value: Floats = np.clip(1.0 - loss, 0.0, 1.0)
        return value
