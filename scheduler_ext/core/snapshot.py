"""All nodes at one generation: an immutable table that a decision reads without locks.

Columns are ``[slot, state]``: one column per *distinct* node state, one row per device, so that reducing
over a node's devices runs along contiguous memory and equal nodes cost nothing extra. ``state_of`` maps a
node's row to its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.lazy import lazy
from scheduler_ext.core.models import GpuModel, canonical_model
from scheduler_ext.core.name_index import NameIndex
from scheduler_ext.core.node import UNKNOWN_NODE, UNLIMITED, Node, NodeState

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


# Lazy values below are what scores need of a snapshot whatever the request: computed once a generation.


@dataclass(frozen=True)
class DeviceColumns:
    """Per device, ``[slot, state]``: MiB, capability as a version number, model as an index into models."""

    healthy: Bools
    model: Ints
    compute_capability: Ints
    total_mib: Ints
    share_total_mib: Ints
    share_free_mib: Ints
    idle: Floats

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
    ``model``; ``mig_loss``; ``sick`` free units on unhealthy devices. ``[state]``: ``unknown`` units held on
    devices nobody told, ``limit`` the node's allocatable less requests.
    """

    offered: Bools
    free: Ints
    memory_mib: Ints
    free_mib: Ints
    model: Ints
    gpu_part: Floats
    mig_loss: Floats
    sick: Ints
    unknown: Ints
    limit: Ints

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

    @lazy
    def mean_mig_loss(self) -> Floats:
        """The placeability that the next unit destroys, ``[state]``: the plugin picks, so the mean."""
        return self.mean_over_free(self.mig_loss)


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Per node state, ``[state]``; ``count`` is how many nodes are in it, ``devices`` how many slots it has.
    ``gpus`` and ``adrift`` are those of NodeState."""

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
    devices: Ints


@dataclass(frozen=True)
class Snapshot:
    """Every node at one generation. ``state_of`` has one entry more than there are nodes: row -1, which
    names of no node map to, is in the state of an unknown node.

    ``within`` is the whole cluster's snapshot where this one holds only the nodes of one request."""

    generation: int
    nodes: Mapping[str, Node]
    row_of: NameIndex
    state_of: Ints
    name_rank: Ints
    states: tuple[NodeState, ...]
    models: tuple[GpuModel, ...]
    devices: DeviceColumns
    units: Mapping[str, UnitColumns]
    node: NodeColumns
    within: Snapshot | None = None

    @property
    def cluster(self) -> Snapshot:
        """What is compared with: how scarce a model is, say, is a matter of all nodes."""
        return self.within or self

    def rows(self, names: Sequence[str]) -> Ints:
        """Row per name, -1 for names of no node."""
        return self.row_of.rows(names)

    @lazy
    def no_units(self) -> UnitColumns:
        """What a resource looks like that no node offers."""
        return _unit_columns("", self.states, {})

    @lazy
    def healthy(self) -> Ints:
        """How many healthy GPUs each node has, ``[state]``; an estimated one has all of its."""
        return np.where(self.node.estimated, self.node.gpus, self.devices.healthy.sum(0, dtype=np.int32))

    @lazy
    def health(self) -> Floats:
        """The healthy part of each node's GPUs, ``[state]``, 0 to 1."""
        health: Floats = self.healthy / np.maximum(self.node.gpus, 1)
        return health

    @lazy
    def idle(self) -> Floats:
        """Each node's idle GPUs, ``[state]``, less what is held on devices nobody told; a sick GPU is no room
        for anybody, however idle."""
        seen = np.where(self.node.estimated, self.node.gpus, self._idle_devices.sum(0))
        idle: Floats = np.maximum(seen - self.node.adrift, 0.0)
        return idle

    @lazy
    def _idle_devices(self) -> Floats:
        idle: Floats = self.devices.idle * self.devices.healthy
        return idle

    @lazy
    def idle_by_model(self) -> Floats:
        """Idle GPUs of the whole cluster per model, ``[model]``; a slice counts as the GPU it is cut from."""
        # Each node's idle GPUs, spread over its devices as these are idle themselves.
        factor = self.idle * self.node.count / np.maximum(self._idle_devices.sum(0), 1e-9)
        idle = self._idle_devices * factor
        return np.bincount(self.devices.model.ravel(), idle.ravel(), len(self.models)).astype(np.float64)

    @lazy
    def plenty(self) -> Floats:
        """How much of each GPU's model is idle, ``[slot, state]``, as a part of the most plentiful one."""
        idle = self.cluster.idle_by_model
        most = max(float(idle.max(initial=0.0)), 1e-9)
        known = dict(zip(self.cluster.models, (idle / most).tolist(), strict=True))
        plenty: Floats = np.array([known.get(model, 0.0) for model in self.models])[self.devices.model]
        return plenty

    @lazy
    def some_estimated(self) -> bool:
        """Whether some GPU nodes are known by their labels only while others have a report."""
        looked_at = (self.node, self.cluster.node)
        return any(bool((node.estimated & (node.gpus > 0)).any()) for node in looked_at) and not all(
            bool(node.estimated.all()) for node in looked_at
        )

    @lazy
    def unit_plenty(self) -> Mapping[str, Floats]:
        """The mean of ``plenty`` over the GPUs that have a unit free, per resource, ``[state]``."""
        return {resource: columns.mean_over_free(self.plenty) for resource, columns in self.units.items()}


def build_snapshot(nodes: Mapping[str, Node], generation: int, within: Snapshot | None = None) -> Snapshot:
    """The snapshot of these nodes, which may be only some of a cluster's."""
    # Fresh copies, which lie side by side in memory instead of strewn among the nodes.
    names = [(name + " ")[:-1] for name in nodes]
    number: dict[NodeState, int] = {UNKNOWN_NODE: 0}
    state_of = np.array(
        [number.setdefault(node.state, len(number)) for node in nodes.values()] + [0], dtype=np.int32
    )
    states = tuple(number)
    models: dict[GpuModel, int] = {}
    for state in states:
        for slot in state.slots:
            models.setdefault(slot.model, len(models))
            for unit in slot.units:
                models.setdefault(unit.model, len(models))
    rank = np.empty(len(names) + 1, dtype=np.int32)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.int32)
    rank[-1] = len(names)
    resources = sorted({unit.resource for state in states for slot in state.slots for unit in slot.units})
    return Snapshot(
        generation=generation,
        nodes=nodes,
        row_of=NameIndex(names),
        state_of=state_of,
        name_rank=rank,
        states=states,
        # Never empty: slots without a device are of model 0, also where no node has any.
        models=tuple(models) or (canonical_model(""),),
        devices=_device_columns(states, models),
        units={resource: _unit_columns(resource, states, models) for resource in resources},
        node=_node_columns(states, np.bincount(state_of[:-1], minlength=len(states))),
        within=within,
    )


def _grid(states: Sequence[NodeState], dtype: Any, fill: int = 0) -> npt.NDArray[Any]:
    depth = max((len(state.slots) for state in states), default=0)
    return np.full((max(1, depth), len(states)), fill, dtype=dtype)


def _device_columns(states: Sequence[NodeState], models: Mapping[GpuModel, int]) -> DeviceColumns:
    columns = DeviceColumns(
        healthy=_grid(states, np.bool_),
        model=_grid(states, np.int32),
        compute_capability=_grid(states, np.int32),
        total_mib=_grid(states, np.int32),
        share_total_mib=_grid(states, np.int32),
        share_free_mib=_grid(states, np.int32, -1),
        idle=_grid(states, np.float64),
    )
    for column, state in enumerate(states):
        for row, slot in enumerate(state.slots):
            columns.healthy[row, column] = slot.healthy
            columns.model[row, column] = models[slot.model]
            columns.compute_capability[row, column] = slot.compute_capability
            columns.total_mib[row, column] = slot.total_mib
            columns.share_total_mib[row, column] = slot.share_total_mib
            columns.share_free_mib[row, column] = slot.share_free_mib
            columns.idle[row, column] = slot.idle
    return columns


def _unit_columns(resource: str, states: Sequence[NodeState], models: Mapping[GpuModel, int]) -> UnitColumns:
    columns = UnitColumns(
        offered=_grid(states, np.bool_),
        free=_grid(states, np.int32),
        memory_mib=_grid(states, np.int32),
        free_mib=_grid(states, np.int32),
        model=_grid(states, np.int32),
        gpu_part=_grid(states, np.float64),
        mig_loss=_grid(states, np.float64),
        sick=_grid(states, np.int32),
        unknown=np.zeros(len(states), np.int32),
        limit=np.full(len(states), UNLIMITED, np.int32),
    )
    for column, state in enumerate(states):
        for name, unknown, limit in state.limits:
            if name == resource:
                columns.unknown[column], columns.limit[column] = unknown, limit
        for row, slot in enumerate(state.slots):
            for unit in slot.units:
                if unit.resource != resource:
                    continue
                columns.offered[row, column] = True
                columns.memory_mib[row, column] = unit.memory_mib
                columns.free_mib[row, column] = unit.free_mib
                columns.model[row, column] = models[unit.model]
                columns.gpu_part[row, column] = unit.gpu_part
                columns.mig_loss[row, column] = unit.mig_loss
                if slot.healthy:
                    columns.free[row, column] = unit.free
                else:
                    columns.sick[row, column] = unit.free
    return columns


def _node_columns(states: Sequence[NodeState], count: npt.NDArray[Any]) -> NodeColumns:
    return NodeColumns(
        count=count.astype(np.int32),
        gpus=np.array([state.gpus for state in states], np.int32),
        adrift=np.array([state.adrift for state in states], np.float64),
        fresh=np.array([state.fresh for state in states], np.bool_),
        estimated=np.array([state.estimated for state in states], np.bool_),
        changing=np.array([state.changing for state in states], np.bool_),
        shared=np.array([state.shared for state in states], np.bool_),
        cuda=np.array([state.cuda for state in states], np.int32),
        spot=np.array([state.spot for state in states], np.bool_),
        share_limit=np.array([state.share_limit for state in states], np.int32),
        devices=np.array([len(state.slots) for state in states], np.int32),
    )
