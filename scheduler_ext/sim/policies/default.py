"""The product's own policy: its filters, scores and choice of GPUs, on the states of the simulated nodes.

The result for a kind of pod in a state is kept, as states recur. New states are decided one by one, or
together if they are many. Priorities are no part of a kind, so ``priority`` and ``spot`` never apply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, ShareAsk, UnitAsk
from scheduler_ext.sim.known_states import KnownStates
from scheduler_ext.sim.node_states import WHOLE_GPU, NodeStates, State
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.state_by_state import Asked, StateByState, knows
from scheduler_ext.sim.trace_workload import PodKind, core_cpu_milli, wish_of
from scheduler_ext.sim.world import Indexes, NodesView

# The models of a trace's pods have no order of preference.
_NOT_WEIGHED = {"model-preference": 0.0}
_UNDECIDED = np.nan
# A node has at most 64 GPUs (sim/openb.py).
_Slots = npt.NDArray[np.uint8]


class _Decided:
    """The total (-inf: does not fit) and the slot of the share for one kind of pod, by state."""

    def __init__(self, request: GpuRequest) -> None:
        self.request = request
        self.asked: Asked | None = None
        self.total: Floats = np.full(0, _UNDECIDED)
        self.slot: _Slots = np.zeros(0, np.uint8)

    def reach(self, count: int) -> None:
        """Make room for ``count`` states."""
        if len(self.total) < count:
            more = count + count // 4 - len(self.total)
            self.total = np.append(self.total, np.full(more, _UNDECIDED))
            self.slot = np.append(self.slot, np.zeros(more, np.uint8))


class Default:
    """Decides like the server."""

    name = "default"
    ties: str | None = None
    local = True
    filters = True
    points = True
    # Up to so many new states of a kind of pod are decided one by one.
    few: ClassVar[int] = 512
    # Kept results, kinds of pods times states, of nine bytes each; beyond this number all are dropped.
    most_remembered: ClassVar[int] = 2**24

    def __init__(self, target: Target) -> None:
        cluster = target.cluster
        self._policy = replace(target.knobs, weights={**target.knobs.weights, **_NOT_WEIGHED})
        self._nodes = NodeStates(cluster)
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._depth = int(cluster.gpus.max(initial=1))
        self._columns = KnownStates(self._depth)
        # The column of a state by number, -1 until it is decided together with others.
        self._column_of: Indexes = np.zeros(0, np.intp)
        self._by_state: StateByState | None = None
        self._state_of: Indexes = np.zeros(len(cluster), np.intp)
        # [slot, node]: the GPU of the node in each slot of its state.
        self._gpu_of: Ints = np.zeros((self._depth, len(cluster)), np.int32)
        self._tick = -1
        self._decided: dict[PodKind, _Decided] = {}
        self._by_request: dict[GpuRequest, _Decided] = {}
        self._cluster_states: Indexes = np.zeros(0, np.intp)
        self._forecast = Forecast(target.workload, ())
        self._workload = target.workload

    def retarget(self, workload: Workload) -> None:
        """Expect another workload."""
        self._workload = workload
        self._decided.clear()
        self._by_request.clear()
        if len(self._cluster_states):
            self._expect()

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        self._follow(nodes)
        if len(self._by_request) * len(self._states) > self.most_remembered:
            self._forget()
        decided = self._decided.get(kind)
        if decided is None:
            # Kinds that differ only in main memory have equal GPU requests.
            request = request_of(kind)
            decided = self._decided[kind] = self._by_request.setdefault(request, _Decided(request))
        decided.reach(len(self._states))
        only = slice(None) if nodes.only is None else nodes.only
        states = self._state_of[only]
        missing = states[np.isnan(decided.total[states])]
        if len(missing):
            self._decide(decided, list(dict.fromkeys(missing.tolist())))
        slot = self._gpu_of[decided.slot[states], np.arange(len(self._state_of))[only]]
        return Evaluation(decided.total[states], slot)

    def _decide(self, decided: _Decided, states: list[int]) -> None:
        one_by_one = self._by_state
        if one_by_one is None or len(states) > self.few:
            self._decide_together(decided, np.array(states))
            return
        if decided.asked is None:
            decided.asked = one_by_one.asked(decided.request)
        for number in states:
            total, slot = one_by_one.decide(decided.asked, self._states[number])
            decided.total[number], decided.slot[number] = total, slot

    def _decide_together(self, decided: _Decided, states: Indexes) -> None:
        snapshot = self._columns.snapshot(self._columns_of(states), self._forecast, self._cluster)
        # It may have one more kind of GPU.
        self._forecast = snapshot.forecast
        decision = filter_nodes(decided.request, snapshot, self._policy)
        decided.total[states] = decision.totals
        fit = decision.scoring.fit
        if fit is not None:
            decided.slot[states] = np.maximum(fit.slots[0], 0)

    def _follow(self, nodes: NodesView) -> None:
        """Update the states of the nodes that changed."""
        world = nodes.world
        if self._tick == world.tick:
            return
        for node in world.changed_since(self._tick).tolist():
            gpus = int(world.cluster.gpus[node])
            room = world.room_milli[:gpus, node]
            # The slots of a state are in order of room, the fullest first.
            order = room.argsort(kind="stable")
            self._gpu_of[:gpus, node] = order
            cpu = self._nodes.cpu_free_milli(node, int(world.cpu_free[node]))
            state = State(int(self._nodes.shape_of[node]), tuple(room[order].tolist()), cpu)
            number = self._numbers.setdefault(state, len(self._states))
            if number == len(self._states):
                self._states.append(state)
            self._state_of[node] = number
        if self._tick < 0:
            self._cluster_states = self._state_of.copy()
            self._expect()
        self._tick = world.tick

    def _expect(self) -> None:
        """Rebuild the cluster that scores compare with: the scarcity of a model depends on all nodes."""
        forecast = Forecast(_by_wishes(self._workload), ())
        self._cluster = self._columns.snapshot(self._columns_of(self._cluster_states), forecast)
        self._cluster.node.count[:] = 1
        self._forecast = self._cluster.forecast
        if knows(self._policy):
            self._by_state = StateByState(self._cluster, self._nodes.shape_of, self._policy)

    def _forget(self) -> None:
        """Keep only the current and the initial states of the nodes."""
        self._decided.clear()
        self._by_request.clear()
        self._columns, self._column_of = KnownStates(self._depth), np.zeros(0, np.intp)
        kept = np.unique(np.append(self._state_of, self._cluster_states))
        self._states = [self._states[number] for number in kept.tolist()]
        self._numbers = {state: number for number, state in enumerate(self._states)}
        self._state_of = np.searchsorted(kept, self._state_of)
        self._cluster_states = np.searchsorted(kept, self._cluster_states)
        self._expect()

    def _columns_of(self, states: Indexes) -> Indexes:
        if len(self._column_of) < len(self._states):
            more = 2 * len(self._states) - len(self._column_of)
            self._column_of = np.append(self._column_of, np.full(more, -1, np.intp))
        for number in np.unique(states[self._column_of[states] < 0]).tolist():
            self._column_of[number] = self._columns.add(self._nodes.of(self._states[number]))
        return self._column_of[states]


def request_of(kind: PodKind) -> GpuRequest:
    """The request of a kind of pod in the core."""
    shares = ShareAsk((("main", kind.gpu_milli),)) if kind.is_share else None
    units = (UnitAsk(WHOLE_GPU, kind.gpus),) if kind.gpus and not kind.is_share else ()
    return GpuRequest(
        units=units,
        shares=shares,
        models=_wishes(kind.models),
        cpu_milli=core_cpu_milli(kind.cpu_milli),
    )


def _by_wishes(workload: Workload) -> Workload:
    """The workload with the core's names of models: a trace may spell them in any way."""
    counts: dict[TaskClass, float] = {}
    for task, part in workload.parts.items():
        task = replace(task, models=tuple(sorted(_wishes(task.models))))
        counts[task] = counts.get(task, 0.0) + part
    return Workload.of(counts, workload.unknown)


def _wishes(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(wish_of, models)))


policy: type[Policy] = Default
