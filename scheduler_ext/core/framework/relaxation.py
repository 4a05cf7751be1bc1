"""Smaller requests that a filter would accept: a wish lowered, or a smaller amount."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot

Change = tuple[str, GpuRequest]
"""A change in words, and the request after it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A cluster on which changed requests are tried; ``where`` returns the nodes that fit, ``[row]``."""

    snapshot: Snapshot
    where: Callable[[GpuRequest], Bools]

    def fits(self, changed: GpuRequest) -> int:
        return int(np.count_nonzero(self.where(changed)))

    def largest(self, most: int, changed: Callable[[int], GpuRequest]) -> int:
        """The largest amount from 1 to ``most`` that fits, as all below it do; 0 if there is none."""
        if most < 1 or not self.fits(changed(1)):
            return 0
        return bisect_left(range(1, most + 1), True, key=lambda amount: not self.fits(changed(amount)))


Lower = Callable[[GpuRequest, Trial], Change | None]
"""The mildest change of a wish with which the request fits; None if there is none."""
