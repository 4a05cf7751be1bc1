"""When each waiting pod starts: an interval from possible futures of the queue.

The remaining time of the pods in its way is drawn from past run times (survival.py) many times; each draw
gives one order in which they end, and in which the queue moves (replay.py). Further pods come at random, like
those of late: a small one may overtake a large one. Nodes that come or go are left out. Futures in which a
pod does not start, because a run time in its way is unknown, count as ones in which it starts late: where
they are many, the estimate has no end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_ext.features.gangs.queue.replay import NEVER, Arrival, Basis, Moment, Queue
from scheduler_ext.features.gangs.queue.room import Amounts, Arrivals, RunningPod, Waiter, fits, less
from scheduler_ext.features.gangs.queue.run_times import ENOUGH, RunKind, RunTimes
from scheduler_ext.features.gangs.queue.survival import Floats, Survival

# The part of the futures within the interval; as many start earlier as later.
WITHIN = 0.8
# The futures of an estimate: the ends of the interval are then among ten on each side. In large clusters,
# whose futures take longer, there are fewer.
_DRAWS, _FEWEST_DRAWS = 100, 30
_PODS_OF_ALL_DRAWS = 100_000
_SEED = 24
# Arrivals of one future: nearly always more than come before the last of the queue has started.
_PER_WAITER, _MORE = 2, 50
NO_ARRIVALS = Arrivals()
_BASES = tuple(Basis)


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The start of a waiting pod, in seconds from now: in WITHIN of the futures between `earliest_s` and
    `latest_s`, in half of them by `median_s`. None: unknown, for the reason `unknown`. With `stated`, only
    stated limits of run times are known, and the pod starts by `latest_s`."""

    earliest_s: float | None = None
    median_s: float | None = None
    latest_s: float | None = None
    stated: bool = False
    unknown: str | None = None


NOTHING_HELPS = "it fits on no node, even if all pods there had ended"
NOT_BY_PODS = "no pod with GPUs is in its way; when the reason ends is unknown"


def estimates(
    free: Mapping[str, Amounts],
    holders: Sequence[RunningPod],
    waiters: Sequence[Waiter],
    run_times: RunTimes,
    arrivals: Arrivals = NO_ARRIVALS,
    pause: Callable[[], None] = lambda: None,
) -> list[StartEstimate]:
    """The estimate of each waiting pod. `free` is what nodes have left now, `waiters` the queue in its
    order. `pause` is called after each of the futures, which take some milliseconds."""
    if not waiters:
        return []
    queue = Queue(free, holders, waiters, arrivals.seen)
    random = np.random.default_rng(_SEED)
    pods = len(queue.holders) + len(waiters)
    draws = min(_DRAWS, max(_FEWEST_DRAWS, _PODS_OF_ALL_DRAWS // pods))
    ends = _Ends(run_times, random, draws)
    held = ends.of([(each.kind, each.age_s, 0.0 if each.leaving else each.limit_s) for each in queue.holders])
    own = ends.of([(each.kind, 0.0, each.limit_s) for each in waiters], started=False)
    coming = _coming(arrivals, ends, _PER_WAITER * len(waiters) + _MORE, random)
    futures = []
    for draw in range(draws):
        futures.append(queue.starts(held[draw], own[draw], coming[draw]))
        pause()
    starts = np.array([[_counted(start) for start in future] for future in futures])
    stated = np.array([[start.basis is Basis.STATED for start in future] for future in futures])
    reasons = _Reasons(queue, free, run_times)
    return [
        _estimate(starts[:, position], stated[:, position], reasons, position)
        for position in range(len(waiters))
    ]


def _coming(arrivals: Arrivals, ends: "_Ends", most: int, random: np.random.Generator) -> list[list[Arrival]]:
    """By draw: the next pods that are created."""
    if not arrivals.seen or arrivals.over_s <= 0:
        return [[] for _ in range(ends.draws)]
    gaps = random.exponential(arrivals.over_s / len(arrivals.seen), (ends.draws, most))
    which = random.integers(len(arrivals.seen), size=(ends.draws, most))
    # A pod that is drawn twice does not run as long both times.
    runs = ends.of([(each.kind, 0.0, each.limit_s) for each in arrivals.seen], started=False)
    rows = random.integers(ends.draws, size=(ends.draws, most))
    return [
        [
            Arrival(at_s, arrivals.seen[index], runs[row][index])
            for at_s, index, row in zip(times, indexes, drawn, strict=True)
            if runs[row][index].at_s < NEVER
        ]
        for times, indexes, drawn in zip(
            np.cumsum(gaps, axis=1).tolist(), which.tolist(), rows.tolist(), strict=True
        )
    ]


class _Ends:
    """Draws of the remaining times of pods."""

    def __init__(self, run_times: RunTimes, random: np.random.Generator, draws: int) -> None:
        self._run_times = run_times
        self.draws = draws
        self._random = random

    def of(
        self, pods: Sequence[tuple[RunKind, float, float | None]], *, started: bool = True
    ) -> list[list[Moment]]:
        """By draw: the end of each of these pods, by its kind, its age and its limit. One that outlasts all
        comparable runs is guessed to do so by as much as the longest of them in the mean. Of many pods
        that have not `started`, some would in each future, so there it is no guess."""
        limits: Floats = np.array([np.inf if limit is None else limit for _, _, limit in pods])
        survivals = [self._run_times.best(kind, age_s) for kind, age_s, _ in pods]
        longest = np.array([survival.longest_s for survival in survivals])
        ages = np.array([age_s for _, age_s, _ in pods])
        drawn = self._drawn(survivals, ages)
        outlast = np.maximum(longest - ages, 0.0) + longest * self._random.exponential(size=drawn.shape)
        guessed = np.isinf(drawn)
        ends = np.minimum(np.where(guessed, outlast, drawn), limits)
        comparable = np.array(
            [survival.longer_than(age_s) > 0 for survival, age_s in zip(survivals, ages, strict=True)], bool
        )
        basis = np.where(guessed & (ends < limits), Basis.GUESS if started else Basis.RUNS, Basis.RUNS)
        basis = np.where((limits > 0) & np.isfinite(limits) & ~comparable, Basis.STATED, basis)
        return [
            [Moment(at_s, _BASES[code]) for at_s, code in zip(row.tolist(), codes.tolist(), strict=True)]
            for row, codes in zip(ends, basis, strict=True)
        ]

    def _drawn(self, survivals: Sequence[Survival], ages: Floats) -> Floats:
        alike: dict[int, list[int]] = {}
        for index, survival in enumerate(survivals):
            alike.setdefault(id(survival), []).append(index)
        found = np.empty((self.draws, len(ages)))
        for indexes in alike.values():
            survival = survivals[indexes[0]]
            found[:, indexes] = survival.remaining(ages[indexes], self.draws, self._random)
        return found


def _counted(start: Moment) -> float:
    """The time of a start; one that follows from a guess is late."""
    return NEVER if start.basis is Basis.GUESS else start.at_s


def _estimate(starts: Floats, stated: NDArray[np.bool_], reasons: "_Reasons", position: int) -> StartEstimate:
    least, middle, most = (
        _seconds(each)
        for each in np.quantile(starts, ((1 - WITHIN) / 2, 0.5, (1 + WITHIN) / 2), method="inverted_cdf")
    )
    if most is None:
        return StartEstimate(least, middle, unknown=reasons.of(position))
    if stated.mean() > 1 - WITHIN:
        return StartEstimate(latest_s=most, stated=True)
    return StartEstimate(least, middle, most)


def _seconds(value: float) -> float | None:
    return None if value == NEVER else float(value)


class _Reasons:
    """Why the start of a pod is unknown."""

    def __init__(self, queue: Queue, free: Mapping[str, Amounts], run_times: RunTimes) -> None:
        self._queue = queue
        self._free = free
        self._run_times = run_times
        self._by_node: dict[str, list[RunningPod]] = {}
        for holder in queue.holders:
            self._by_node.setdefault(holder.node, []).append(holder)

    def of(self, position: int) -> str:
        waiter = self._queue.waiters[position]
        nodes = [node for node in sorted(waiter.within) if self._could_take(waiter, node)]
        holders = [holder for node in nodes for holder in self._by_node.get(node, ())]
        if not self._take_whole(waiter, nodes):
            return NOTHING_HELPS
        if waiter.refused and not holders and not self._are_kept(nodes, position):
            return NOT_BY_PODS
        unclear = sum(self._is_unclear(holder) for holder in holders)
        if not unclear:
            return "the run times of pods that start before it are unknown"
        if len(holders) == 1:
            return f"the end of the pod in its way is unknown: fewer than {ENOUGH} pods like it ran longer"
        which = f"{unclear} of the {len(holders)}" if unclear < len(holders) else f"the {unclear}"
        return (
            f"the ends of {which} pods in its way are unknown: fewer than {ENOUGH} pods like each ran longer"
        )

    def _are_kept(self, nodes: Sequence[str], position: int) -> bool:
        """Whether other waiting pods have, or keep, places on these nodes."""
        others = (each for other, each in enumerate(self._queue.waiters) if other != position)
        return any(not each.kept.union(each.places).isdisjoint(nodes) for each in others)

    def _could_take(self, waiter: Waiter, node: str) -> bool:
        """Whether an empty node takes one of its pods."""
        free = self._emptied(node)
        return any(fits(free, ask) for ask in waiter.asks)

    def _take_whole(self, waiter: Waiter, nodes: Sequence[str]) -> bool:
        """Whether these nodes take all of its pods when they are empty."""
        asks = list(waiter.asks)
        for node in nodes:
            free = self._emptied(node)
            while asks and fits(free, asks[-1]):
                free = less(free, asks.pop())
        return not asks

    def _emptied(self, node: str) -> Amounts:
        held = [holder.amounts for holder in self._by_node.get(node, ())]
        return tuple(map(sum, zip(self._free[node], *held, strict=True)))

    def _is_unclear(self, holder: RunningPod) -> bool:
        if holder.limit_s is not None or holder.leaving:
            return False
        return self._run_times.best(holder.kind, holder.age_s).longer_than(holder.age_s) < ENOUGH
