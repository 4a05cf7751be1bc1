"""The scores in plain Python: one node at a time, one function per score of the product, by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.node import NodeState, Slot, Unit
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from tests.demand_oracle import (
    Left,
    gpus_of_models,
    host_scarcity,
    idle_of_models,
    left_of,
    runs,
    scarcity,
    unusable,
    with_cpu,
    worth,
)
from tests.mig_oracle import loss_of
from tests.oracle import free_units, peak_mib


@dataclass(frozen=True)
class Placed:
    """A request on one node: `slots[i]` is where share i goes; `cluster` are the states of all nodes."""

    request: GpuRequest
    slots: tuple[int, ...]
    strategy: str
    level: float
    workload: Workload
    cluster: tuple[NodeState, ...]

    @property
    def gpus(self) -> int:
        whole = sum(ask.count for ask in self.request.units if ask.profile is None)
        return max(1, whole + len(self.slots))

    def load_mib(self, slot: int) -> int:
        return peak_mib(self.request.shares, self.slots, slot) if self.request.shares else 0


def before(state: NodeState) -> Left:
    return left_of(state)


def after(state: NodeState, placed: Placed) -> Left:
    """The remaining room for future pods once the pod is there."""
    unknown = [
        ask
        for ask in placed.request.units
        if ask.profile is None and not any(claimed_milli(state, UnitRequest(ask.resource, 1)))
    ]
    whole = sum(ask.count * _mean_over_next(state, ask, lambda _, unit: unit.gpu_part) for ask in unknown)
    loads = [placed.load_mib(i) for i in range(len(state.slots))]
    return left_of(state, whole, loads, placed.request.cpu_milli, claimed_of(state, placed))


def claimed_milli(state: NodeState, ask: UnitRequest) -> list[int]:
    """What parts by claim take of each GPU."""
    parts = [
        [u.gpu_part for u in slot.units if slot.healthy and u.resource == ask.resource and u.first]
        for slot in state.slots
    ]
    return [ask.count * math.ceil(sum(each) * 1000 - 1e-6) for each in parts]


def claimed_of(state: NodeState, placed: Placed) -> list[int]:
    asked = [claimed_milli(state, ask) for ask in placed.request.units]
    return [sum(each) for each in zip(*asked, strict=True)] if asked else [0] * len(state.slots)


def takes_parts(placed: Placed) -> bool:
    """Whether the request gets a part of a known GPU on some node."""
    on_some_node = (any(claimed_of(state, placed)) for state in placed.cluster)
    return placed.request.shares is not None or any(on_some_node)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _mean_over_next(state: NodeState, ask: UnitRequest, value: Callable[[Slot, Unit], float]) -> float:
    """The mean over the GPUs the plugin may pick from; 0 where there is none. Of parts by claim the GPU is
    known.
    """
    free = free_units(state, ask.resource)
    free = [(slot, unit) for slot, unit in free if unit.first] or free
    return _mean([value(slot, unit) for slot, unit in free]) if free else 0.0


def idle_after(state: NodeState, placed: Placed) -> float:
    """The unheld part of the node's healthy GPUs once the pod is there."""
    idle = idle_gpus(state)
    for ask in placed.request.units:
        idle -= ask.count * _mean_over_next(state, ask, lambda _, unit: unit.gpu_part)
    for i, slot in enumerate(state.slots):
        idle -= placed.load_mib(i) / max(slot.share_total_mib, 1)
    return _clip(idle / max(healthy_gpus(state), 1))


def healthy_gpus(state: NodeState) -> int:
    """An estimated node has one slot for all its GPUs, and no GPU is known to be unhealthy."""
    return state.gpus if state.estimated else sum(slot.healthy for slot in state.slots)


def idle_gpus(state: NodeState) -> float:
    """The unheld GPUs, known device or not."""
    seen = state.gpus if state.estimated else sum(slot.idle for slot in state.slots if slot.healthy)
    return max(0.0, seen - state.adrift)


def healthy_part(state: NodeState) -> float:
    return healthy_gpus(state) / max(state.gpus, 1)


def _lost(placed: Placed, value: Callable[[Left], float], state: NodeState) -> float:
    """The reduction of a value by the placement, for each GPU of the request."""
    return (value(before(state)) - value(after(state, placed))) / placed.gpus


def residual_value(state: NodeState, placed: Placed) -> float:
    lost = _lost(placed, lambda left: worth(left, placed.workload), state)
    return _clip(1 - lost + excess_part(state, placed) / placed.gpus)


def fragmentation(state: NodeState, placed: Placed) -> float:
    return _clip(0.5 + _lost(placed, lambda left: unusable(left, placed.workload), state) / 4)


def balance(state: NodeState, placed: Placed) -> float:
    lost = _lost(placed, lambda left: with_cpu(left, placed.workload), state)
    return _clip(1 - (lost - excess_part(state, placed) / placed.gpus) / 2)


def excess_part(state: NodeState, placed: Placed) -> float:
    """How much more of a GPU the shares and parts by claim are here than on the largest GPUs."""
    largest = max((slot.share_total_mib for other in placed.cluster for slot in other.slots), default=1)
    loads = {i: placed.load_mib(i) for i in placed.slots}
    here = sum(load / max(state.slots[i].share_total_mib, 1) for i, load in loads.items())
    mib = sum(
        ask.count * unit.memory_mib
        for ask in placed.request.units
        for _, unit in free_units(state, ask.resource)
        if unit.first
    )
    claimed = sum(claimed_of(state, placed)) / 1000 - mib / max(largest, 1)
    return here - sum(loads.values()) / max(largest, 1) + claimed


def whole_gpus(state: NodeState, placed: Placed) -> float:
    return _clip(1 - _lost(placed, lambda left: runs(left, placed.workload), state) / 4)


def tightness(state: NodeState, placed: Placed) -> float:
    idle = after(state, placed).idle
    if not takes_parts(placed):
        asked = [ask for ask in placed.request.units if ask.profile is None]
        parts = [_mean_over_next(state, ask, lambda _, unit: unit.gpu_part) for ask in asked]
        if any(0 < part < 1 for part in parts):
            unused = before(state).idle >= healthy_gpus(state)
            return _clip(1 - idle / 16 - 0.4 * min(1.0, idle) - 0.2 * unused)
        return _clip(1 - idle / 16)
    unused = before(state).idle >= healthy_gpus(state)
    return _clip(1 - idle / placed.gpus / 64 - 0.4 * left_of_parts(state, placed) - 0.06 * unused)


def left_of_parts(state: NodeState, placed: Placed) -> float:
    if placed.request.shares is None:
        residuals, claimed = after(state, placed).residuals, claimed_of(state, placed)
        left = [residual / 1000 for residual, each in zip(residuals, claimed, strict=True) if each]
        return _mean(left) if left else 0.0
    return _mean(
        [
            max(0, state.slots[i].share_free_mib - placed.load_mib(i))
            / max(state.slots[i].share_total_mib, 1)
            for i in placed.slots
        ]
    )


def best_fit(state: NodeState, placed: Placed) -> float:
    full = 1.0 - idle_after(state, placed)
    if takes_parts(placed):
        full = 0.7 * (1.0 - left_of_parts(state, placed)) + 0.3 * full
    return 1.0 - full if placed.strategy == "spread" else full


def mig(state: NodeState, placed: Placed) -> float:
    def loss_here(_: Slot, unit: Unit) -> float:
        return loss_of(unit.mig_placements, placed.workload)

    loss = sum(ask.count * _mean_over_next(state, ask, loss_here) for ask in placed.request.units)
    return _clip(1.0 - loss)


def model_preference(state: NodeState, placed: Placed) -> float:
    last = len(placed.request.models) - 1

    def rank(model: GpuModel) -> int:
        found = placed.request.model_rank(model)
        return last if found is None else found

    ranks = [
        max((rank(unit.model) for _, unit in free_units(state, ask.resource)), default=0)
        for ask in placed.request.units
    ]
    ranks += [rank(state.slots[i].model) for i in placed.slots]
    return 1.0 - _mean(ranks) / last


def model_scarcity(state: NodeState, placed: Placed) -> float:
    scarce = scarcity(placed.cluster, placed.workload)
    taken = sum(
        ask.count * _mean_over_next(state, ask, lambda slot, unit: scarce[slot.model] * unit.gpu_part)
        for ask in placed.request.units
    )
    if placed.request.shares is not None:
        for i, slot in enumerate(state.slots):
            taken += scarce[slot.model] * placed.load_mib(i) / max(slot.share_total_mib, 1)
    return _clip(1 - taken / placed.gpus)


def value(state: NodeState, placed: Placed) -> float:
    """By the logarithm of the value of the taken GPUs; less in a large cluster, and less if it is full."""
    values = [_value(other, slot) for other in placed.cluster for slot in other.slots]

    def rank(value: float) -> float:
        below = sorted({each for each in values if each <= value})
        times = math.prod(min(16.0, high / low) for low, high in pairwise(below))
        return float(min(1.0, math.log(times) / math.log(64.0)))

    gpus, idle = gpus_of_models(placed.cluster), idle_of_models(placed.cluster)
    of_mig = any(ask.profile for ask in placed.request.units)
    idle_part = 1.0 if of_mig else min(1.0, sum(idle.values()) / sum(other.gpus for other in placed.cluster))
    small = _clip((30 - sum(other.gpus > 0 for other in placed.cluster)) / 20)

    def nearly_used_up(model: GpuModel) -> float:
        """Above 0 for a model that is nearly used up while cheaper ones are idle."""
        cheaper = [other for other in gpus if rank(value_of(other, {})) < rank(value_of(model, {}))]
        beside, nearly = sum(idle[other] for other in cheaper), 0.0
        if beside > 0.0 and not of_mig:
            left = beside / max(sum(gpus[other] for other in cheaper), 1e-9)
            apart = rank(value_of(model, {})) - sum(
                idle[other] * rank(value_of(other, {})) for other in cheaper
            ) / max(beside, 1e-9)
            nearly = 3.0 * _clip(6.0 * apart - 1.0) * _clip(1.0 - idle[model] / max(gpus[model], 1e-9) / left)
        return float(nearly)

    def counts(model: GpuModel) -> float:
        """Never more than for a dearer one."""
        mine = rank(value_of(model, {}))
        least = min(nearly_used_up(other) for other in gpus if rank(value_of(other, {})) >= mine)
        return float(max(small + (1.0 - small) * idle_part**0.75 / 2.0, (1.0 - small) * least))

    def cost(slot: Slot) -> float:
        return rank(_value(state, slot)) * counts(slot.model)

    taken = sum(
        ask.count * _mean_over_next(state, ask, lambda slot, unit: cost(slot) * unit.gpu_part)
        for ask in placed.request.units
    )
    taken += sum(cost(state.slots[i]) for i in placed.slots)
    return _clip(1 - taken / placed.gpus)


def _value(state: NodeState, slot: Slot) -> float:
    return state.value or value_of(slot.model, {})


def priority(state: NodeState, placed: Placed) -> float:
    rank = len(str(abs(placed.request.priority))) * (1 if placed.request.priority > 0 else -1)
    stay = state.neighbours >= rank
    reliable = 0.99915 * healthy_part(state) + 0.00085 * stay
    return 1.0 - (2 * placed.level - 1) * (1.0 - reliable)


def spot(state: NodeState, placed: Placed) -> float:
    return 1.0 if state.spot == (placed.level < 0.5) else 0.0


SCORES: dict[str, Callable[[NodeState, Placed], float]] = {
    "residual-value": residual_value,
    "fragmentation": fragmentation,
    "balance": balance,
    "whole-gpus": whole_gpus,
    "tightness": tightness,
    "value": value,
    "model-scarcity": model_scarcity,
    "node-scarcity": lambda state, placed: 1 - host_scarcity(state, placed.cluster, placed.workload),
    "best-fit": best_fit,
    "mig": mig,
    "model-preference": model_preference,
    "health": lambda state, placed: healthy_part(state),
    "priority": priority,
    "spot": spot,
}
