"""The wait before the next try."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LEAST_S = 0.5
MOST_S = 30.0
# The longest pause that a server can ask for.
_LONGEST_S = 300.0


class Backoff:
    """Doubles from try to try; each wait is cut by up to a half at random, to spread many clients."""

    def __init__(
        self, least_s: float = LEAST_S, most_s: float = MOST_S, chance: Callable[[], float] = random.random
    ) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._chance = chance
        self._failures = 0

    def wait_s(self, retry_after_s: float | None = None) -> float:
        """Seconds until the next try; at least the pause that the server asked for."""
        longest = min(self._most_s, self._least_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        wait_s = longest * (0.5 + self._chance() / 2)
        if retry_after_s is not None:
            # Spread clients that were given the same time.
            wait_s = max(wait_s, min(retry_after_s, _LONGEST_S) * (1 + self._chance() / 4))
        return wait_s

    def reset(self) -> None:
        """After a success, the next failure counts as the first."""
        self._failures = 0


def retry_after_s(text: str | None) -> float | None:
    """The seconds of a Retry-After header, which has seconds or a date; None for anything else."""
    if not text:
        return None
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(TypeError, ValueError):
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    return None
