"""All node states of a simulation as columns; each is written once."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import numpy as np

from scheduler_ext.core.forecast.forecast import DeviceKind, Forecast, NodeShape
from scheduler_ext.core.forecast.mig_value import MigRooms
from scheduler_ext.core.gpu.models import GpuModel, canonical_model
from scheduler_ext.core.node.columns import DeviceColumns, NodeColumns, UnitColumns
from scheduler_ext.core.node.node import NodeState
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import StateColumns
from scheduler_ext.sim.world import Indexes

_FIRST_WIDTH = 1024
_Columns = TypeVar("_Columns", DeviceColumns, UnitColumns, NodeColumns)


class KnownStates(StateColumns):
    """States by number, with at most ``depth`` slots."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._states: list[NodeState] = []
        self._models: dict[GpuModel, int] = {}
        self._kinds: dict[DeviceKind, int] = {}
        self._shapes: dict[NodeShape, int] = {}
        self._model_names: tuple[GpuModel, ...] = ()
        self._kind_names: tuple[DeviceKind, ...] = ()
        self._shape_names: tuple[NodeShape, ...] = ()
        self._devices = DeviceColumns.empty(depth, _FIRST_WIDTH)
        self._node = NodeColumns.empty(0, _FIRST_WIDTH)
        self._units: dict[str, UnitColumns] = {}
        self._mig_rooms = MigRooms()

    def __len__(self) -> int:
        return len(self._states)

    def add(self, state: NodeState) -> int:
        """The number of a new state."""
        column = len(self._states)
        if column == len(self._node.count):
            self._grow()
        self._states.append(state)
        self._write_columns(column, state)
        # The same tuples while they are equal, so that comparing them is free.
        if len(self._model_names) < len(self._models):
            self._model_names = tuple(self._models)
        if len(self._kind_names) < len(self._kinds):
            self._kind_names = tuple(self._kinds)
        if len(self._shape_names) < len(self._shapes):
            self._shape_names = tuple(self._shapes)
        return column

    def snapshot(self, columns: Indexes, forecast: Forecast, within: Snapshot | None = None) -> Snapshot:
        """A snapshot of these states, in their order, without nodes."""
        return Snapshot(
            generation=0,
            nodes={},
            row_of=NameIndex(()),
            state_of=np.zeros(1, np.int32),
            name_rank=np.zeros(1, np.int32),
            states=tuple(self._states[column] for column in columns.tolist()),
            # Never empty, as in core.table: slots without a device are of model 0.
            models=self._model_names or (canonical_model(""),),
            kinds=self._kind_names,
            shapes=self._shape_names,
            devices=_taken(self._devices, columns),
            units={resource: _taken(units, columns) for resource, units in self._units.items()},
            node=_taken(self._node, columns),
            mig_rooms=self._mig_rooms,
            expected=forecast,
            within=within,
        )

    def _grow(self) -> None:
        self._devices = _widened(self._devices, DeviceColumns.empty(self._depth, len(self._node.count)))
        self._units = {
            resource: _widened(units, UnitColumns.empty(self._depth, len(self._node.count)))
            for resource, units in self._units.items()
        }
        self._node = _widened(self._node, NodeColumns.empty(0, len(self._node.count)))


def _taken(columns: _Columns, which: Indexes) -> _Columns:
    kind = type(columns)
    return kind(*[getattr(columns, name).take(which, -1) for name in _FIELDS[kind]])


def _widened(columns: _Columns, more: _Columns) -> _Columns:
    kind = type(columns)
    return kind(
        *[np.concatenate((getattr(columns, name), getattr(more, name)), -1) for name in _FIELDS[kind]]
    )


_FIELDS = {
    kind: tuple(each.name for each in fields(kind)) for kind in (DeviceColumns, UnitColumns, NodeColumns)
}
