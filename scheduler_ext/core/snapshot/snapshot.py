"""All nodes at one generation: an immutable table that a decision reads without locks. Columns are `[slot,
state]`: one column per *distinct* node state, one row per device, so that equal nodes cost nothing extra.
`state_of` maps a node's row to its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.forecast.demand import Demand, demand
from scheduler_ext.core.forecast.forecast import NO_FORECAST, WHOLE, DeviceKind, EmptyNode, Forecast
from scheduler_ext.core.forecast.mig_value import NumberedPlacements
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.columns import DeviceColumns, Floats, Ints, NodeColumns, UnitColumns
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import Node, NodeState
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.planned_pods import NO_PLANNED, PlannedPods
from scheduler_ext.core.snapshot.value_ranks import ValueRanks, value_ranks
from scheduler_ext.core.snapshot.value_weights import small_cluster_weight, value_weights_by_model


def scarcity(wanted: Floats, idle: Floats) -> Floats:
    """The scarcity of models, 0 to 1, from their parts of all demand and their idle GPUs."""
    ratio = wanted * idle.sum() / np.maximum(idle, 1e-9)
    scarce: Floats = np.minimum(ratio, 1.0) ** 2
    return scarce


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Every node at one generation. `state_of` has one entry more than there are nodes: row -1, for names
    of no node. `unsettled` names nodes that some pods see differently: a pod's own assumed or nominated
    place does not count against it. `planned` says the same of planned places, which the states count.
    `within` is the whole cluster if this snapshot has fewer nodes."""

    generation: int
    nodes: Mapping[str, Node]
    row_of: NameIndex
    state_of: Ints
    name_rank: Ints
    states: tuple[NodeState, ...]
    models: tuple[GpuModel, ...]
    kinds: tuple[DeviceKind, ...]
    shapes: tuple[EmptyNode, ...]
    devices: DeviceColumns
    units: Mapping[str, UnitColumns]
    node: NodeColumns
    numbered_placements: NumberedPlacements
    expected: Forecast = NO_FORECAST
    unsettled: frozenset[str] = frozenset()
    planned: PlannedPods = NO_PLANNED
    within: Snapshot | None = None

    @property
    def cluster(self) -> Snapshot:
        """The basis of comparisons: the scarcity of a model, for example, depends on all nodes."""
        return self.within or self

    def state_at(self, name: str) -> int:
        """The column of a node's state."""
        return int(self.state_of[self.row_of[name]])

    def rows(self, names: Sequence[str]) -> Ints:
        return self.row_of.rows(names)

    @lazy
    def forecast(self) -> Forecast:
        return self.expected.covering(self.kinds)

    @lazy
    def demand(self) -> Demand:
        return demand(self.forecast, self.kinds, self.devices, self.node)

    @lazy
    def scarcity(self) -> Floats:
        """How scarce each model is, `[model]`, 0 to 1: the demand that pods restricted to some models will
        have for it until the cluster is full, over its idle GPUs, squared: little before it becomes short."""
        cluster = self.cluster
        if cluster is self:
            return scarcity(self.wanted_models, self.idle_of_models)
        return self._of_cluster(cluster.scarcity)

    @lazy
    def wanted_models(self) -> Floats:
        """The part of all demand for each model by pods that do not take every model, `[model]`."""
        return self._by_model(self.forecast.wanted(self.kinds, self._gpus_of_kinds))

    def _of_cluster(self, values: Floats) -> Floats:
        """Values of the cluster's models for those of this part of it, `[model]`."""
        if self.cluster.models == self.models:
            return values
        known = dict(zip(self.cluster.models, values.tolist(), strict=True))
        return np.array([known.get(model, 0.0) for model in self.models])

    @lazy
    def _gpus_of_kinds(self) -> Floats:
        """All GPUs of each kind, `[kind]`."""
        # One slot stands for all GPUs of an estimated node; the first count is of slots without one.
        each = np.where(self.node.estimated, self.node.gpus, 1) * self.node.count
        there = np.broadcast_to(each, self.devices.kind.shape).ravel()
        return np.bincount(self.devices.kind.ravel() + 1, there, len(self.kinds) + 1)[1:].astype(np.float64)

    def _by_model(self, of_kinds: Floats) -> Floats:
        """The sums of values of kinds, `[model]`."""
        number = {model: index for index, model in enumerate(self.models)}
        sums = np.zeros(len(self.models))
        for kind, value in zip(self.kinds, of_kinds.tolist(), strict=True):
            sums[number[kind.model]] += value
        return sums

    @lazy
    def idle_of_models(self) -> Floats:
        """The idle GPUs of each model in the whole snapshot, `[model]`, parts of shared ones included."""
        idle = self.devices.residual / WHOLE
        # Which GPUs are held on unknown devices is unknown, so each idle one counts less.
        seen = np.maximum(idle.sum(0), 1e-9)
        idle *= np.maximum(seen + np.minimum(self.node.loose, 0), 0.0) / seen * self.node.count
        # GPUs that are in no slot are of the model in the first one.
        idle[0] += np.maximum(self.node.loose, 0) * self.node.count
        return np.bincount(self.devices.model.ravel(), idle.ravel(), len(self.models)).astype(np.float64)

    @lazy
    def host_scarcity(self) -> Floats:
        """The demand of pods that few nodes are large enough for, by GPUs of each node, `[state]`, 0 to
        1."""
        # Nothing at the end, for nodes without GPUs.
        hosted: Floats = np.append(self._scarcity_of_shapes, 0.0).take(self.node.shape)
        return hosted

    @lazy
    def _scarcity_of_shapes(self) -> Floats:
        """The demand of `host_scarcity`, `[shape]`; 0 for shapes that no node of the cluster has."""
        cluster = self.cluster
        if cluster is not self:
            if cluster.shapes == self.shapes:
                return cluster._scarcity_of_shapes
            known = dict(zip(cluster.shapes, cluster._scarcity_of_shapes.tolist(), strict=True))
            return np.array([known.get(shape, 0.0) for shape in self.shapes])
        return self.forecast.hosted(self.shapes, self._nodes_of_shapes)

    @lazy
    def _nodes_of_shapes(self) -> Floats:
        """The nodes of each shape, `[shape]`; the first count is of nodes without GPUs."""
        return np.bincount(self.node.shape + 1, self.node.count, len(self.shapes) + 1)[1:].astype(np.float64)

    def mig_loss(self, resource: str) -> Floats:
        """The cost of the next unit to future MIG pods, in GPUs, `[state]`: the mean over the free ones."""
        loss = self._mig_loss.get(resource)
        if loss is None:
            columns = self.units.get(resource)
            if columns is None or not columns.mig_placements.any():
                loss = np.zeros(len(self.states))
            else:
                losses = self.numbered_placements.losses(self.forecast.workload)
                loss = columns.mean_over_next(losses.take(columns.mig_placements))
            self._mig_loss[resource] = loss
        return loss

    def gives_parts(self, resource: str) -> bool:
        """Whether some node of the cluster hands out a part of a GPU that is known by this resource."""
        columns = [each.units[resource] for each in (self, self.cluster) if resource in each.units]
        return any(each.any_first for each in columns)

    @lazy
    def idle_part(self) -> float:
        """The idle part of the cluster's GPUs, 0 to 1."""
        if self.cluster is not self:
            return self.cluster.idle_part
        gpus = float(self.node.gpus @ self.node.count)
        return min(1.0, float(self.idle_of_models.sum()) / gpus) if gpus else 0.0

    @lazy
    def cpu_shortage(self) -> float:
        """How short of CPU the cluster is beside its GPUs, 0 to 1."""
        if self.cluster is not self:
            return self.cluster.cpu_shortage
        return self.forecast.cpu_shortage(self.shapes, self._nodes_of_shapes)

    @lazy
    def small_cluster(self) -> float:
        """How small the cluster is, 0 to 1."""
        if self.cluster is not self:
            return self.cluster.small_cluster
        return small_cluster_weight(int(self.node.count[self.node.gpus > 0].sum()))

    def value_ranks(self, configured: Mapping[str, float]) -> ValueRanks:
        """The ranks of models and nodes by value; `configured` values replace those of the table."""
        key = tuple(configured.items())
        if key not in self._value_ranks:
            every = self.cluster
            stated = every.own_values(configured)[every.node.count > 0]
            own = self.own_values(configured)
            self._value_ranks[key] = value_ranks(self.models, own, configured, (every.models, stated))
        return self._value_ranks[key]

    def own_values(self, configured: Mapping[str, float]) -> Floats:
        """The value of one GPU of each node where it is not that of its model, `[state]`, 0 of the others: a
        stated value, or that of a fraction of a GPU."""
        parts = (self.node.fraction > 1) & (self.node.value == 0) & (self.node.devices > 0)
        if not parts.any():
            return self.node.value
        of_models = np.array([value_of(model, configured) for model in self.models])
        of_parts = of_models[self.devices.model[0]] / np.maximum(self.node.fraction, 1)
        return np.where(parts, of_parts, self.node.value)

    def value_weights(self, configured: Mapping[str, float]) -> Floats:
        """How much the value of each model counts, `[model]`, 0 to 3."""
        key = tuple(configured.items())
        if key not in self._value_weights:
            self._value_weights[key] = self._value_weights_by_model(configured)
        return self._value_weights[key]

    def _value_weights_by_model(self, configured: Mapping[str, float]) -> Floats:
        cluster = self.cluster
        if cluster is not self:
            return self._of_cluster(cluster.value_weights(configured))
        ranks, gpus = self.value_ranks(configured).models, self._by_model(self._gpus_of_kinds)
        return value_weights_by_model(ranks, self.idle_of_models, gpus, self.idle_part, self.small_cluster)

    @lazy
    def _value_ranks(self) -> dict[tuple[tuple[str, float], ...], ValueRanks]:
        return {}

    @lazy
    def _value_weights(self) -> dict[tuple[tuple[str, float], ...], Floats]:
        return {}

    @lazy
    def _mig_loss(self) -> dict[str, Floats]:
        return {}

    @lazy
    def no_units(self) -> UnitColumns:
        return UnitColumns.empty(len(self.devices.healthy), len(self.states))

    @lazy
    def healthy(self) -> Ints:
        return np.where(self.node.estimated, self.node.gpus, self.devices.healthy.sum(0, dtype=np.int32))

    @lazy
    def health(self) -> Floats:
        health: Floats = self.healthy / np.maximum(self.node.gpus, 1)
        return health

    @lazy
    def idle(self) -> Floats:
        """Each node's idle healthy GPUs, `[state]`, less holdings on unknown devices."""
        reported = (self.devices.idle * self.devices.healthy).sum(0)
        seen = np.where(self.node.estimated, self.node.gpus, reported)
        idle: Floats = np.maximum(seen - self.node.adrift, 0.0)
        return idle

    @lazy
    def some_sliced(self) -> bool:
        """Whether some node hands out parts of GPUs under the name of a GPU."""
        looked_at = (self, self.cluster)
        return any(bool(each.node.in_parts.any()) for each in looked_at)

    @lazy
    def some_unreported(self) -> bool:
        """Whether some GPU nodes have no fresh report while others have one."""
        looked_at = (self.node, self.cluster.node)
        return any(
            bool((node.by_allocatable | (node.estimated & (node.gpus > 0))).any()) for node in looked_at
        ) and not all(bool(node.unreported.all()) for node in looked_at)
