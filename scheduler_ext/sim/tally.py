"""The accounts of one run: what arrived, what was placed, and how long decisions took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler_ext.sim.experiment import Rooms
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import World


class Tally:
    """Demand in thousandths of a GPU; whatever arrived was either allocated or rejected."""

    def __init__(self) -> None:
        self.arrived_milli = 0
        self.allocated_milli = 0
        self.rejected: Counter[str] = Counter()

    @property
    def rejected_milli(self) -> int:
        """What was rejected in all."""
        return sum(self.rejected.values())

    def arrived(self, kind: PodKind, *, placed: bool) -> None:
        """A pod came and was placed or not."""
        self.arrived_milli += kind.demand_milli
        if placed:
            self.allocated_milli += kind.demand_milli
        else:
            self.rejected[kind.request_class] += kind.demand_milli


def pace(latencies_s: Sequence[float]) -> tuple[float, float]:
    """Decisions per second, and the 99th percentile of one in milliseconds; 0 for none."""
    if not latencies_s:
        return 0.0, 0.0
    latencies = np.array(latencies_s)
    return 1.0 / float(latencies.mean()), float(np.percentile(latencies, 99)) * 1e3


def rooms_at_end(world: World) -> Rooms:
    """What is left on every GPU, ``[slot, node]``; -1 where a node has no such GPU."""
    slots = np.arange(len(world.room_milli))[:, None]
    return np.where(slots < world.cluster.gpus, world.room_milli, -1).astype(np.int16)


def models_of(world: World) -> tuple[str, ...]:
    """Each node's model, ``[node]``."""
    return tuple(world.cluster.models[index] for index in world.cluster.model)
