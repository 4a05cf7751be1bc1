"""Leave parts of GPUs that the next pods can fill."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class ResidualValue:
    """1 where the rest of the GPUs is as valuable as before, lower by the value that is lost with each GPU of
    the request (``core.residual_value``).

    Whole GPUs lose the same everywhere.
    """

    name = "residual-value"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.fit is not None

    def value(self, scoring: Scoring) -> Floats:
        lost = (scoring.before.worth - scoring.after.worth) / scoring.gpus
        value: Floats = np.clip(1.0 - lost, 0.0, 1.0)
        return value
