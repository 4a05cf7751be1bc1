"""A cluster's nodes as columns that are kept in step. A change of one node writes its state only, and a copy
of whole arrays is published. Building every column again would take a second at 5000 nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from scheduler_ext.core.forecast.forecast import NO_FORECAST, DeviceKind, EmptyNode, Forecast
from scheduler_ext.core.forecast.mig_value import NumberedPlacements
from scheduler_ext.core.gpu.models import GpuModel, canonical_model
from scheduler_ext.core.node.columns import (
    NO_SHAPE,
    DeviceColumns,
    Ints,
    NodeColumns,
    UnitColumns,
    clear,
    copied,
)
from scheduler_ext.core.node.node import UNKNOWN_NODE, BoundPod, Node, NodeState
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.planned_pods import NO_PLANNED, PlannedPods
from scheduler_ext.core.snapshot.snapshot import Snapshot

# Columns kept free for future states, beside a fourth of those in use; when full, all are built again.
_SPARE = 64
_SPARE_ROOMS, _SPARE_KINDS, _SPARE_SHAPES = 4096, 16, 64


def build_snapshot(
    nodes: Mapping[str, Node],
    generation: int,
    within: Snapshot | None = None,
    forecast: Forecast = NO_FORECAST,
) -> Snapshot:
    """The snapshot of these nodes, which may be some of a cluster's; its forecast is then that of all."""
    table = Table(nodes, spare=0, forecast=within.forecast if within is not None else forecast)
    return table.snapshot(generation, within)


class StateColumns:
    """Columns that states are written into; resources, models, kinds and shapes appear with them."""

    _depth: int
    _devices: DeviceColumns
    _units: dict[str, UnitColumns]
    _node: NodeColumns
    _models: dict[GpuModel, int]
    _kinds: dict[DeviceKind, int]
    _shapes: dict[EmptyNode, int]
    _numbered_placements: NumberedPlacements

    def _write_columns(self, column: int, state: NodeState) -> None:
        for model in state_models(state):
            self._models.setdefault(model, len(self._models))
        kinds = list(slot_kinds(state))
        numbers = [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds]
        shape = NO_SHAPE
        if kinds:
            # Where a node has several kinds, the first stands for all.
            one = EmptyNode(kinds[0], state.gpus, state.cpu_milli)
            shape = self._shapes.setdefault(one, len(self._shapes))
        self._devices.write(column, state, self._models, numbers)
        self._node.write(column, state, shape)
        for row, slot in enumerate(state.slots):
            for unit in slot.units:
                columns = self._columns_of(unit.resource)
                room = self._numbered_placements.number(unit.mig_placements)
                columns.write(column, row, unit, self._models[unit.model], room, healthy=slot.healthy)
        for resource, unknown, limit in state.limits:
            if resource in self._units:
                self._units[resource].unknown[column] = unknown
                self._units[resource].limit[column] = limit
        for resource in state.open:
            self._columns_of(resource).open[column] = True
        for resource in state.by_claim:
            if resource in self._units:
                self._units[resource].by_claim[column] = True
        for resource in state.twice:
            self._units[resource].twice[column] = True

    def _columns_of(self, resource: str) -> UnitColumns:
        columns = self._units.get(resource)
        if columns is None:
            columns = self._units[resource] = UnitColumns.empty(self._depth, len(self._node.count))
        return columns


class Table(StateColumns):
    """Nodes by name, their states by column. For one writer; what it publishes never changes."""

    _row_of: NameIndex
    _name_rank: Ints
    _state_of: Ints

    def __init__(
        self,
        nodes: Mapping[str, Node],
        spare: int = _SPARE,
        forecast: Forecast = NO_FORECAST,
        before: Table | None = None,
    ) -> None:
        """`forecast` may be changed between two snapshots. Nodes with the names of `before` share its
        index of names, because recorded decisions keep theirs."""
        self._spare = spare
        self.forecast = forecast
        self._nodes = dict(nodes)
        self._unsettled = {name for name, node in nodes.items() if _is_unsettled(node)}
        self._planned = _planned(nodes)
        self._planned_pods: PlannedPods | None = None
        self._row_of = before._row_of if before is not None else NameIndex(())
        self._name_rank = before._name_rank if before is not None else np.zeros(1, np.int32)
        self._name_rows()
        self._fill()

    def snapshot(self, generation: int, within: Snapshot | None = None) -> Snapshot:
        used = slice(len(self._states))
        return Snapshot(
            generation=generation,
            nodes=self._nodes,
            row_of=self._row_of,
            state_of=self._state_of.copy(),
            name_rank=self._name_rank,
            states=tuple(self._states),
            # Never empty: slots without a device are of model 0, also if no node has any.
            models=tuple(self._models) or (canonical_model(""),),
            kinds=tuple(self._kinds),
            shapes=tuple(self._shapes),
            devices=copied(self._devices, used),
            units={resource: copied(self._units[resource], used) for resource in sorted(self._units)},
            node=copied(self._node, used),
            numbered_placements=self._numbered_placements,
            expected=self.forecast,
            unsettled=frozenset(self._unsettled),
            planned=self._indexed(),
            within=within,
        )

    def update(self, changed: Mapping[str, Node | None]) -> None:
        """Take these nodes as they are now; None: a node is gone. After an error, nothing was taken."""
        before, unsettled = self._nodes, set(self._unsettled)
        planned = dict(self._planned)
        try:
            self._take(changed)
        except Exception:
            self._nodes, self._unsettled, self._planned = before, unsettled, planned
            self._planned_pods = None
            self._name_rows()
            self._fill()
            raise

    def _take(self, changed: Mapping[str, Node | None]) -> None:
        before = self._nodes
        # The mapping that was published stays as it is.
        self._nodes = dict(before)
        for name, node in changed.items():
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node
            unsettled = node is not None and _is_unsettled(node)
            (self._unsettled.add if unsettled else self._unsettled.discard)(name)
        self._follow_planned(changed)
        if len(changed) * 2 > len(self._nodes):
            self._name_rows()
            self._fill()
            return
        moved = [self._move(self._row_of[name], UNKNOWN_NODE) for name in changed if name not in self._nodes]
        if self._nodes.keys() != before.keys():
            self._follow_names()
        moved += [
            self._move(self._row_of[name], self._nodes[name].state) for name in changed if name in self._nodes
        ]
        if not all(moved):
            self._fill()

    def _follow_planned(self, changed: Mapping[str, Node | None]) -> None:
        now = _planned({name: node for name, node in changed.items() if node is not None})
        before = {name: self._planned[name] for name in changed if name in self._planned}
        if now != before:
            self._planned = {name: self._planned[name] for name in self._planned.keys() - before} | now
            self._planned_pods = None

    def _indexed(self) -> PlannedPods:
        if self._planned_pods is None:
            self._planned_pods = PlannedPods(self._planned) if self._planned else NO_PLANNED
        return self._planned_pods

    def _follow_names(self) -> None:
        """New rows for the nodes there are now; those that are new begin as unknown ones."""
        row_of, state_of = self._row_of, self._state_of
        self._name_rows()
        # Row -1, where names of no former node are, has the state of an unknown node.
        self._state_of = np.append(state_of[row_of.rows(list(self._row_of))], np.int32(0))
        self._node.count[0] = np.count_nonzero(self._state_of[:-1] == 0)

    def _name_rows(self) -> None:
        if list(self._row_of) == list(self._nodes):
            return
        # Fresh copies, which lie side by side in memory instead of strewn among the nodes.
        names = [(name + " ")[:-1] for name in self._nodes]
        self._row_of = NameIndex(names)
        rank = np.empty(len(names) + 1, dtype=np.int32)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.int32)
        rank[-1] = len(names)
        self._name_rank = rank

    def _fill(self) -> None:
        """Build all columns again, with room for more."""
        numbers: dict[NodeState, int] = {UNKNOWN_NODE: 0}
        self._state_of = np.array(
            [numbers.setdefault(node.state, len(numbers)) for node in self._nodes.values()] + [0], np.int32
        )
        self._column_of = numbers
        self._states = list(numbers)
        self._free: list[int] = []
        width = len(numbers) + (self._spare + len(numbers) // 4 if self._spare else 0)
        self._depth = max(1, *(len(state.slots) for state in numbers))
        self._devices = DeviceColumns.empty(self._depth, width)
        self._units: dict[str, UnitColumns] = {}
        self._node = NodeColumns.empty(0, width)
        self._models: dict[GpuModel, int] = {}
        self._kinds: dict[DeviceKind, int] = {}
        self._shapes: dict[EmptyNode, int] = {}
        self._numbered_placements = NumberedPlacements()
        self._model_users: Counter[GpuModel] = Counter()
        for state, column in numbers.items():
            self._write(column, state)
        self._node.count[: len(numbers)] = np.bincount(self._state_of[:-1], minlength=len(numbers))
        rooms, kinds, shapes = self._numbered()
        self._most = 2 * rooms + _SPARE_ROOMS, 2 * kinds + _SPARE_KINDS, 2 * shapes + _SPARE_SHAPES

    def _numbered(self) -> tuple[int, int, int]:
        """How many MIG rooms, kinds and shapes have a number, until all is built again."""
        return len(self._numbered_placements), len(self._kinds), len(self._shapes)

    def _move(self, row: int, state: NodeState) -> bool:
        """Assign a state to the node of a row; False if a column is missing."""
        if row < 0:
            # Gone before it came.
            return True
        old = int(self._state_of[row])
        if self._states[old] == state:
            return True
        column = self._column_of.get(state)
        if column is None:
            column = self._new_column(state)
            if column is None:
                return False
        self._state_of[row] = column
        self._node.count[column] += 1
        self._node.count[old] -= 1
        return bool(self._node.count[old]) or self._states[old] == UNKNOWN_NODE or self._release(old)

    def _new_column(self, state: NodeState) -> int | None:
        if len(state.slots) > self._depth:
            return None
        if any(number > most for number, most in zip(self._numbered(), self._most, strict=True)):
            return None
        if self._free:
            column = self._free.pop()
            self._states[column] = state
        elif len(self._states) < len(self._node.count):
            column = len(self._states)
            self._states.append(state)
        else:
            return None
        self._write(column, state)
        self._column_of[state] = column
        return column

    def _release(self, column: int) -> bool:
        """Empty the column of a state that no node is in; False when a model went with it."""
        state = self._states[column]
        del self._column_of[state]
        self._states[column] = UNKNOWN_NODE
        self._free.append(column)
        clear(column, self._devices, *self._units.values())
        self._node.write(column, UNKNOWN_NODE, NO_SHAPE)
        self._model_users.subtract(set(state_models(state)))
        return all(self._model_users[model] for model in state_models(state))

    def _write(self, column: int, state: NodeState) -> None:
        self._model_users.update(set(state_models(state)))
        self._write_columns(column, state)


def state_models(state: NodeState) -> Iterator[GpuModel]:
    for slot in state.slots:
        yield slot.model
        for unit in slot.units:
            yield unit.model


def slot_kinds(state: NodeState) -> Iterator[DeviceKind]:
    """The kind of each slot's device, whatever is held of it."""
    for slot in state.slots:
        share_mib = slot.share_total_mib if state.offers_shares or slot.claimed_in_parts else 0
        yield DeviceKind(slot.model, share_mib, state.offers_whole)


def _planned(nodes: Mapping[str, Node]) -> dict[str, tuple[BoundPod, ...]]:
    return {name: node.info.planned for name, node in nodes.items() if node.info.planned}


def _is_unsettled(node: Node) -> bool:
    return bool(node.info.assumed or node.info.nominated)
