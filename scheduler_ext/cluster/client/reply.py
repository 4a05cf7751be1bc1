"""What the API server answers, and its clock when it did."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The API server's clock: what it said, and when by ours (monotonic). What came with it cannot have
    been written before ``not_before``, by ours, even if the server's clock has jumped."""

    said: float
    heard_at: float
    not_before: float = -math.inf

    def monotonic(self, stamp: float) -> float:
        """When by our clock the server's was at ``stamp``; never later than we heard of it."""
        return max(self.not_before, self.heard_at - max(0.0, self.said - stamp))


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer."""

    body: bytes
    clock: ServerClock
