"""The default policy's result for a kind of pod in one state of a simulated node, in plain Python. After a
placement few states are new to a kind of pod. For so few, calling numpy takes ten times as long as computing
(docs/decisions/0020-state-by-state-simulation.md). The tables are the core's, and so is the result, except
for rounding."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from scheduler_ext.core.cycle.cycle import RESOLUTION, TOTAL_DECIMALS
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.cycle.share_cost import TIE, LossWeights
from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.forecast.demand import BALANCE
from scheduler_ext.core.forecast.forecast import MAX_GPUS, WHOLE
from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.scores import SCORES
from scheduler_ext.core.scores.future_demand import Balance, Fragmentation, Tightness, WholeGpus
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.sim.node_states import StateKey
from scheduler_ext.sim.trace_workload import PodKind, admits, core_cpu_milli

# The filters and scores that are computed here or never distinguish simulated nodes.
_KNOWN = {
    *("fresh-inventory", "change-in-progress", "model", "compute-capability", "cuda", "total-memory"),
    *(
        "sharing",
        "replicas",
        "health",
        "gpu-count",
        "mig-placement",
        "free-memory",
        "residual-value",
        "fragmentation",
    ),
    *("balance", "whole-gpus", "tightness", "value", "model-scarcity", "node-scarcity", "best-fit", "mig"),
    *("model-preference", "priority", "spot", "double-allocation", "known-memory"),
}
_TOTAL_SCALE = 10.0**TOTAL_DECIMALS


def knows(policy: SchedulingPolicy) -> bool:
    """Whether `StateByState` gives the same totals as the core under this policy."""
    used = {each.name for each in FILTERS}
    used |= {score.name for score in SCORES if policy.weights.get(score.name, 0.0) > 0.0}
    return policy.strategy == "fragmentation" and used <= _KNOWN


class KindRequest(NamedTuple):
    """What a kind of pod asks, the part that each score has of its totals, and their resolution."""

    cpu_milli: int
    whole: int
    share_milli: int | None
    models: frozenset[int]
    spot: bool | None
    part: Mapping[str, float]
    resolution: float


class _Shape(NamedTuple):
    """The common values of all nodes of a shape."""

    # The number of the model, and the row of the forecast.
    model: int
    row: int
    # The value by residual, and the whole GPUs that pods of several can use, by number.
    values: list[float]
    runs: list[float]
    # Of nodes of this size.
    host_scarcity: float
    # In balance with a GPU.
    cpu_per_gpu_milli: float
    spot: bool


class _NodeDemand(NamedTuple):
    """The values of a node to future demand, named as in core.forecast.demand."""

    idle: float
    whole: int
    worth: float
    unusable: float
    usable: float
    runs: float


# From core.forecast for one step of CPU: unusable and kept value by residual, several by whole GPUs.
_Step = tuple[list[float], list[float], list[float]]


class StateByState:
    """Decides by the strategy `fragmentation`, for nodes as sim.node_states makes them. Pods are as in
    traces: with one share or some whole GPUs, and of a priority what it says about spot nodes."""

    def __init__(self, cluster: Snapshot, shapes: list[int], policy: SchedulingPolicy) -> None:
        """`shapes` are the states of `cluster` that stand for each shape."""
        self._cluster, self._policy = cluster, policy
        self._forecast = forecast = cluster.forecast
        self._cpu_amounts = forecast.cpu_milli.tolist()
        # Lists, as Python reads a number of one three times as fast as of an array.
        self._worth_unequal = cluster.value_ranks(policy.values).differ
        values, runs = forecast.values.tolist(), forecast.runs.tolist()
        rows, models = cluster.demand.rows[0].tolist(), cluster.devices.model[0].tolist()
        self._shapes = [
            _Shape(
                model=models[state],
                row=rows[state],
                values=values[rows[state]],
                runs=runs[rows[state]],
                host_scarcity=float(cluster.host_scarcity[state]),
                cpu_per_gpu_milli=BALANCE * 1000 * float(forecast.cores_per_gpu[rows[state]]),
                spot=bool(cluster.node.spot[state]),
            )
            for state in shapes
        ]
        self._loss = LossWeights.of(policy.weights)
        self._before: dict[StateKey, _NodeDemand] = {}
        self._steps: dict[tuple[int, int], _Step] = {}

    def asked(self, kind: PodKind) -> KindRequest:
        """The kind of pod as `decide` takes it."""
        cluster, cpu_milli = self._cluster, core_cpu_milli(kind.cpu_milli)
        asks_gpu, knows_cpu = kind.gpus > 0, self._forecast.knows_cpu
        packs = asks_gpu or (cpu_milli > 0 and knows_cpu)
        applies = {
            "residual-value": kind.is_share,
            "fragmentation": packs,
            "balance": packs and knows_cpu,
            "whole-gpus": asks_gpu,
            "tightness": packs,
            "value": asks_gpu and self._worth_unequal,
            "model-scarcity": asks_gpu and len(cluster.models) > 1,
            "node-scarcity": asks_gpu,
            "health": asks_gpu,
            "priority": asks_gpu and kind.spot is False,
            "spot": asks_gpu and kind.spot is not None,
        }
        names = [score.name for score in SCORES if applies.get(score.name)]
        weights = {name: max(self._policy.weights.get(name, 0.0), 0.0) for name in names}
        together = sum(weights.values()) or 1.0
        return KindRequest(
            cpu_milli,
            whole=0 if kind.is_share else kind.gpus,
            share_milli=kind.gpu_milli if kind.is_share else None,
            models=frozenset(i for i, model in enumerate(cluster.models) if admits(kind.models, model)),
            spot=kind.spot,
            part={name: weights.get(name, 0.0) / together for name in applies},
            resolution=RESOLUTION / together,
        )

    def decide(self, asked: KindRequest, state: StateKey) -> tuple[float, int]:
        """The total, -inf if it does not fit, and the slot of its share, 0 without one."""
        rooms, cpu, shape = state.room_milli, state.cpu_free_milli, self._shapes[state.shape]
        before = self._before.get(state)
        if before is None:
            before = self._demand(shape, rooms, cpu, sum(rooms) / WHOLE, rooms.count(WHOLE))
            self._before[state] = before
        if cpu != UNLIMITED:
            cpu = max(cpu - asked.cpu_milli, 0)
        slot, left, opened = 0, 0, False
        idle, whole = before.idle - asked.whole, before.whole - asked.whole
        if asked.share_milli is not None:
            if shape.model not in asked.models or not rooms or rooms[-1] < asked.share_milli:
                return -math.inf, 0
            slot = self._cheapest(asked.share_milli, shape, rooms, before, cpu)
            whole -= rooms[slot] == WHOLE
            left = rooms[slot] - asked.share_milli
            opened = sum(rooms) == len(rooms) * WHOLE
            rooms = (*rooms[:slot], left, *rooms[slot + 1 :])
            idle -= asked.share_milli / WHOLE
        elif asked.whole and (shape.model not in asked.models or whole < 0):
            return -math.inf, 0
        after = self._demand(shape, rooms, cpu, idle, whole, asked.whole)
        return _total(asked, before, after, shape, left, opened), slot

    def _demand(
        self, shape: _Shape, rooms: tuple[int, ...], cpu: int, idle: float, whole: int, taken: int = 0
    ) -> _NodeDemand:
        """With these rooms and this CPU. So many whole GPUs are `taken`: they are still in `rooms`, but
        no more in `idle` and `whole`."""
        unusable, several, _ = self._step(shape.row, cpu)
        worth = sum([shape.values[room] for room in rooms]) - taken
        usable = worth
        if cpu < UNLIMITED and shape.cpu_per_gpu_milli > 0:
            beside = cpu / max(shape.cpu_per_gpu_milli, 1e-9)
            usable = worth * beside / max(math.cbrt(worth**3 + beside**3), 1e-9)
        alone = sum([unusable[room] for room in rooms]) - taken * unusable[WHOLE]
        unusable_idle = alone + _missed_by_several(several, whole, idle)
        return _NodeDemand(idle, whole, worth, unusable_idle, usable, shape.runs[min(whole, MAX_GPUS)])

    def _cheapest(
        self, share_milli: int, shape: _Shape, rooms: tuple[int, ...], before: _NodeDemand, cpu: int
    ) -> int:
        """Where the share goes, as core.share_cost prices it; one GPU at least has room."""
        _, several, kept = self._step(shape.row, cpu)
        breaking = 0.0
        if before.whole:
            whole, fewer = before.whole, before.whole - 1
            spoilt = _missed_by_several(several, fewer, before.idle)
            spoilt -= _missed_by_several(several, whole, before.idle)
            lost = shape.runs[min(whole, MAX_GPUS)] - shape.runs[min(fewer, MAX_GPUS)]
            breaking = self._loss.unusable * spoilt + self._loss.runs * lost
        best, least = 0, math.inf
        for slot, room in enumerate(rooms):
            if room >= share_milli:
                left = room - share_milli
                cost = kept[room] - kept[left]
                if room == WHOLE:
                    cost += breaking
                cost += TIE * left / WHOLE
                if cost < least:
                    best, least = slot, cost
        return best

    def _step(self, row: int, cpu_milli: int) -> _Step:
        step = bisect_right(self._cpu_amounts, cpu_milli)
        known = self._steps.get((row, step))
        if known is None:
            forecast, weights = self._forecast, self._loss
            kept = forecast.kept(weights.worth, weights.unusable).reshape(forecast.unusable.shape)
            tables = forecast.unusable, forecast.several, kept
            known = self._steps[row, step] = tuple(table[row, step].tolist() for table in tables)
        return known


def _missed_by_several(several: list[float], whole: int, idle: float) -> float:
    """As core.forecast.demand has it: the idle GPUs that pods of several whole ones cannot use."""
    missed = several[min(whole, MAX_GPUS)]
    return missed * idle + (several[0] - missed) * (idle - whole)


def _total(
    asked: KindRequest, before: _NodeDemand, after: _NodeDemand, shape: _Shape, left: int, opened: bool
) -> float:
    """The scores in their order, as core.scores has them, each by its part, without the scarcity and
    the value of models, which depend on the whole cluster. `left` is the rest of the GPU of a share, and
    `opened` is whether its node had no pods."""
    part, gpus = asked.part, max(asked.whole, 1)
    tight = 1.0 - after.idle / Tightness.most_gpus
    if asked.share_milli is not None:
        tight = 1.0 - after.idle / Tightness.most_gpus_of_share - Tightness.gpu_part * left / WHOLE
        tight -= Tightness.opened_by_share * opened
    total = (
        part["residual-value"] * _clip(1.0 - (before.worth - after.worth) / gpus)
        + part["fragmentation"]
        * _clip(0.5 - (after.unusable - before.unusable) / gpus / (2 * Fragmentation.most_gpus))
        + part["balance"] * _clip(1.0 - (before.usable - after.usable) / gpus / Balance.most_gpus)
        + part["whole-gpus"] * _clip(1.0 - (before.runs - after.runs) / gpus / WholeGpus.most_gpus)
        + part["tightness"] * _clip(tight)
        + part["node-scarcity"] * (1.0 - shape.host_scarcity)
        # All GPUs of a simulated node are healthy, and its pods are no easier to evict.
        + part["health"]
        + part["priority"]
        + (part["spot"] if shape.spot is asked.spot else 0.0)
    )
    return round(total * _TOTAL_SCALE) / _TOTAL_SCALE


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)
