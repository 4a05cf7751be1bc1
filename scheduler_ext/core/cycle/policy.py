"""The settings of a decision, as values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler_ext.core.scores import DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How to choose among nodes that fit: weights by score name, the strategy of pods without one, the
    priority that counts as high, the maximum number of candidates of a filter call (0: all), and the values
    of models that replace those of the table."""

    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    strategy: str = "fragmentation"
    high_priority: int = 1000
    max_candidates: int = 100
    values: Mapping[str, float] = field(default_factory=dict)


def priority_level(priority: int, high: int) -> float:
    """A pod's priority on a logarithmic scale from 0 (lowest) over 0.5 (none) to 1 (`high` and above)."""
    magnitude = min(1.0, math.log1p(abs(priority)) / math.log1p(high))
    return 0.5 + math.copysign(0.5 * magnitude, priority)
