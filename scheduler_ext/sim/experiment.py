"""The settings and the outcome of one simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.policy import Policy as Knobs
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import NodeShape

Rooms = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One policy on one sequence of pods.

    ``load`` is arrived demand (inflation) or offered load (churn) over capacity; ``target`` as in
    Expectation. ``constrain_percent`` of the GPU pods are restricted to models. ``priorities`` is "none",
    "qos" or "drawn", for preemption in churn. Churn lasts ``warm_up`` and then ``measured`` mean lifetimes.
    ``knobs`` are the weights and the strategy of the default policy.
    """

    trace: str
    nodes: tuple[NodeShape, ...]
    pods: tuple[TracePod, ...]
    policy: str
    seed: int
    load: float = 1.3
    target: str = "trace"
    settings: Settings = field(default_factory=Settings)
    constrain_percent: float = 0.0
    priorities: str = "none"
    warm_up: float = 3.0
    measured: float = 5.0
    knobs: Knobs = field(default_factory=Knobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The run for the report, and the values for plots.

    ``allocation_percent`` and ``fragmentation_percent`` are of the cluster, by arrived load in per cent;
    ``rooms_milli`` is ``[slot, node]`` at the end, -1 where a node has no such GPU; ``models`` is ``[node]``.
    """

    run: Run
    allocation_percent: Mapping[int, float]
    fragmentation_percent: Mapping[int, float]
    rooms_milli: Rooms
    models: tuple[str, ...]


def at_load(curve: Mapping[int, float], load: int) -> float:
    """The value at a load, or at the last load before it, as one pod may skip a load in a small cluster."""
    return curve[max(known for known in curve if known <= load)]
