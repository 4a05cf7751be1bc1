"""What a pod could ask less of, so that it would fit: one wish dropped, or an amount lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from scheduler_ext.core.columns import Bools
from scheduler_ext.core.cycle import Decision
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest, ShareAsk
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.core.wishes import ANNOTATION_PREFIX

Fits = Callable[[GpuRequest], int]

# The annotation of each wish, and where it stands in a request.
_WISHES = {
    "model": "models",
    "min-memory": "min_memory_mib",
    "min-free-memory": "min_free_mib",
    "min-compute-capability": "min_compute_capability",
    "min-cuda": "min_cuda",
    "sharing": "exclusive",
}
# A node has 16 GPUs at most, and 16 of seven slices.
_LEAST_TRIED = 128


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change of the pod, in words, and on how many nodes it would fit then."""

    change: str
    nodes: int


def relaxations(request: GpuRequest, snapshot: Snapshot, policy: Policy, asked: Bools) -> list[Relaxation]:
    """The single changes after which the pod fits on some of the nodes that are ``asked``, ``[row]``."""

    def fits(changed: GpuRequest) -> int:
        decision = Decision(changed, snapshot, policy)
        return int(np.count_nonzero(decision.fits[snapshot.state_of[:-1]] & asked))

    found = [*_without_a_wish(request), *_fewer(request, fits), *_smaller(request, fits)]
    counted = [Relaxation(change, fits(changed)) for change, changed in found]
    return [relaxation for relaxation in counted if relaxation.nodes]


def _without_a_wish(request: GpuRequest) -> Iterator[tuple[str, GpuRequest]]:
    nothing = GpuRequest()
    for wish, name in _WISHES.items():
        unset = getattr(nothing, name)
        if getattr(request, name) != unset:
            yield f"without the annotation {ANNOTATION_PREFIX}{wish}", replace(request, **{name: unset})


def _fewer(request: GpuRequest, fits: Fits) -> Iterator[tuple[str, GpuRequest]]:
    """The most units of its only resource that fit anywhere."""
    if len(request.units) != 1 or request.shares is not None:
        return
    (ask,) = request.units

    def with_count(count: int) -> GpuRequest:
        return replace(request, units=(replace(ask, count=count),))

    most = _largest(1, min(ask.count, _LEAST_TRIED) - 1, lambda count: fits(with_count(count)) > 0)
    if most:
        yield f"with {most} {ask.resource} instead of {ask.count}", with_count(most)


def _smaller(request: GpuRequest, fits: Fits) -> Iterator[tuple[str, GpuRequest]]:
    """The largest share that fits anywhere, of a pod that asks one."""
    shares = request.shares
    if shares is None or request.units or len(shares.running) != 1 or shares.init:
        return
    ((container, asked_mib),) = shares.running

    def with_mib(mib: int) -> GpuRequest:
        return replace(request, shares=ShareAsk(((container, mib),)))

    most = _largest(1, asked_mib - 1, lambda mib: fits(with_mib(mib)) > 0)
    if most:
        yield f"with a share of {most:,} MiB instead of {asked_mib:,}", with_mib(most)


def _largest(least: int, most: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which this holds, as it does for all below; 0 where there is none."""
    if most < least or not holds(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least
