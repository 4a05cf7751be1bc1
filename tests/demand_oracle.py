"""A node's value for future pods, in plain Python: one node, one class of pods at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler_ext.core.forecast.forecast import UNKNOWN_GPUS, UNKNOWN_SHARES, DeviceKind
from scheduler_ext.core.forecast.residual_value import residual_values
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.node import UNLIMITED, NodeState, Slot
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from tests.oracle import available


@dataclass(frozen=True)
class Left:
    """`residuals` by slot, in thousandths; `loose` whole GPUs in no slot; `whole` ones in all."""

    kinds: tuple[DeviceKind, ...]
    residuals: tuple[int, ...]
    loose: float
    whole: float
    idle: float
    cpu_milli: int


@dataclass(frozen=True)
class Asked:
    """A class's request of a kind of GPU: the number of GPUs, `size` thousandths of each, None if it cannot
    use them.
    """

    weight: float
    gpus: int
    size: int | None
    cpu_milli: int
    admitted: bool
    # Several whole GPUs, which are looked at by their number; shares are by their size, however many.
    several: bool

    @property
    def amount(self) -> float:
        return 0.0 if self.size is None else self.gpus * self.size / 1000


def kind_of(state: NodeState, slot: Slot) -> DeviceKind:
    in_parts = state.offers_shares or slot.claimed_in_parts
    return DeviceKind(slot.model, slot.share_total_mib if in_parts else 0, state.offers_whole)


def left_of(
    state: NodeState,
    whole: float = 0.0,
    loads: Sequence[int] | None = None,
    cpu_milli: int = 0,
    claimed_milli: Sequence[int] | None = None,
) -> Left:
    """The remaining room of a node after this many whole GPUs, these shares, these parts by claim and this
    CPU.
    """
    before = [_residual(state, slot) for slot in state.slots]
    loads = loads or [0] * len(before)
    claimed_milli = claimed_milli or [0] * len(before)
    residuals = list(before)
    for i, (slot, load, claimed) in enumerate(zip(state.slots, loads, claimed_milli, strict=True)):
        if load:
            room = max(0, max(slot.share_free_mib, 0) - load)
            residuals[i] = room * 1000 // max(slot.share_total_mib, 1)
        residuals[i] = max(0, residuals[i] - claimed)
    loose = float(_loose(state)) if _counted(state) else -float(_not_free_in_slots(state))
    idle = max(0.0, sum(before) / 1000 + loose) - whole - (sum(before) - sum(residuals)) / 1000
    held = max(0.0, sum(_is_whole(state, slot) for slot in state.slots) + loose)
    used = [load or claimed for load, claimed in zip(loads, claimed_milli, strict=True)]
    broken = sum(_is_whole(state, slot) and each > 0 for slot, each in zip(state.slots, used, strict=True))
    cpu = state.cpu_free_milli
    return Left(
        kinds=tuple(kind_of(state, slot) for slot in state.slots),
        residuals=tuple(residuals),
        loose=loose - whole,
        whole=0 if state.shared else math.floor(max(0.0, held - whole - broken) + 1e-6),
        idle=max(0.0, idle),
        cpu_milli=cpu if cpu == UNLIMITED else max(0, cpu - cpu_milli),
    )


def _residual(state: NodeState, slot: Slot) -> int:
    if _counted(state) or not slot.healthy:
        return 0
    if state.takes_shares and slot.share_total_mib:
        return max(0, slot.share_free_mib) * 1000 // slot.share_total_mib
    return int(slot.idle * 1000) if slot.is_whole else 0


def _is_whole(state: NodeState, slot: Slot) -> bool:
    there = state.takes_whole and not _counted(state) and not _stands_in(state, slot)
    return there and slot.healthy and slot.is_whole and slot.idle == 1.0


def _stands_in(state: NodeState, slot: Slot) -> bool:
    """Whether the slot of an idle GPU is closed, because some GPU is held on an unknown device."""
    closed = state.takes_shares and slot.share_total_mib > 0 and slot.share_free_mib < 0
    return closed and slot.healthy and slot.is_whole and slot.idle == 1.0


def _not_free_in_slots(state: NodeState) -> int:
    """The GPUs held on unknown devices that no closed slot stands for, and those that are not offered."""
    held = max(0, math.ceil(state.adrift) - sum(_stands_in(state, slot) for slot in state.slots))
    return held + sum(count for name, count in state.beyond if "/mig-" not in name)


def _counted(state: NodeState) -> bool:
    """Whole GPUs are unknown here: an estimate has one slot, a shared GPU several units."""
    units = [u for slot in state.slots for u in slot.units if u.resource not in state.by_claim]
    parts = [u.gpu_part for u in units if "/mig-" not in u.resource]
    return state.estimated or min(parts, default=1.0) < 1.0


def _loose(state: NodeState) -> float:
    parts = {
        u.resource: u.gpu_part
        for slot in state.slots
        if slot.healthy
        for u in slot.units
        if "/mig-" not in u.resource
    }
    return round(max([0.0, *(available(state, name) * part for name, part in parts.items())]), 9)


def asked_of(kind: DeviceKind, workload: Workload) -> Iterator[Asked]:
    """The GPU requests of each class for a kind."""
    for task, weight in workload.parts.items():
        size: int | None = None
        if task.gpus:
            size = 1000 if kind.whole else None
        elif task.shares_mib and kind.share_mib:
            size = math.ceil(max(task.shares_mib) * 1000 / kind.share_mib)
        if size is not None and size > 1000:
            size = None
        count = task.gpus or len(task.shares_mib)
        yield Asked(weight, count, size, task.cpu_milli, _admits(task, kind.model), task.gpus > 1)
    asks = [(1, size) for size in UNKNOWN_SHARES] if kind.share_mib else []
    asks += [(gpus, 1000) for gpus in UNKNOWN_GPUS] if kind.whole else []
    for gpus, size in asks:
        yield Asked(workload.unknown / len(asks), gpus, size, 0, True, gpus > 1)
    if not asks and workload.unknown:
        yield Asked(workload.unknown, 1, None, 0, True, False)


def _admits(task: TaskClass, model: GpuModel) -> bool:
    return not task.models or model.name in task.models or model.family in task.models


def worth(left: Left, workload: Workload) -> float:
    total = left.loose
    for kind, residual in zip(left.kinds, left.residuals, strict=True):
        demand: dict[int, float] = {}
        for asked in asked_of(kind, workload):
            if asked.size is not None:
                demand[asked.size] = demand.get(asked.size, 0.0) + asked.weight * asked.gpus
        total += float(residual_values(demand, 1000)[residual])
    return total


def unusable(left: Left, workload: Workload) -> float:
    """Each class by itself: all idle GPUs if it cannot use any, otherwise the parts that are too small for
    it.
    """
    if not left.kinds:
        return 0.0
    total = 0.0
    usual = workload.top(0.95)
    for kind, residual, alone in [
        *((kind, residual, 1.0) for kind, residual in zip(left.kinds, left.residuals, strict=True)),
        (left.kinds[0], 1000, left.loose),
    ]:
        for asked in asked_of(kind, usual):
            able = asked.size is not None and asked.admitted and asked.cpu_milli <= left.cpu_milli
            fits = able and (asked.several or residual >= (asked.size or 0))
            total += 0.0 if fits else asked.weight * alone * residual / 1000
    for asked in asked_of(left.kinds[0], usual):
        able = asked.size is not None and asked.admitted and asked.cpu_milli <= left.cpu_milli
        if able and asked.several:
            total += asked.weight * (left.idle if int(left.whole) < asked.gpus else left.idle - left.whole)
    return total


def runs(left: Left, workload: Workload) -> float:
    if not left.kinds:
        return 0.0
    every = list(asked_of(left.kinds[0], workload))
    used = sum(
        asked.weight * asked.gpus * (min(int(left.whole), 16) // asked.gpus * asked.gpus)
        for asked in every
        if asked.several and asked.size is not None and asked.admitted
    )
    return used / max(sum(asked.weight * asked.amount for asked in every), 1e-9)


def with_cpu(left: Left, workload: Workload) -> float:
    gpus = worth(left, workload)
    if not left.kinds or left.cpu_milli == UNLIMITED:
        return gpus
    known = [*asked_of(left.kinds[0], Workload(workload.parts))]
    asking = sum(asked.weight * asked.amount for asked in known)
    cores = sum(
        asked.weight * asked.cpu_milli / 1000 for asked in known if asked.amount > 0 or asked.gpus == 0
    )
    if asking <= 0 or cores <= 0:
        return gpus
    cpu = left.cpu_milli / 1000 / (0.6 * cores / asking)
    return gpus * cpu / max(math.cbrt(gpus**3 + cpu**3), 1e-9)


def idle_of_models(cluster: Sequence[NodeState]) -> dict[GpuModel, float]:
    """The idle GPUs of each model, parts of shared ones included."""
    idle: dict[GpuModel, float] = {}
    for state in cluster:
        seen = sum(_residual(state, slot) for slot in state.slots) / 1000
        held = 0 if _counted(state) else min(seen, _not_free_in_slots(state))
        for slot in state.slots:
            here = _residual(state, slot) / 1000
            idle[slot.model] = idle.get(slot.model, 0.0) + here - (held * here / seen if seen else 0.0)
        if _counted(state) and state.slots:
            idle[state.slots[0].model] += _loose(state)
    return idle


def gpus_of_models(cluster: Sequence[NodeState]) -> dict[GpuModel, int]:
    """All GPUs of each model."""
    gpus: dict[GpuModel, int] = {}
    for state in cluster:
        for slot in state.slots:
            gpus[slot.model] = gpus.get(slot.model, 0) + (state.gpus if state.estimated else 1)
    return gpus


def scarcity(cluster: Sequence[NodeState], workload: Workload) -> dict[GpuModel, float]:
    """The square of the demand for each model, until the cluster is full, by pods that do not accept all
    models, divided by its idle GPUs.
    """
    there: dict[DeviceKind, float] = {}
    for state in cluster:
        for slot in state.slots:
            kind = kind_of(state, slot)
            there[kind] = there.get(kind, 0.0) + (state.gpus if state.estimated else 1)
    idle = idle_of_models(cluster)
    models = {kind.model for kind, count in there.items() if count}
    wanted = dict.fromkeys(models, 0.0)
    total = 0.0
    for i, task in enumerate(workload.parts):
        admitted = [kind for kind in there if _admits(task, kind.model)]
        gpus = sum(there[kind] for kind in admitted)
        for kind in admitted:
            amount = list(asked_of(kind, workload))[i]
            asked = amount.weight * amount.amount * there[kind] / gpus if gpus else 0.0
            total += asked
            if any(not _admits(task, model) for model in models) and kind.model in wanted:
                wanted[kind.model] += asked
    gpus = sum(there.values())
    for kind, count in there.items():
        mine = list(asked_of(kind, workload))[len(workload.parts) :]
        total += sum(asked.weight * asked.amount for asked in mine) * count / gpus if gpus else 0.0
    total = max(total, 1e-9)
    everywhere = sum(idle.values())
    return {
        model: min(1.0, wanted[model] / total * everywhere / max(idle[model], 1e-9)) ** 2 for model in models
    }


def host_scarcity(state: NodeState, cluster: Sequence[NodeState], workload: Workload) -> float:
    """The demand for a node like this by pods of whole GPUs that do not fit on other nodes."""
    if not state.slots:
        return 0.0
    gpus = sum(other.gpus for other in cluster if other.slots)
    asked, total = _asked_of_all(cluster, workload)
    scarce = 0.0
    for task, demand in zip(workload.parts, asked, strict=True):
        if not task.gpus:
            continue
        admitted = [other for other in cluster if other.slots and _takes(other, task)]
        room = sum(_hosted_gpus(other, task) for other in admitted)
        there = sum(other.gpus for other in admitted)
        if not room or not _takes(state, task):
            continue
        too_small = max(0.0, 1 - room / there)
        scarce += demand / total * gpus * too_small * _hosted_gpus(state, task) / room / state.gpus
    return min(1.0, scarce)


def _hosted_gpus(state: NodeState, task: TaskClass) -> int:
    """How many GPUs pods of a class would hold of the node if it were empty."""
    return task.gpus * min(state.gpus // task.gpus, state.cpu_milli // max(task.cpu_milli, 1))


def _takes(state: NodeState, task: TaskClass) -> bool:
    return _admits(task, state.slots[0].model) and kind_of(state, state.slots[0]).whole


def _asked_of_all(cluster: Sequence[NodeState], workload: Workload) -> tuple[list[float], float]:
    """Each class's request in GPUs, for differing kinds the mean weighted by their number, and the sum."""
    there: dict[DeviceKind, float] = {}
    for state in cluster:
        if state.slots:
            kind = kind_of(state, state.slots[0])
            there[kind] = there.get(kind, 0.0) + state.gpus
    classes = len(workload.parts)
    asked = []
    for i, task in enumerate(workload.parts):
        admitted = {kind: count for kind, count in there.items() if _admits(task, kind.model)}
        gpus = sum(admitted.values())
        each = [list(asked_of(kind, workload))[i] for kind in admitted]
        amounts = zip(each, admitted.values(), strict=True)
        asked.append(sum(one.weight * one.amount * count for one, count in amounts) / gpus if gpus else 0.0)
    unknown = sum(
        sum(one.weight * one.amount for one in list(asked_of(kind, workload))[classes:]) * count
        for kind, count in there.items()
    ) / max(sum(there.values()), 1e-9)
    return asked, max(sum(asked) + unknown, 1e-9)
