"""What jobs got and how long they waited, from the end of the warm-up on."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from scheduler_ext.features.gangs.simulation.floor import Floor
from scheduler_ext.features.gangs.simulation.jobs import CLASSES, Job
from scheduler_ext.sim.world import World


class JobAccount:
    """Allocation over time, and waiting times of the jobs that arrived in the measured time."""

    def __init__(self, world: World, floor: Floor, begins: float, ends: float) -> None:
        self._world = world
        self._floor = floor
        self._begins, self._ends = begins, ends
        # Times time, up to `integrated_to`.
        self._area_milli, self._area_partial, self._area_value = 0.0, 0.0, 0.0
        self._integrated_to = begins
        self._waited: dict[Job, float | None] = {}
        self.evicted_milli = 0

    def pass_time(self, now: float) -> None:
        """Nothing changes up to this time."""
        if now > self._integrated_to:
            elapsed = now - self._integrated_to
            self._area_milli += self._world.allocated_milli * elapsed
            self._area_partial += self._floor.partial_milli * elapsed
            self._area_value += self._world.allocated_value * elapsed
            self._integrated_to = now

    def arrived(self, job: Job) -> None:
        """A job begins to wait."""
        if job.arrived >= self._begins:
            self._waited[job] = None

    def started(self, jobs: Iterable[Job], now: float) -> None:
        """Jobs start; the wait is that for the first start."""
        for job in jobs:
            if job in self._waited and self._waited[job] is None:
                self._waited[job] = now - job.arrived

    def evicted(self, jobs: Iterable[Job], now: float) -> None:
        """Jobs leave for others, and wait again."""
        if now >= self._begins:
            self.evicted_milli += sum(job.demand_milli for job in jobs)

    @property
    def jobs(self) -> Iterable[tuple[Job, bool]]:
        """The jobs that arrived, and whether they have started."""
        return ((job, waited is not None) for job, waited in self._waited.items())

    def measured(self) -> dict[str, Any]:
        """The fields of a Run. A job that waits at the end counts with its wait so far."""
        capacity_milli, elapsed = self._world.cluster.capacity_milli, self._ends - self._begins
        mean_milli, partial_milli = self._area_milli / elapsed, self._area_partial / elapsed
        waits: dict[str, list[float]] = {}
        for job, waited in self._waited.items():
            until = self._ends - job.arrived if waited is None else waited
            waits.setdefault(job.size_class, []).append(until)
        known = {name: waits[name] for name in CLASSES if name in waits}
        return {
            "mean_allocation_percent": mean_milli / capacity_milli * 100.0,
            "useful_allocation_percent": (mean_milli - partial_milli) / capacity_milli * 100.0,
            "partial_gangs_percent": partial_milli / capacity_milli * 100.0,
            "unallocated_gpus": (capacity_milli - mean_milli) / 1000,
            "allocated_value_per_hour": self._area_value / elapsed,
            "jobs": {name: len(each) for name, each in known.items()},
            "median_wait": {name: float(np.median(each)) for name, each in known.items()},
            "p95_wait": {name: float(np.percentile(each, 95)) for name, each in known.items()},
            "longest_wait": max((max(each) for each in known.values()), default=0.0),
        }
