"""The kind of pod that a request makes, so that kinds stay few where amounts are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from scheduler_ext.core.request.pod_kinds import TaskClass
from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import MAX_SHARES, GpuRequest

# CPU is asked in round numbers, or nearly; finer than this no node is told apart by it.
_CPU_STEP_MILLI = 500
# Whoever names more models takes nearly any, and his list need not be kept.
_MAX_MODELS = 16


def task_class(request: GpuRequest, cpu_milli: int, models: Iterable[str]) -> TaskClass | None:
    """What a pod asks, its CPU rounded up; None where it asks no GPU.

    Shares are not rounded: the tables do so for each kind of GPU (``core.forecast``), and one that asks all
    of a GPU must not come to ask more. Shares of init containers count only where no others run.
    """
    if not request.asks_gpu:
        return None
    gpus, mig = 0, Counter[str]()
    for ask in request.units:
        if ask.profile is None:
            gpus += ask.count
        else:
            mig[ask.profile] += ask.count
    wished = sorted(set(models))
    return _shared(
        TaskClass(
            cpu_milli=-(-cpu_milli // _CPU_STEP_MILLI) * _CPU_STEP_MILLI,
            gpus=min(gpus, MAX_COUNT),
            shares_mib=_shares(request),
            mig=tuple(sorted(mig.items())),
            models=tuple(wished) if len(wished) <= _MAX_MODELS else (),
        )
    )


def _shares(request: GpuRequest) -> tuple[int, ...]:
    if request.shares is None:
        return ()
    running = sorted((mib for _, mib in request.shares.running), reverse=True)
    return tuple(running[:MAX_SHARES]) or (request.shares.largest_mib,)


@lru_cache(maxsize=1024)
def _shared(task: TaskClass) -> TaskClass:
    """Thousands of pods ask alike: one value serves all of them."""
    return task
