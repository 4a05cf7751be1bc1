"""The columns of a snapshot: ``[slot, state]`` arrays, a column per distinct node state, a row per device.

Arrays lie so that reducing over a node's devices runs along contiguous memory. A column of no state holds
what an unknown node looks like.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import NOBODY, UNLIMITED, NodeState, Slot, Unit
from scheduler_ext.core.request.resource_names import MIG_PREFIX

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
# Of a node without GPUs.
NO_SHAPE = -1
_Columns = TypeVar("_Columns", "DeviceColumns", "UnitColumns", "NodeColumns")


# Lazy values below are what scores need of a snapshot whatever the request: computed once a generation.


@dataclass(frozen=True)
class DeviceColumns:
    """Per device, ``[slot, state]``: MiB, capability as a version number, model as an index into models.

    ``kind`` is an index into kinds (-1: no GPU), ``residual`` what a pod to come can have of it, in
    thousandths, ``whole`` whether that may be all of it (``core.forecast``).
    """

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

    @classmethod
    def empty(cls, depth: int, width: int) -> DeviceColumns:
        """Columns of no device."""
        shape = (depth, width)
        return cls(
            healthy=np.zeros(shape, np.bool_),
            model=np.zeros(shape, np.int32),
            compute_capability=np.zeros(shape, np.int32),
            total_mib=np.zeros(shape, np.int32),
            share_total_mib=np.zeros(shape, np.int32),
            share_free_mib=np.full(shape, -1, np.int32),
            idle=np.zeros(shape, np.float64),
            kind=np.full(shape, -1, np.int32),
            residual=np.zeros(shape, np.int32),
            whole=np.zeros(shape, np.bool_),
        )

    def write(
        self, column: int, state: NodeState, models: Mapping[GpuModel, int], kinds: Sequence[int]
    ) -> None:
        """Fill an empty column; ``kinds`` are those of the slots."""
        takes_whole = state.takes_whole and not state.counts_alone
        for row, slot in enumerate(state.slots):
            self.kind[row, column] = kinds[row]
            if not state.counts_alone:
                self.residual[row, column] = residual_milli(slot, shares=state.takes_shares)
            self.whole[row, column] = takes_whole and slot.healthy and slot.is_whole and slot.idle == 1.0
            self.healthy[row, column] = slot.healthy
            self.model[row, column] = models[slot.model]
            self.compute_capability[row, column] = slot.compute_capability
            self.total_mib[row, column] = slot.total_mib
            self.share_total_mib[row, column] = slot.share_total_mib
            self.share_free_mib[row, column] = slot.share_free_mib
            self.idle[row, column] = slot.idle

    def clear(self, column: int) -> None:
        """Make a column one of no device again."""
        for each in fields(self):
            getattr(self, each.name)[:, column] = -1 if each.name in ("share_free_mib", "kind") else 0

    @lazy
    def share_size_mib(self) -> Floats:
        """What shares may have of a GPU in all, as a divisor: at least 1."""
        return np.maximum(self.share_total_mib, 1).astype(np.float64)

    @lazy
    def share_room_mib(self) -> Ints:
        """What is free for shares, 0 where none may go."""
        return np.maximum(self.share_free_mib, np.int32(0))


@dataclass(frozen=True)
class UnitColumns:
    """One resource that the device plugin hands out.

    ``[slot, state]``: ``offered`` by that device at all, ``free`` units on healthy devices, each
    ``memory_mib`` large (0: unknown) and ``gpu_part`` of the GPU, with ``free_mib`` free, of
    ``model``; ``mig_room`` where a MIG instance may lie, a number of MigRooms; ``sick`` free units on
    unhealthy devices. ``[state]``: ``unknown`` units held on devices nobody told, ``limit`` the node's
    allocatable less requests.
    """

    offered: Bools
    free: Ints
    memory_mib: Ints
    free_mib: Ints
    model: Ints
    gpu_part: Floats
    mig_room: Ints
    sick: Ints
    unknown: Ints
    limit: Ints

    @classmethod
    def empty(cls, depth: int, width: int) -> UnitColumns:
        """Columns that offer nothing."""
        shape = (depth, width)
        return cls(
            offered=np.zeros(shape, np.bool_),
            free=np.zeros(shape, np.int32),
            memory_mib=np.zeros(shape, np.int32),
            free_mib=np.zeros(shape, np.int32),
            model=np.zeros(shape, np.int32),
            gpu_part=np.zeros(shape, np.float64),
            mig_room=np.zeros(shape, np.int32),
            sick=np.zeros(shape, np.int32),
            unknown=np.zeros(width, np.int32),
            limit=np.full(width, UNLIMITED, np.int32),
        )

    def write(
        self, column: int, slot_row: int, unit: Unit, model: int, mig_room: int, *, healthy: bool
    ) -> None:
        """Fill one device of an empty column."""
        self.offered[slot_row, column] = True
        self.memory_mib[slot_row, column] = unit.memory_mib
        self.free_mib[slot_row, column] = unit.free_mib
        self.model[slot_row, column] = model
        self.gpu_part[slot_row, column] = unit.gpu_part
        self.mig_room[slot_row, column] = mig_room
        (self.free if healthy else self.sick)[slot_row, column] = unit.free

    def clear(self, column: int) -> None:
        """Make a column one that offers nothing again."""
        for each in fields(self):
            getattr(self, each.name)[..., column] = UNLIMITED if each.name == "limit" else 0

    @lazy
    def available(self) -> Ints:
        """Units a pod can still get, ``[state]``; may be below zero where more is held than offered."""
        available: Ints = np.minimum(self.free.sum(0, dtype=np.int32) - self.unknown, self.limit)
        return available

    @lazy
    def any_sick(self) -> bool:
        """Whether any unit is free on an unhealthy device."""
        return bool(self.sick.any())

    @lazy
    def offered_anywhere(self) -> Bools:
        """Which nodes have a device with such units at all, ``[state]``."""
        offered: Bools = np.any(self.offered, axis=0)
        return offered

    @lazy
    def has_free(self) -> Bools:
        """Which GPUs have a unit to give, ``[slot, state]``."""
        return self.free > 0

    @lazy
    def _free_gpus(self) -> Ints:
        gpus: Ints = np.maximum(self.has_free.sum(0, dtype=np.int32), 1)
        return gpus

    def mean_over_free(self, values: Floats) -> Floats:
        """The mean of ``[slot, state]`` values over the GPUs with a free unit, ``[state]``; 0 without any."""
        mean: Floats = (values * self.has_free).sum(0) / self._free_gpus
        return mean

    @lazy
    def mean_gpu_part(self) -> Floats:
        """How much of a GPU the next unit is, ``[state]``."""
        return self.mean_over_free(self.gpu_part)


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Per node state, ``[state]``; ``count`` is how many nodes are in it, ``devices`` how many slots it has.
    ``gpus``, ``adrift``, ``neighbours`` and ``cpu_free_milli`` are those of NodeState; ``shape`` is an index
    into shapes;
    ``loose`` are the whole GPUs still free that are in no slot, below 0 where more of those in the slots are
    held."""

    count: Ints
    gpus: Ints
    adrift: Floats
    fresh: Bools
    estimated: Bools
    changing: Bools
    shared: Bools
    cuda: Ints
    spot: Bools
    share_limit: Ints
    neighbours: Ints
    devices: Ints
    shape: Ints
    cpu_free_milli: Ints
    loose: Ints

    @classmethod
    def empty(cls, width: int) -> NodeColumns:
        """Columns of no node."""
        return cls(
            count=np.zeros(width, np.int32),
            gpus=np.zeros(width, np.int32),
            adrift=np.zeros(width, np.float64),
            fresh=np.zeros(width, np.bool_),
            estimated=np.zeros(width, np.bool_),
            changing=np.zeros(width, np.bool_),
            shared=np.zeros(width, np.bool_),
            cuda=np.zeros(width, np.int32),
            spot=np.zeros(width, np.bool_),
            share_limit=np.full(width, UNLIMITED, np.int32),
            neighbours=np.full(width, NOBODY, np.int32),
            devices=np.zeros(width, np.int32),
            shape=np.full(width, NO_SHAPE, np.int32),
            cpu_free_milli=np.full(width, UNLIMITED, np.int32),
            loose=np.zeros(width, np.int32),
        )

    def write(self, column: int, state: NodeState, shape: int) -> None:
        """Fill a column, all but its count."""
        self.gpus[column] = state.gpus
        self.adrift[column] = state.adrift
        self.fresh[column] = state.fresh
        self.estimated[column] = state.estimated
        self.changing[column] = state.changing
        self.shared[column] = state.shared
        self.cuda[column] = state.cuda
        self.spot[column] = state.spot
        self.share_limit[column] = state.share_limit
        self.neighbours[column] = state.neighbours
        self.devices[column] = len(state.slots)
        self.shape[column] = shape
        self.cpu_free_milli[column] = state.cpu_free_milli
        self.loose[column] = _loose(state) if state.counts_alone else -math.ceil(state.adrift)


def residual_milli(slot: Slot, *, shares: bool) -> int:
    """What a pod to come can have of a GPU, in thousandths: as a share where the node takes ``shares``, else
    as a whole one or a replica of it."""
    if not slot.healthy:
        return 0
    if shares and slot.share_total_mib:
        return max(0, slot.share_free_mib) * 1000 // slot.share_total_mib
    return int(slot.idle * 1000) if slot.is_whole else 0


def _loose(state: NodeState) -> int:
    units = [unit for slot in state.slots if slot.healthy for unit in slot.units]
    counted: Counter[str] = Counter()
    for unit in units:
        if not unit.resource.startswith(MIG_PREFIX):
            counted[unit.resource] += unit.free
    limits = {name: (unknown, limit) for name, unknown, limit in state.limits}
    none = (0, UNLIMITED)
    free = [min(n - limits.get(name, none)[0], limits.get(name, none)[1]) for name, n in counted.items()]
    return max([0, *free])


def copied(columns: _Columns, width: int) -> _Columns:
    """The first ``width`` columns, copied."""
    return type(columns)(
        **{each.name: getattr(columns, each.name)[..., :width].copy() for each in fields(columns)}
    )
