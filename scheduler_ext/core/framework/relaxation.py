"""Smaller requests that a filter would accept: a wish lowered, or a smaller amount."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import version_number
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot

# A node has 16 GPUs at most, and 16 of seven slices.
_MOST_UNITS = 128

Change = tuple[str, GpuRequest]
"""A change in words, and the request after it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A cluster on which changed requests are tried; ``where`` returns the nodes that fit, ``[row]``."""

    snapshot: Snapshot
    where: Callable[[GpuRequest], Bools]

    def fits(self, changed: GpuRequest) -> int:
        """The number of nodes that fit."""
        return int(np.count_nonzero(self.where(changed)))


Lower = Callable[[GpuRequest, Trial], Change | None]
"""The mildest change of a wish with which the request fits; None if there is none."""


def less_memory(field: str) -> Lower:
    """Lowers a field in MiB to the largest amount that fits."""

    def lower(request: GpuRequest, trial: Trial) -> Change | None:
        asked_mib: int = getattr(request, field)

        def with_mib(mib: int) -> GpuRequest:
            return replace(request, **{field: mib})  # type: ignore[arg-type]  # an amount in MiB by its name

        most = largest(1, asked_mib - 1, lambda mib: trial.fits(with_mib(mib)) > 0)
        return (f"{_quantity(most)} instead of {_quantity(asked_mib)}", with_mib(most)) if most else None

    return lower


def older_version(field: str, offered: Callable[[Snapshot], Sequence[int]]) -> Lower:
    """Lowers a field with a version to the newest of the ``offered`` ones, newest first, that fits."""

    def lower(request: GpuRequest, trial: Trial) -> Change | None:
        asked: tuple[int, ...] = getattr(request, field)
        for number in offered(trial.snapshot):
            if number >= version_number(asked):
                continue
            version = (number // 1_000_000, number // 1000 % 1000)
            changed = replace(request, **{field: version})  # type: ignore[arg-type]  # a version by its name
            if trial.fits(changed):
                return f'"{_dotted(version)}" instead of "{_dotted(asked)}"', changed
        return None

    return lower


def fewer_units(request: GpuRequest, trial: Trial) -> Iterator[Change]:
    """The largest number of units of the only requested resource that fits on some node."""
    if len(request.units) != 1 or request.shares is not None:
        return
    (ask,) = request.units

    def with_count(count: int) -> GpuRequest:
        return replace(request, units=(replace(ask, count=count),))

    most = largest(1, min(ask.count, _MOST_UNITS) - 1, lambda count: trial.fits(with_count(count)) > 0)
    if most:
        yield f"with {most} {ask.resource} instead of {ask.count:,}", with_count(most)


def largest(least: int, most: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which this holds, as it does for all below; 0 if there is none."""
    if most < least or not holds(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _quantity(mib: int) -> str:
    """In an annotation's spelling."""
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
