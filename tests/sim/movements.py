"""Who came to run under churn, and who left, when: beside the accounts that churn gives itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from scheduler_ext.sim import churn
from scheduler_ext.sim.preemption import Resident, Residents
from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import World

Events = list[tuple[float, int]]


class Movements:
    """When pods began, ended in their time or were evicted, in thousandths of a GPU each; the worlds where
    that was, and who runs there in the end."""

    def __init__(self) -> None:
        self.began: Events = []
        self.ended: Events = []
        self.evicted: Events = []
        self.worlds: list[World] = []
        self.residents: list[Residents] = []

    def held_milli(self, time: float) -> int:
        """What was held before that time."""
        return (
            self._before(self.began, time) - self._before(self.ended, time) - self._before(self.evicted, time)
        )

    def ended_milli(self, since: float) -> int:
        """What ended in its time, from then on."""
        return sum(milli for when, milli in self.ended if when >= since)

    @staticmethod
    def _before(events: Sequence[tuple[float, int]], time: float) -> int:
        return sum(milli for when, milli in events if when < time)


@contextmanager
def moving() -> Iterator[Movements]:
    """Whoever moves within is written down; for one run."""
    seen = Movements()

    class WatchedResidents(Residents):
        def __init__(self, world: World) -> None:
            super().__init__(world)
            seen.worlds.append(world)
            seen.residents.append(self)
            self._now, self._in_time = 0.0, False

        def enter(self, pod: TracePod, placement: Placement, until: float) -> Resident:
            seen.began.append((self._now, pod.kind.demand_milli))
            return super().enter(pod, placement, until)

        def leave(self, resident: Resident) -> None:
            left = seen.ended if self._in_time else seen.evicted
            left.append((self._now, resident.pod.kind.demand_milli))
            super().leave(resident)

        def ending(self, until: float) -> Iterator[float]:
            self._in_time = True
            for ends in super().ending(until):
                self._now = ends
                yield ends
            self._now, self._in_time = until, False

    with patch.object(churn, "Residents", WatchedResidents):
        yield seen
