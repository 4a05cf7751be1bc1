"""The columns of a snapshot: `[slot, state]` arrays, so that a reduction over a node's devices runs along
contiguous memory. An unused column has the values of an unknown node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import NO_NEIGHBOURS, UNLIMITED, NodeState, Slot, Unit

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
# The shape of a node without GPUs.
NO_SHAPE = -1
_Columns = TypeVar("_Columns", "DeviceColumns", "UnitColumns", "NodeColumns")
_DTYPES = {"Bools": np.bool_, "Ints": np.int32, "Floats": np.float64}
# Values of unused columns, by the name of the array; 0 of all others.
_UNUSED = {
    "share_free_mib": -1,
    "kind": -1,
    "limit": UNLIMITED,
    "share_limit": UNLIMITED,
    "fraction": 1,
    "neighbours": NO_NEIGHBOURS,
    "shape": NO_SHAPE,
    "cpu_free_milli": UNLIMITED,
}
# Arrays of node columns that have the attribute of the same name.
_OF_STATE = (
    *("gpus", "adrift", "fresh", "estimated", "changing", "shared", "sliced", "fraction"),
    "shared_instances",
    *("one_replica", "cuda", "spot", "value", "share_limit", "shares_twice", "neighbours"),
    *("cpu_free_milli", "by_allocatable"),
)
# Arrays of unit columns that have one value per state instead of one per device.
_PER_STATE = ("unknown", "limit", "by_claim", "open", "twice")


class _Empty:
    @classmethod
    def empty(cls, depth: int, width: int) -> Self:
        """Columns without a device, each array unused."""
        arrays = {}
        for name, per_device, dtype, value in _ARRAYS[cls]:
            arrays[name] = np.full((depth, width) if per_device else width, value, dtype)
        return cls(**arrays)


# Lazy values below are what scores need of a snapshot for any request: computed once per generation.


@dataclass(frozen=True)
class DeviceColumns(_Empty):
    """Per device, `[slot, state]`: MiB, capability as a version number, model as an index into models.
    `kind` is an index into kinds (-1: no GPU), `residual` the part that a future pod can have of it, in
    thousandths, `whole` whether that may be all of it (`core.forecast`)."""

    healthy: Bools
    model: Ints
    compute_capability: Ints
    total_mib: Ints
    share_total_mib: Ints
    share_free_mib: Ints
    idle: Floats
    kind: Ints
    residual: Ints
    whole: Bools

    def write(
        self, column: int, state: NodeState, models: Mapping[GpuModel, int], kinds: Sequence[int]
    ) -> None:
        counts_alone, takes_shares = state.counts_alone, state.takes_shares
        takes_whole = state.takes_whole and not counts_alone
        for row, slot in enumerate(state.slots):
            at = row, column
            self.kind[at] = kinds[row]
            if not counts_alone:
                self.residual[at] = residual_milli(slot, shares=takes_shares)
            self.whole[at] = takes_whole and _is_unheld(slot) and not (takes_shares and _is_closed(slot))
            self.model[at] = models[slot.model]
            self.healthy[at] = slot.healthy
            self.compute_capability[at] = slot.compute_capability
            self.total_mib[at] = slot.total_mib
            self.share_total_mib[at] = slot.share_total_mib
            self.share_free_mib[at] = slot.share_free_mib
            self.idle[at] = slot.idle

    @lazy
    def share_size_mib(self) -> Floats:
        """The memory that shares can have of a GPU in all, as a divisor: at least 1."""
        return np.maximum(self.share_total_mib, 1).astype(np.float64)

    @lazy
    def whole_gpus(self) -> Ints:
        """The GPUs that pods can request whole, `[state]`."""
        gpus: Ints = self.whole.sum(0, dtype=np.int32)
        return gpus

    @lazy
    def share_room_mib(self) -> Ints:
        return np.maximum(self.share_free_mib, np.int32(0))


@dataclass(frozen=True)
class UnitColumns(_Empty):
    """One resource that the device plugin hands out. `[slot, state]`: `offered` by that device at all, `free`
    units on healthy devices, each `memory_mib` large (0: unknown) and `gpu_part` of the GPU, with `free_mib`
    free, of `model`; `mig_placements` where a MIG instance may lie, as a number of NumberedPlacements; `sick`
    free units on unhealthy devices; `first` where the device is known that gives the next one. `[state]`:
    `unknown` units held on unknown devices, `limit` the node's allocatable less requests; whether DRA hands
    it out (`by_claim`), whether its number cannot be known there (`open`), and whether a GPU could be handed
    out twice by it (`twice`)."""

    offered: Bools
    free: Ints
    memory_mib: Ints
    free_mib: Ints
    model: Ints
    gpu_part: Floats
    mig_placements: Ints
    sick: Ints
    first: Bools
    unknown: Ints
    limit: Ints
    by_claim: Bools
    open: Bools
    twice: Bools

    def write(
        self, column: int, slot_row: int, unit: Unit, model: int, mig_placements: int, *, healthy: bool
    ) -> None:
        at = slot_row, column
        self.offered[at] = True
        self.model[at] = model
        self.mig_placements[at] = mig_placements
        (self.free if healthy else self.sick)[at] = unit.free
        self.memory_mib[at] = unit.memory_mib
        self.free_mib[at] = unit.free_mib
        self.gpu_part[at] = unit.gpu_part
        self.first[at] = unit.first and healthy

    @lazy
    def available(self) -> Ints:
        """Units a pod can still get, `[state]`; may be below zero if more is held than offered."""
        available: Ints = np.minimum(self.free.sum(0, dtype=np.int32) - self.unknown, self.limit)
        return available

    @lazy
    def from_slices(self) -> Bools:
        """Where ResourceSlices say what is handed out, `[state]`."""
        known: Bools = self.by_claim | self.open
        return known

    @lazy
    def any_twice(self) -> bool:
        return bool(self.twice.any())

    @lazy
    def any_sick(self) -> bool:
        return bool(self.sick.any())

    @lazy
    def offered_anywhere(self) -> Bools:
        offered: Bools = np.any(self.offered, axis=0)
        return offered

    @lazy
    def has_free(self) -> Bools:
        return self.free > 0

    @lazy
    def any_first(self) -> bool:
        """Whether some node hands out parts of a GPU that is known."""
        return bool(self.first.any())

    @lazy
    def first_milli(self) -> Ints:
        """What one unit takes of the GPU that gives it, in thousandths, `[slot, state]`; 0 where that is not
        known."""
        taken: Ints = np.where(self.first, np.ceil(self.gpu_part * 1000 - 1e-6), 0.0).astype(np.int32)
        return taken

    @lazy
    def _next(self) -> Bools:
        """The GPUs that may give the next unit, `[slot, state]`."""
        return np.where(self.first.any(0), self.first, self.has_free) if self.any_first else self.has_free

    @lazy
    def _next_gpus(self) -> Ints:
        gpus: Ints = np.maximum(self._next.sum(0, dtype=np.int32), 1)
        return gpus

    def mean_over_next(self, values: Floats) -> Floats:
        """The mean of `[slot, state]` values over the GPUs that may give the next unit, `[state]`; 0 without
        any."""
        mean: Floats = (values * self._next).sum(0) / self._next_gpus
        return mean

    @lazy
    def mean_gpu_part(self) -> Floats:
        return self.mean_over_next(self.gpu_part)


@dataclass(frozen=True)
class NodeColumns(_Empty):
    """Per node state, `[state]`; `count` is how many nodes are in it, `devices` how many slots it has.
    `shape` is an index into shapes. `loose` are the free GPUs that are in no slot, time slices as parts of
    one, below 0 if some of those in the slots are held, or not offered. The others are those of NodeState."""

    count: Ints
    gpus: Ints
    adrift: Floats
    fresh: Bools
    estimated: Bools
    changing: Bools
    shared: Bools
    shared_instances: Bools
    sliced: Bools
    fraction: Ints
    one_replica: Bools
    cuda: Ints
    spot: Bools
    value: Floats
    share_limit: Ints
    shares_twice: Bools
    neighbours: Ints
    devices: Ints
    shape: Ints
    cpu_free_milli: Ints
    loose: Floats
    by_allocatable: Bools

    @lazy
    def in_parts(self) -> Bools:
        """Where what is called a GPU is a part of one, `[state]`."""
        parts: Bools = self.shared | self.sliced | (self.fraction != 1)
        return parts

    @lazy
    def unreported(self) -> Bools:
        """Known by labels or an old report only, `[state]`; nodes without GPUs too."""
        unreported: Bools = self.estimated | self.by_allocatable
        return unreported

    def write(self, column: int, state: NodeState, shape: int) -> None:
        for name in _OF_STATE:
            getattr(self, name)[column] = getattr(state, name)
        self.devices[column] = len(state.slots)
        self.shape[column] = shape
        self.loose[column] = loose_gpus(state) if state.counts_alone else -_not_free_in_slots(state)


def residual_milli(slot: Slot, *, shares: bool) -> int:
    """The part of a GPU, in thousandths, that a future pod can have: as a share, a whole one or a replica."""
    if not slot.healthy:
        return 0
    if shares and slot.share_total_mib:
        return max(0, slot.share_free_mib) * 1000 // slot.share_total_mib
    return int(slot.idle * 1000) if slot.is_whole else 0


def _is_unheld(slot: Slot) -> bool:
    return slot.healthy and slot.is_whole and slot.idle == 1.0


def _is_closed(slot: Slot) -> bool:
    """Whether no share may go to a GPU that could take some, such as one that may be held (state.py)."""
    return slot.share_free_mib < 0 < slot.share_total_mib


def _not_free_in_slots(state: NodeState) -> int:
    """The whole GPUs that are held on unknown devices, less those whose slots are closed for them, and those
    that are not offered."""
    closed = [state.takes_shares and _is_unheld(slot) and _is_closed(slot) for slot in state.slots]
    withheld = sum(count for name, count in state.beyond if not name.startswith(MIG_PREFIX))
    return max(0, math.ceil(state.adrift) - sum(closed)) + withheld


def loose_gpus(state: NodeState) -> float:
    """The free GPUs of a node whose whole GPUs are only a number, time slices as parts of one."""
    units = [unit for slot in state.slots if slot.healthy for unit in slot.units]
    counted: Counter[str] = Counter()
    # Replicas count together as the GPUs that they are parts of.
    parts: dict[str, float] = {}
    for unit in units:
        if not unit.resource.startswith(MIG_PREFIX):
            counted[unit.resource] += unit.free
            parts[unit.resource] = unit.gpu_part
    limits = {name: (unknown, limit) for name, unknown, limit in state.limits}
    none = (0, UNLIMITED)
    free = [
        min(n - limits.get(name, none)[0], limits.get(name, none)[1]) * parts[name]
        for name, n in counted.items()
    ]
    # Rounded, so that nodes with equal rooms have equal values, and eight eighths are a whole.
    return round(max([0.0, *free]), 9)


def copied(columns: _Columns, states: slice | Ints) -> _Columns:
    kind = type(columns)
    return kind(**{name: getattr(columns, name)[..., states].copy() for name, *_ in _ARRAYS[kind]})


def clear(column: int, *kinds: DeviceColumns | UnitColumns) -> None:
    for columns in kinds:
        for name, _, _, value in _ARRAYS[type(columns)]:
            getattr(columns, name)[..., column] = value


# The arrays of each kind of columns: name, whether it is per device, type, value of an unused column.
_ARRAYS: dict[type, tuple[tuple[str, bool, type[np.generic], int], ...]] = {
    kind: tuple(
        (
            each.name,
            kind is not NodeColumns and each.name not in _PER_STATE,
            _DTYPES[str(each.type)],
            _UNUSED.get(each.name, 0),
        )
        for each in fields(kind)
    )
    for kind in (DeviceColumns, UnitColumns, NodeColumns)
}
