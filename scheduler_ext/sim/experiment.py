"""The settings of one simulation, its course pod by pod, and its outcome."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.policy import SchedulingPolicy as Knobs
from scheduler_ext.sim.arrivals import constrained, prioritised, with_spot
from scheduler_ext.sim.custom_policy import CustomPolicy
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.scheduler import Placement, Scheduler, Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import Expectation, PodKind, TracePod
from scheduler_ext.sim.world import Cluster, TraceNode, World

# A pod, and how long it runs.
Arrival = tuple[TracePod, float]
Decided = tuple[Arrival, Placement | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One policy on one sequence of pods: `custom`, or the policy of this package by its name. `load` is
    arrived demand (inflation) or offered load (churn) over capacity; `target` as in Expectation.
    `constrain_percent` of the GPU pods are restricted to models. `priorities` is "pods", "none", "qos" or
    "drawn", for spot nodes, and for preemption in churn. Churn lasts `warm_up` and then `measured` mean
    lifetimes. `knobs` are the weights, the strategy and the values of models of the default policy."""

    trace: str
    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    policy: str
    seed: int
    load: float = 1.3
    target: str = "trace"
    settings: Settings = field(default_factory=Settings)
    constrain_percent: float = 0.0
    priorities: str = "pods"
    warm_up: float = 3.0
    measured: float = 5.0
    custom: CustomPolicy | None = None
    knobs: Knobs = field(default_factory=Knobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The run for the report, and the values for plots. `allocation_percent` and `fragmentation_percent`
    are of the cluster, by arrived load in per cent; `rooms_milli` is `[slot, node]` at the end, -1 where
    a node has no such GPU; `models` is `[node]`."""

    run: Run
    allocation_percent: Mapping[int, float]
    fragmentation_percent: Mapping[int, float]
    rooms_milli: npt.NDArray[np.int16]
    models: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _UnplacedPod:
    """A pod that fits, but on no node that was examined for it."""

    arrival: Arrival
    tries: int = 1
    # Of the world at the last try; none at first, as the change of its own status wakes a pod once.
    tick: int | None = None


class Simulation:
    """The cluster of an experiment, its pods, and the accounts of those that arrived. Demand is in
    thousandths of a GPU; what arrives is either allocated or rejected. Raises SimulationError for impossible
    settings."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.random = np.random.default_rng(experiment.seed)
        # Drawn first, so that the order is the same for any pods.
        order = self.random.permutation(len(experiment.nodes))
        cluster = Cluster.of([experiment.nodes[index] for index in order], experiment.knobs.values)
        pods = constrained(experiment.pods, cluster, experiment.constrain_percent, self.random)
        self.pods = with_spot(prioritised(pods, experiment.priorities, self.random), cluster)
        self._expectation = Expectation(experiment.target, self.pods)
        self.world = World(cluster)
        target = Target(cluster, self._expectation.workload, experiment.seed, experiment.knobs)
        policy = (experiment.custom or POLICIES[experiment.policy])(target)
        self.scheduler = Scheduler(self.world, policy, experiment.settings, experiment.seed)
        self._waiting: list[_UnplacedPod] = []
        self._pods, self._most_tries = 0, 1
        self.arrived_milli = 0
        self._allocated_milli = 0
        self._rejected: Counter[str] = Counter()

    def expect(self, kind: PodKind) -> None:
        """Report an arriving pod to the policy."""
        workload = self._expectation.add(kind)
        if workload is not None:
            self.scheduler.retarget(workload)

    @property
    def waiting_milli(self) -> int:
        """The demand of the pods that wait."""
        return sum(each.arrival[0].kind.demand_milli for each in self._waiting)

    def decided(self, arriving: Arrival | None) -> Iterator[Decided]:
        """A pod that arrives, and those that waited, with their places, one after the other: each is on its
        place before the next one is decided. A pod that fits, but on no node that was examined for it,
        waits, and comes later: it is tried at once again, and whenever the cluster has changed since.
        """
        if arriving is not None:
            self._pods += 1
            kind = arriving[0].kind
            placement = self.scheduler.choose(kind)
            if placement is None and self.scheduler.fits(kind):
                self._waiting.append(_UnplacedPod(arriving))
            else:
                yield arriving, placement
        while woken := [each for each in self._waiting if each.tick != self.world.tick]:
            yield from self._try(woken)

    def decided_at_last(self) -> Iterator[Decided]:
        """The waiting pods with their places, once no more arrive: they are tried again and again, until no
        pod has found a place in as many rounds as there are nodes."""
        in_vain = 0
        while self._waiting and in_vain < len(self.world.cluster):
            before = len(self._waiting)
            yield from self._try(self._waiting)
            in_vain = in_vain + 1 if len(self._waiting) == before else 0

    def _try(self, pods: Sequence[_UnplacedPod]) -> Iterator[Decided]:
        for each in sorted(pods, key=lambda each: -each.arrival[0].priority):
            kind = each.arrival[0].kind
            placement = self.scheduler.choose(kind)
            each.tries, each.tick = each.tries + 1, self.world.tick
            self._most_tries = max(self._most_tries, each.tries)
            if placement is not None or not self.scheduler.fits(kind):
                self._waiting.remove(each)
                yield each.arrival, placement

    def count(self, kind: PodKind, *, placed: bool) -> None:
        """Take account of a pod that arrived, and was placed or rejected."""
        self.arrived_milli += kind.demand_milli
        if placed:
            self._allocated_milli += kind.demand_milli
        else:
            self._rejected[kind.request_class] += kind.demand_milli

    def sampled(self) -> dict[str, Any]:
        """The fields of a Run about a sample of the nodes; none without one."""
        if self._experiment.settings.sampled_percent == 100:
            return {}
        return {
            "waiting_milli": self.waiting_milli,
            "false_refusals": self.scheduler.false_refusals,
            "tries_per_pod": len(self.scheduler.latencies_s) / max(self._pods, 1),
            "most_tries": self._most_tries,
        }

    def outcome(
        self,
        allocation_curve: Mapping[int, float] | None = None,
        fragmentation_curve: Mapping[int, float] | None = None,
        **measured: Any,
    ) -> RunOutcome:
        """The outcome at the end; `measured` are the fields of a Run that a protocol adds."""
        latencies = np.array(self.scheduler.latencies_s)
        run = Run(
            trace=self._experiment.trace,
            policy=self._experiment.policy,
            ties=self.scheduler.ties,
            seed=self._experiment.seed,
            arrived_milli=self.arrived_milli + self.waiting_milli,
            allocated_milli=self._allocated_milli,
            rejected_milli=sum(self._rejected.values()),
            rejected_by_class=dict(sorted(self._rejected.items())),
            decisions_per_second=1.0 / float(latencies.mean()) if len(latencies) else 0.0,
            p99_ms=float(np.percentile(latencies, 99)) * 1e3 if len(latencies) else 0.0,
            **measured,
        )
        world, cluster = self.world, self.world.cluster
        slots = np.arange(len(world.room_milli))[:, None]
        return RunOutcome(
            run=run,
            allocation_percent=allocation_curve or {},
            fragmentation_percent=fragmentation_curve or {},
            rooms_milli=np.where(slots < cluster.gpus, world.room_milli, -1).astype(np.int16),
            models=tuple(cluster.models[index] for index in cluster.model),
        )


def at_load(curve: Mapping[int, float], load: int) -> float:
    """The value at a load, or at the last load before it, as one pod may skip a load in a small cluster."""
    return curve[max(known for known in curve if known <= load)]
