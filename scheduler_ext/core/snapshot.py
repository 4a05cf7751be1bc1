"""All nodes at one generation: an immutable table that a decision reads without locks.

Columns are ``[slot, state]``: one column per *distinct* node state, one row per device, so that equal nodes
cost nothing extra. ``state_of`` maps a node's row to its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.columns import DeviceColumns, Floats, Ints, NodeColumns, UnitColumns
from scheduler_ext.core.lazy import lazy
from scheduler_ext.core.models import GpuModel
from scheduler_ext.core.name_index import NameIndex
from scheduler_ext.core.node import Node, NodeState


@dataclass(frozen=True)
class Snapshot:
    """Every node at one generation. ``state_of`` has one entry more than there are nodes: row -1, which
    names of no node map to, is in the state of an unknown node.

    ``unsettled`` names the nodes that not all pods see alike: what is assumed there or nominated does not
    count against the pod itself. ``within`` is the whole cluster's snapshot where this one holds only the
    nodes of one request."""

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
    unsettled: frozenset[str] = frozenset()
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
        return UnitColumns.empty(len(self.devices.healthy), len(self.states))

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
