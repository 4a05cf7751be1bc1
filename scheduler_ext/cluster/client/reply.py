"""An answer of the API server, and the server's clock at that moment."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The API server's clock: the time that it ``said``, and our monotonic time then. Its data was not
    written before ``not_before`` (ours), even if the server's clock has jumped."""

    said: float
    heard_at: float
    not_before: float = -math.inf

    def monotonic(self, stamp: float) -> float:
        """Our time when the server's clock was at ``stamp``; never later than ``heard_at``."""
        return max(self.not_before, self.heard_at - max(0.0, self.said - stamp))


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer."""

    body: bytes
    clock: ServerClock
