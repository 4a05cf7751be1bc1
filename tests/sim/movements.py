"""Arrivals and departures under churn, beside the accounts of churn itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from scheduler_ext.sim import protocols
from scheduler_ext.sim.preemption import Residents, TraceResident
from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import World

Events = list[tuple[float, int]]


class Movements:
    """Start, end or eviction of pods, in thousandths of a GPU each; the lifetimes of those that started; the
    worlds of the run, and the pods at its end.
    """

    def __init__(self) -> None:
        self.began: Events = []
        self.ended: Events = []
        self.evicted: Events = []
        self.lifetimes: list[float] = []
        self.worlds: list[World] = []
        self.residents: list[Residents] = []

    def held_milli(self, time: float) -> int:
        """The holdings before that time."""
        return (
            self._before(self.began, time) - self._before(self.ended, time) - self._before(self.evicted, time)
        )

    def ended_milli(self, since: float) -> int:
        """The pods that finished from then on."""
        return sum(milli for when, milli in self.ended if when >= since)

    @staticmethod
    def _before(events: Sequence[tuple[float, int]], time: float) -> int:
        return sum(milli for when, milli in events if when < time)


@contextmanager
def moving() -> Iterator[Movements]:
    """Records all movements within; for one run."""
    seen = Movements()

    class WatchedResidents(Residents):
        def __init__(self, world: World) -> None:
            super().__init__(world)
            seen.worlds.append(world)
            seen.residents.append(self)
            self._now = 0.0
            self._ending: TraceResident | None = None

        def enter(self, pod: TracePod, placement: Placement, until: float) -> TraceResident:
            seen.began.append((self._now, pod.kind.demand_milli))
            seen.lifetimes.append(until - self._now)
            return super().enter(pod, placement, until)

        def leave(self, resident: TraceResident) -> None:
            left = seen.ended if resident is self._ending else seen.evicted
            left.append((self._now, resident.pod.kind.demand_milli))
            super().leave(resident)

        def next_end(self, until: float) -> tuple[float, TraceResident] | None:
            found = super().next_end(until)
            self._now, self._ending = found or (until, None)
            return found

    with patch.object(protocols, "Residents", WatchedResidents):
        yield seen
