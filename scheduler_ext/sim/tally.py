"""The accounts of one run, and the outcome of an experiment made from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduler_ext.sim.experiment import Experiment, Outcome
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import World


class Tally:
    """Demand in thousandths of a GPU; what arrives is either allocated or rejected."""

    def __init__(self) -> None:
        self.arrived_milli = 0
        self.allocated_milli = 0
        self._rejected: Counter[str] = Counter()

    def arrived(self, kind: PodKind, *, placed: bool) -> None:
        """A pod arrived, and was placed or rejected."""
        self.arrived_milli += kind.demand_milli
        if placed:
            self.allocated_milli += kind.demand_milli
        else:
            self._rejected[kind.request_class] += kind.demand_milli

    def outcome(
        self,
        experiment: Experiment,
        world: World,
        latencies_s: Sequence[float],
        allocation_curve: Mapping[int, float] | None = None,
        fragmentation_curve: Mapping[int, float] | None = None,
        **measured: Any,
    ) -> Outcome:
        """The outcome with ``world`` at the end; ``measured`` are the fields of a Run that a protocol
        adds."""
        decisions_per_second, p99_ms = _pace(latencies_s)
        run = Run(
            trace=experiment.trace,
            policy=experiment.policy,
            seed=experiment.seed,
            arrived_milli=self.arrived_milli,
            allocated_milli=self.allocated_milli,
            rejected_milli=sum(self._rejected.values()),
            rejected_by_class=dict(sorted(self._rejected.items())),
            decisions_per_second=decisions_per_second,
            p99_ms=p99_ms,
            **measured,
        )
        cluster = world.cluster
        slots = np.arange(len(world.room_milli))[:, None]
        return Outcome(
            run=run,
            allocation_percent=allocation_curve or {},
            fragmentation_percent=fragmentation_curve or {},
            rooms_milli=np.where(slots < cluster.gpus, world.room_milli, -1).astype(np.int16),
            models=tuple(cluster.models[index] for index in cluster.model),
        )


def _pace(latencies_s: Sequence[float]) -> tuple[float, float]:
    """Decisions per second, and the 99th percentile of one in milliseconds; 0 for none."""
    if not latencies_s:
        return 0.0, 0.0
    latencies = np.array(latencies_s)
    return 1.0 / float(latencies.mean()), float(np.percentile(latencies, 99)) * 1e3
