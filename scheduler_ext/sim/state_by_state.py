"""What the default policy gives a kind of pod in one state of a simulated node, in plain Python.

After a placement one or two states are new to a kind of pod. For so few of them numpy takes ten times as long
to be called as to compute (docs/decisions/0020-few-states-in-plain-python.md). The tables are the core's, and
so is the result, but for what rounding loses.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

from scheduler_ext.core.columns import Ints
from scheduler_ext.core.forecast import MAX_GPUS, WHOLE
from scheduler_ext.core.node import UNLIMITED
from scheduler_ext.core.outlook import BALANCE
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.scores import SCORES, balance, fragmentation, tightness, whole_gpus
from scheduler_ext.core.share_cost import TIE, LossWeights
from scheduler_ext.core.snapshot import Snapshot

DOES_NOT_FIT = -math.inf
# As core.cycle rounds totals.
_TOTAL_SCALE = 1e9


class State(NamedTuple):
    """A node as pods see it: which shape it has, and what is left of its GPUs, the fullest first, and CPU."""

    shape: int
    room_milli: tuple[int, ...]
    cpu_free_milli: int


class Ask:
    """What a request asks, in numbers, and the part that each score has of its totals."""

    def __init__(self, request: GpuRequest, policy: Policy, cluster: Snapshot) -> None:
        self.cpu_milli = request.cpu_milli
        self.whole = sum(ask.count for ask in request.units)
        self.gpus = max(self.whole, 1)
        self.share_milli = request.shares.largest_mib if request.shares is not None else None
        self.models = {
            number
            for number, model in enumerate(cluster.models)
            if not request.models or request.model_rank(model) is not None
        }
        asks_gpu, knows_cpu = request.asks_gpu, cluster.forecast.knows_cpu
        packs = asks_gpu or (request.cpu_milli > 0 and knows_cpu)
        applies = {
            "residual-value": request.shares is not None,
            "fragmentation": packs,
            "balance": packs and knows_cpu,
            "whole-gpus": asks_gpu,
            "tightness": packs,
            "model-scarcity": asks_gpu and len(cluster.models) > 1,
            "node-scarcity": asks_gpu,
            "health": asks_gpu,
        }
        weights = {
            score.name: max(policy.weights.get(score.name, 0.0), 0.0)
            for score in SCORES
            if applies.get(score.name)
        }
        whole = sum(weights.values()) or 1.0
        self.part = {name: weights.get(name, 0.0) / whole for name in applies}


class _Shape(NamedTuple):
    """What is the same of all nodes of a shape: the number of their model and their row of the forecast, how
    scarce the model and nodes as large are, and how much CPU is in balance with a GPU."""

    model: int
    row: int
    scarcity: float
    host_scarcity: float
    cpu_per_gpu_milli: float


class _Outlook(NamedTuple):
    """As core.outlook has it."""

    idle: float
    whole: int
    worth: float
    unusable: float
    usable: float
    runs: float


# Tables of core.forecast, by residual or by whole GPUs: values and runs; unusable, several, and what is kept.
_Row = tuple[list[float], list[float]]
_Step = tuple[list[float], list[float], list[float]]


class StateByState:
    """Decides by the strategy ``fragmentation``, for nodes as sim.node_states makes them and for pods as
    traces have them: of one share or some whole GPUs, without a priority."""

    def __init__(self, cluster: Snapshot, shape_of: Ints, policy: Policy) -> None:
        """``cluster`` has a state for each node, ``shape_of`` the number of its shape, ``[node]``."""
        self._cluster = cluster
        self._policy = policy
        self._forecast = forecast = cluster.forecast
        self._cpu_amounts = forecast.cpu_milli.tolist()
        outlook, devices = cluster.outlook, cluster.devices
        scarcity = cluster.scarcity.tolist() if len(cluster.models) > 1 else [0.0]
        shapes = {
            shape: _Shape(
                model=int(devices.model[0, node]),
                row=int(outlook.rows[0, node]),
                scarcity=scarcity[devices.model[0, node]],
                host_scarcity=float(cluster.host_scarcity[node]),
                cpu_per_gpu_milli=BALANCE * 1000 * float(forecast.cores_per_gpu[outlook.rows[0, node]]),
            )
            for node, shape in enumerate(shape_of.tolist())
        }
        self._shapes = [shapes[number] for number in range(len(shapes))]
        self._loss = LossWeights.of(policy.weights)
        self._before: dict[State, _Outlook] = {}
        # By row, and by row and step: as lists, of which Python reads a number three times as fast.
        self._rows: dict[int, _Row] = {}
        self._steps: dict[tuple[int, int], _Step] = {}

    def ask(self, request: GpuRequest) -> Ask:
        """The request as ``decide`` takes it."""
        return Ask(request, self._policy, self._cluster)

    def decide(self, ask: Ask, state: State) -> tuple[float, int]:
        """The total, -inf where it does not fit, and the slot of its share, 0 without one."""
        rooms, shape = state.room_milli, self._shapes[state.shape]
        before = self._before.get(state)
        if before is None:
            idle, whole = sum(rooms) / WHOLE, rooms.count(WHOLE)
            before = self._before[state] = self._outlook(shape, rooms, state.cpu_free_milli, idle, whole)
        cpu = state.cpu_free_milli
        if cpu != UNLIMITED:
            cpu = max(cpu - ask.cpu_milli, 0)
        slot, idle, whole, scarce = 0, before.idle - ask.whole, before.whole - ask.whole, shape.scarcity
        if ask.share_milli is not None:
            if shape.model not in ask.models or not rooms or rooms[-1] < ask.share_milli:
                return DOES_NOT_FIT, 0
            slot = self._cheapest(ask.share_milli, shape, rooms, before, cpu)
            whole -= rooms[slot] == WHOLE
            rooms = (*rooms[:slot], rooms[slot] - ask.share_milli, *rooms[slot + 1 :])
            idle -= ask.share_milli / WHOLE
            scarce = scarce * ask.share_milli / WHOLE
        elif ask.whole and (shape.model not in ask.models or whole < 0):
            return DOES_NOT_FIT, 0
        after = self._outlook(shape, rooms, cpu, idle, whole, ask.whole)
        return _total(ask, before, after, scarce, shape.host_scarcity), slot

    def _outlook(
        self, shape: _Shape, rooms: tuple[int, ...], cpu: int, idle: float, whole: int, taken: int = 0
    ) -> _Outlook:
        """With these rooms and this CPU, and so many of the whole GPUs ``taken``."""
        values, runs = self._row(shape.row)
        unusable, several, _ = self._step(shape.row, cpu)
        worth = sum([values[room] for room in rooms]) - taken
        usable = worth
        if cpu < UNLIMITED and shape.cpu_per_gpu_milli > 0:
            beside = cpu / max(shape.cpu_per_gpu_milli, 1e-9)
            usable = worth * beside / max(math.cbrt(worth**3 + beside**3), 1e-9)
        alone = sum([unusable[room] for room in rooms]) - taken * unusable[WHOLE]
        return _Outlook(
            idle=idle,
            whole=whole,
            worth=worth,
            unusable=alone + _missed_by_several(several, whole, idle),
            usable=usable,
            runs=runs[min(whole, MAX_GPUS)],
        )

    def _cheapest(
        self, share_milli: int, shape: _Shape, rooms: tuple[int, ...], before: _Outlook, cpu: int
    ) -> int:
        """Where the share goes, as core.share_cost prices it; one GPU at least has room."""
        _, runs = self._row(shape.row)
        _, several, kept = self._step(shape.row, cpu)
        breaking = 0.0
        if before.whole:
            whole, fewer = before.whole, before.whole - 1
            spoilt = _missed_by_several(several, fewer, before.idle)
            spoilt -= _missed_by_several(several, whole, before.idle)
            lost = runs[min(whole, MAX_GPUS)] - runs[min(fewer, MAX_GPUS)]
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

    def _row(self, row: int) -> _Row:
        known = self._rows.get(row)
        if known is None:
            forecast = self._forecast
            known = self._rows[row] = forecast.values[row].tolist(), forecast.runs[row].tolist()
        return known

    def _step(self, row: int, cpu_milli: int) -> _Step:
        step = bisect_right(self._cpu_amounts, cpu_milli)
        known = self._steps.get((row, step))
        if known is None:
            forecast, weights = self._forecast, self._loss
            kept = forecast.kept(weights.worth, weights.unusable).reshape(forecast.unusable.shape)
            tables = forecast.unusable, forecast.several, kept
            unusable, several, kept_ = (table[row, step].tolist() for table in tables)
            known = self._steps[row, step] = unusable, several, kept_
        return known


def _missed_by_several(several: list[float], whole: int, idle: float) -> float:
    """As core.outlook has it: what of the idle GPUs pods of several whole ones cannot use."""
    missed = several[min(whole, MAX_GPUS)]
    return missed * idle + (several[0] - missed) * (idle - whole)


def _total(ask: Ask, before: _Outlook, after: _Outlook, scarce: float, host_scarcity: float) -> float:
    """The scores in their order, as core.scores has them, each by its part."""
    part, gpus = ask.part, ask.gpus
    total = (
        part["residual-value"] * _clip(1.0 - (before.worth - after.worth) / gpus)
        + part["fragmentation"]
        * _clip(0.5 - (after.unusable - before.unusable) / gpus / (2 * fragmentation.MOST_GPUS))
        + part["balance"] * _clip(1.0 - (before.usable - after.usable) / gpus / balance.MOST_GPUS)
        + part["whole-gpus"] * _clip(1.0 - (before.runs - after.runs) / gpus / whole_gpus.MOST_GPUS)
        + part["tightness"] * _clip(1.0 - after.idle / gpus / tightness.MOST_GPUS)
        + part["model-scarcity"] * _clip(1.0 - scarce)
        + part["node-scarcity"] * (1.0 - host_scarcity)
        # All GPUs of a simulated node are healthy.
        + part["health"]
    )
    return round(total * _TOTAL_SCALE) / _TOTAL_SCALE


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)
