"""The product's own policy: its filters, scores and choice of GPUs, on the states of the simulated nodes. The
result for a kind of pod in a state is kept, as states recur. Of its priority a kind has only whether it
prefers spot nodes, as simulated nodes are healthy and `priority` distinguishes none of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.weights import utilization_level, weights_at
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.core.scores.future_demand import ModelScarcity
from scheduler_ext.core.scores.value import Value
from scheduler_ext.core.snapshot.snapshot import scarcity
from scheduler_ext.core.snapshot.table import Table
from scheduler_ext.core.snapshot.value_weights import small_cluster_weight, value_weights_by_model
from scheduler_ext.sim.node_states import WHOLE_GPU, NodeStates, StateKey
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.state_by_state import KindRequest, StateByState, knows
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, core_cpu_milli, model_name_of, model_of
from scheduler_ext.sim.world import NodesView, World

# The models of a trace's pods have no order of preference.
_NOT_WEIGHED = {"model-preference": 0.0}
# The total (-inf: does not fit), and the slot of the share in its state.
_Result = tuple[float, int]


class _ClusterTerms(NamedTuple):
    """What depends on the whole cluster in the totals of a kind: the parts of scarcity and value, and the
    resolution."""

    scarce: float = 0.0
    valuable: float = 0.0
    resolution: float = 0.0


class _Decided(NamedTuple):
    """The results for a kind of pod, by the number of the state."""

    asked: KindRequest
    results: dict[int, _Result]


class Default(Policy):
    """Decides like the server: state by state, or by the core if that lacks a part of the policy."""

    name = "default"
    # Kept results, of some 150 bytes each; beyond this number all are dropped.
    most_remembered: ClassVar[int] = 2**20

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._cluster = cluster = target.cluster
        self._policy = replace(target.knobs, weights={**target.knobs.weights, **_NOT_WEIGHED})
        self._by_core = not knows(self._policy)
        self._capacity_milli = max(cluster.capacity_milli, 1)
        self._small_cluster = small_cluster_weight(int(np.count_nonzero(cluster.gpus)))
        self._nodes = NodeStates(cluster)
        # The GPU of the node in each slot of its state.
        self._gpu_of = [[0]] * len(cluster)
        self._models = cluster.models
        empty = World(cluster)
        states = [self._state(empty, node) for node in range(len(cluster))]
        nodes = {state: self._nodes.of(state) for state in set(states)}
        # Holdings do not change the forecast: the nodes stay empty here unless the core decides.
        self._table = Table({str(number): nodes[state] for number, state in enumerate(states)})
        self._state_of = [0] * len(cluster)
        self._tick = -1
        # The phase at the last tick for which it was asked.
        self._phase_tick, self._phase = -1, 0
        self._forget()
        self.retarget(target.workload)

    def retarget(self, workload: Workload) -> None:
        """Expect another workload."""
        self._table.forecast = Forecast(_by_model_names(workload), ())
        cluster = self._table.snapshot(0)
        numbers = {model: number for number, model in enumerate(cluster.models)}
        # The core's number of each model of the trace, which may spell one in several ways; any without GPUs.
        self._model_of = np.array([numbers.get(model_of(name), 0) for name in self._models], np.int32)
        self._wanted = cluster.wanted_models
        self._model_of_node = self._model_of[self._cluster.model]
        gpus = np.bincount(self._model_of_node, self._cluster.gpus, len(self._wanted))
        self._gpus_of_models = gpus.astype(np.float64)
        ranks = cluster.value_ranks(self._policy.values)
        self._ranks_of_models = ranks.models
        ranks_of_states = ranks.of(cluster.devices.model[0], np.ones(len(ranks.models)))
        self._ranks = ranks_of_states[cluster.state_of[: len(self._cluster)]]
        shapes = dict(zip(self._nodes.shape_of, cluster.state_of.tolist(), strict=False))
        self._shapes = [shapes[i] for i in range(len(shapes))]
        self._by_state: dict[int, StateByState] = {}
        self._decided: dict[tuple[int, PodKind], _Decided] = {}
        self._parts: dict[tuple[int, PodKind], _ClusterTerms] = {}

    def phase(self, world: World) -> int:
        """How full the cluster is."""
        if world.tick != self._phase_tick:
            self._phase_tick = world.tick
            self._phase = utilization_level(self._idle_part(world), self._small_cluster)
        return self._phase

    def resolution(self, kind: PodKind, world: World) -> float:
        """As in the server."""
        return self._parts.get((self.phase(world), kind), _ClusterTerms()).resolution

    def of_cluster(self, kind: PodKind, world: World) -> Floats | None:
        """The scores of scarce and of valuable models, which depend on the idle GPUs of the cluster."""
        scarce, valuable, _ = self._parts.get((self.phase(world), kind), _ClusterTerms())
        if not scarce and not valuable:
            return None
        idle = np.bincount(self._model_of, world.idle_milli, len(self._wanted)) / GPU_MILLI
        taken = kind.gpu_milli / GPU_MILLI
        by_model = scarce * (1.0 - scarcity(self._wanted, idle) * taken) + valuable
        of_cluster: Floats = by_model[self._model_of_node]
        if valuable:
            counts = value_weights_by_model(
                self._ranks_of_models, idle, self._gpus_of_models, self._idle_part(world), self._small_cluster
            )
            of_cluster -= valuable * np.minimum(counts[self._model_of_node] * self._ranks, 1.0)
        return of_cluster

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        self._follow(nodes.world)
        phase = self.phase(nodes.world)
        which = range(len(nodes)) if nodes.only is None else nodes.only.tolist()
        found = (
            self._from_core(phase, kind, which) if self._by_core else self._state_by_state(phase, kind, which)
        )
        gpus = [self._gpu_of[node][slot] for node, (_, slot) in zip(which, found, strict=True)]
        return Evaluation(np.array([total for total, _ in found]), np.array(gpus, np.int32))

    def _state_by_state(self, phase: int, kind: PodKind, which: Sequence[int]) -> list[_Result]:
        decided, by_state = self._decided.get((phase, kind)), self._by_state.get(phase)
        if by_state is None:
            shortage = self._table.snapshot(0).cpu_shortage
            knobs = replace(
                self._policy, weights=weights_at(self._policy.weights, phase, self._small_cluster, shortage)
            )
            by_state = self._by_state[phase] = StateByState(self._table.snapshot(0), self._shapes, knobs)
        if decided is None:
            # Kinds that differ only in main memory have equal results.
            equal = replace(kind, memory_mib=0)
            decided = self._decided.setdefault((phase, equal), _Decided(by_state.asked(equal), {}))
            self._decided[phase, kind] = decided
            part, resolution = decided.asked.part, decided.asked.resolution
            self._parts[phase, kind] = _ClusterTerms(part[ModelScarcity.name], part[Value.name], resolution)
        asked, results = decided
        states = [self._state_of[node] for node in which]
        for number in set(states) - results.keys():
            results[number] = by_state.decide(asked, self._states[number])
            self._kept += 1
        return [results[number] for number in states]

    def _from_core(self, phase: int, kind: PodKind, which: Sequence[int]) -> list[_Result]:
        decision = filter_nodes(request_of(kind), self._table.snapshot(0), self._policy)
        states = decision.snapshot.state_of[list(which)]
        fit = decision.scoring.fit
        slots = np.zeros(len(states), np.int32) if fit is None else np.maximum(fit.slots[0][states], 0)
        totals = decision.totals[states]
        parts = {}
        for score, part, value in decision.scored.terms:
            if score.name in (ModelScarcity.name, Value.name):
                # They are added in `of_cluster`.
                totals = totals - part * value[states]
                parts[score.name] = part
        resolution = decision.scored.resolution
        self._parts[phase, kind] = _ClusterTerms(
            parts.get(ModelScarcity.name, 0.0), parts.get(Value.name, 0.0), resolution
        )
        return list(zip(totals.tolist(), slots.tolist(), strict=True))

    def _follow(self, world: World) -> None:
        """Update the states of the nodes that changed."""
        if self._kept > self.most_remembered:
            self._forget()
        changed = {node: self._state(world, node) for node in world.changed_since(self._tick).tolist()}
        self._tick = world.tick
        if self._by_core:
            self._table.update({str(node): self._nodes.of(state) for node, state in changed.items()})
            return
        for node, state in changed.items():
            number = self._state_of[node] = self._numbers.setdefault(state, len(self._states))
            if number == len(self._states):
                self._states.append(state)

    def _state(self, world: World, node: int) -> StateKey:
        """The state of a node, with its GPUs in order of room, the fullest first."""
        rooms = world.room_milli[: int(world.cluster.gpus[node]), node].tolist()
        order = sorted(range(len(rooms)), key=rooms.__getitem__)
        self._gpu_of[node] = order or [0]
        return self._nodes.key(node, sorted(rooms), int(world.cpu_free[node]))

    def _idle_part(self, world: World) -> float:
        return 1.0 - world.allocated_milli / self._capacity_milli

    def _forget(self) -> None:
        """Drop all states and results, to keep memory bounded; the next pods need them again."""
        self._numbers: dict[StateKey, int] = {}
        self._states: list[StateKey] = []
        self._decided = {}
        self._kept, self._tick = 0, -1


def request_of(kind: PodKind) -> GpuRequest:
    """The request of a kind of pod in the core."""
    shares = ShareRequest((("main", kind.gpu_milli),)) if kind.is_share else None
    units = (UnitRequest(WHOLE_GPU, kind.gpus),) if kind.gpus and not kind.is_share else ()
    return GpuRequest(
        units=units,
        shares=shares,
        models=_model_names(kind.models),
        cpu_milli=core_cpu_milli(kind.cpu_milli),
        priority=0 if kind.spot is None else -1 if kind.spot else 1,
    )


def _by_model_names(workload: Workload) -> Workload:
    """The workload with the core's names of models: a trace may spell them in any way."""
    counts: dict[TaskClass, float] = {}
    for task, part in workload.parts.items():
        task = replace(task, models=tuple(sorted(_model_names(task.models))))
        counts[task] = counts.get(task, 0.0) + part
    return Workload.of(counts, workload.unknown)


def _model_names(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(model_name_of, models)))
