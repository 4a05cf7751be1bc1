"""The demand of pods: kinds of pods, and how often each comes. The requests of future pods are unknown; those
of past pods are the best estimate. Every score that looks ahead looks at one value, a Workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import MAX_SHARES, GpuRequest

# Pods ask CPU in round numbers, or nearly; finer steps distinguish no nodes.
_CPU_STEP_MILLI = 500
# A pod that names more models takes nearly any, and its list need not be kept.
_MAX_MODELS = 16
_RESCALE_AT = 1e12
_FORGOTTEN = 1e-6
# The lightest classes are searched when there are so many times too many, not with every pod.
_SLACK = 1.25


@dataclass(frozen=True, slots=True)
class TaskClass:
    """A kind of pod: `gpus` whole GPUs, `shares_mib` one GPU's memory each, `mig` instances by profile.
    `models` are the ones it admits, by name or family, sorted; any if there are none."""

    cpu_milli: int = 0
    gpus: int = 0
    shares_mib: tuple[int, ...] = ()
    mig: tuple[tuple[str, int], ...] = ()
    models: tuple[str, ...] = ()


def task_class(request: GpuRequest, cpu_milli: int, models: Iterable[str]) -> TaskClass | None:
    """The kind of pod that a request makes, its CPU rounded up; None if it asks no GPU. Shares are not
    rounded: the tables do so for each kind of GPU (`core.forecast`), and a share of all of a GPU must not
    become larger. Shares of init containers count only if no other containers have any."""
    if not request.asks_gpu:
        return None
    gpus, mig = 0, Counter[str]()
    for ask in request.units:
        if ask.profile is None:
            gpus += ask.count
        else:
            mig[ask.profile] += ask.count
    distinct = sorted(set(models))
    return _shared(
        TaskClass(
            cpu_milli=-(-cpu_milli // _CPU_STEP_MILLI) * _CPU_STEP_MILLI,
            gpus=min(gpus, MAX_COUNT),
            shares_mib=_shares(request),
            mig=tuple(sorted(mig.items())),
            models=tuple(distinct) if len(distinct) <= _MAX_MODELS else (),
        )
    )


def _shares(request: GpuRequest) -> tuple[int, ...]:
    if request.shares is None:
        return ()
    running = sorted((mib for _, mib in request.shares.running), reverse=True)
    return tuple(running[:MAX_SHARES]) or (request.shares.largest_mib,)


@lru_cache(maxsize=1024)
def _shared(task: TaskClass) -> TaskClass:
    """Thousands of pods have equal requests: one value serves all of them."""
    return task


@dataclass(frozen=True)
class Workload:
    """How often each class comes. The parts and `unknown`, that of pods of unknown classes, sum to 1."""

    parts: Mapping[TaskClass, float] = field(default_factory=dict)
    unknown: float = 0.0

    @classmethod
    def of(cls, counts: Mapping[TaskClass, float], unknown: float = 0.0) -> Workload:
        """The workload of so many pods of each class, and so many of unknown classes."""
        total = sum(counts.values()) + unknown
        if total <= 0:
            return UNKNOWN
        parts = {task: count / total for task, count in counts.items() if count > 0}
        return cls(parts, unknown / total)

    def distance(self, other: Workload) -> float:
        """The total variation distance, 0 to 1."""
        tasks = self.parts.keys() | other.parts.keys()
        apart = sum(abs(self.parts.get(task, 0.0) - other.parts.get(task, 0.0)) for task in tasks)
        return (apart + abs(self.unknown - other.unknown)) / 2

    def top(self, part: float) -> Workload:
        """The commonest classes that make up `part` of the pods of known classes. Weng et al., "Beware of
        Fragmentation" (USENIX ATC'23), look at the first 95 per cent."""
        counts: dict[TaskClass, float] = {}
        covered, part = 0.0, part * sum(self.parts.values())
        for task, share in sorted(self.parts.items(), key=lambda item: -item[1]):
            # Sums of many small parts are not exact.
            if covered >= part - 1e-12:
                break
            counts[task] = share
            covered += share
        return Workload.of(counts, self.unknown)


# The demand of a cluster without past pods.
UNKNOWN = Workload(unknown=1.0)


class RecentWorkload:
    """The workload of the pods seen so far, where older pods count less: events in, a Workload out."""

    def __init__(self, half_life: float, unknown: float = 0.0, max_classes: int | None = None) -> None:
        """A pod counts half after `half_life` others. `unknown` pods of unknown classes came before; the
        lightest classes join them if there are more than `max_classes`."""
        self._max_classes = max_classes
        self._growth = 2.0 ** (1.0 / half_life)
        self._counts: dict[TaskClass, float] = {}
        self._unknown = unknown
        # Instead of all counts shrinking with each pod, the next pod counts more.
        self._next = 1.0
        self.seen = 0

    def add(self, task: TaskClass) -> None:
        self.seen += 1
        self._next *= self._growth
        self._counts[task] = self._counts.get(task, 0.0) + self._next
        if self._max_classes is not None and len(self._counts) > self._max_classes * _SLACK:
            heaviest = sorted(self._counts.items(), key=lambda item: -item[1])
            self._unknown += sum(count for _, count in heaviest[self._max_classes :])
            kept = {task for task, _ in heaviest[: self._max_classes]}
            self._counts = {task: count for task, count in self._counts.items() if task in kept}
        if self._next > _RESCALE_AT:
            # Classes not seen for so long that nothing is left of them are forgotten.
            counts = {task: count / self._next for task, count in self._counts.items()}
            self._counts = {task: count for task, count in counts.items() if count > _FORGOTTEN}
            self._unknown /= self._next
            self._next = 1.0

    def workload(self) -> Workload:
        return Workload.of(self._counts, self._unknown)
