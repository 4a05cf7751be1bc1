"""A snapshot in which a few nodes differ, as one pod sees them, because assumed and nominated pods count
against some pods only. A decision on the snapshot below still holds for all other nodes."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from scheduler_ext.core.cycle.cycle import Codes, Decision, Scored, filter_nodes
from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import DeviceColumns, Floats, Ints, NodeColumns, UnitColumns
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import Node, NodeState
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot, slot_kinds, state_models

_Columns = TypeVar("_Columns", DeviceColumns, UnitColumns, NodeColumns)
_Value = TypeVar("_Value", bound=Hashable)


class Overlay(Snapshot):
    """`base`, the snapshot of a whole cluster, with the nodes of `part` in the place of some. A replaced
    node has the same devices; only the pods that hold them differ. The states of `base` come first, those
    of `part` follow. The joined columns are created when first read."""

    base: Snapshot
    part: Snapshot
    # The states of the replaced nodes, in `base` and in `part`.
    _changed: tuple[Ints, Ints]

    def __init__(self, **attributes: Any) -> None:
        # A frozen dataclass, some of whose attributes are computed when first read.
        self.__dict__.update(attributes)

    @property
    def counts_alike(self) -> bool:
        """Whether a decision on `base` holds for all other nodes."""
        return self.within is not None

    @lazy
    def within(self) -> Snapshot | None:
        """`base` if the replaced nodes leave all values that nodes are compared with unchanged."""
        before, after = (
            [of.states[state] for state in states.tolist()]
            for of, states in zip((self.base, self.part), self._changed, strict=True)
        )
        if not all(map(_is_counted_alike, before, after)):
            return None
        units = [unit for state in (*before, *after) for slot in state.slots for unit in slot.units]
        cut = {unit.resource for unit in units if unit.mig_placements is not None}
        parted = {unit.resource for unit in units if unit.first}
        alike = all(self.base.mig_loss(name).any() == self.mig_loss(name).any() for name in cut)
        alike &= all(self.base.gives_parts(name) == self.gives_parts(name) for name in parted)
        return self.base if alike else None

    @lazy
    def left(self) -> Ints:
        """The number of nodes that are still in each state of `base`, `[state]`."""
        left = self.base.node.count.copy()
        np.subtract.at(left, self._changed[0], 1)
        return left

    def mig_loss(self, resource: str) -> Floats:
        """As for every snapshot; 0 for states without a node."""
        return np.append(
            np.where(self.left > 0, self.base.mig_loss(resource), 0.0), self.part.mig_loss(resource)
        )

    def gives_parts(self, resource: str) -> bool:
        """As for every snapshot, of the states with a node."""
        below = self.base.units.get(resource)
        left = below is not None and bool((below.first.any(0) & (self.left > 0)).any())
        return left or self.part.units.get(resource, self.part.no_units).any_first

    @property
    def devices(self) -> DeviceColumns:
        return self._joined[0]

    @property
    def units(self) -> Mapping[str, UnitColumns]:
        """Joined columns, except `mig_placements`: `mig_loss` answers for it."""
        return self._joined[1]

    @property
    def node(self) -> NodeColumns:
        return self._joined[2]

    @lazy
    def _joined(self) -> tuple[DeviceColumns, Mapping[str, UnitColumns], NodeColumns]:
        base, part = self.base, self.part
        depth = max(len(base.devices.healthy), len(part.devices.healthy))
        width = len(base.states) + len(part.states)
        model = _numbers(part.models, self.models)
        devices = replace(
            part.devices,
            model=model[part.devices.model],
            kind=_numbers(part.kinds, self.kinds)[part.devices.kind],
        )
        node = replace(part.node, shape=_numbers(part.shapes, self.shapes)[part.node.shape])
        units = {}
        for name in sorted({*base.units, *part.units}):
            mine = part.units.get(name) or part.no_units
            theirs = base.units.get(name) or base.no_units
            own = replace(mine, model=model[mine.model])
            units[name] = _beside(theirs, own, UnitColumns.empty(depth, width))
        return (
            _beside(base.devices, devices, DeviceColumns.empty(depth, width)),
            units,
            _beside(replace(base.node, count=self.left), node, NodeColumns.empty(0, width)),
        )


def with_nodes(base: Snapshot, nodes: Mapping[str, Node]) -> Overlay:
    """`base` with these nodes in the place of those of the same names."""
    part = build_snapshot(nodes, base.generation, within=base)
    rows = base.rows(list(nodes))
    state_of = base.state_of.copy()
    state_of[rows] = part.state_of[:-1] + np.int32(len(base.states))
    return Overlay(
        base=base,
        part=part,
        generation=base.generation,
        nodes={**base.nodes, **nodes},
        row_of=base.row_of,
        state_of=state_of,
        name_rank=base.name_rank,
        states=base.states + part.states,
        models=_joined(base.models, chain.from_iterable(map(state_models, part.states))),
        kinds=_joined(base.kinds, part.kinds),
        shapes=_joined(base.shapes, part.shapes),
        numbered_placements=base.numbered_placements,
        expected=base.forecast,
        unsettled=base.unsettled,
        planned=base.planned,
        _changed=(base.state_of[rows], part.state_of[:-1]),
    )


class Overlaid(Decision):
    """A decision on an overlay that counts alike: those on the snapshot below and on the replaced nodes."""

    def __init__(self, verdict: Codes, base: Decision, part: Decision, overlay: Overlay) -> None:
        super().__init__(base.request, overlay, base.policy, verdict, None)
        self._base = base
        self._part = part

    @property
    def steps(self) -> list[int]:
        return self._part.steps

    @lazy
    def scored(self) -> Scored:
        base, part = self._base.scored, self._part.scored
        terms = [
            (score, weight, np.concatenate((value, own)))
            for (score, weight, value), (_, _, own) in zip(base.terms, part.terms, strict=True)
        ]
        return Scored(terms, np.concatenate((base.totals, part.totals)), part.resolution)

    @property
    def share_room_mib(self) -> Ints:
        return self._joined.share_room_mib

    @lazy
    def scoring(self) -> Scoring:
        return self._joined.scoring

    @lazy
    def _joined(self) -> Decision:
        """The same decision on the joined columns, which are rarely needed."""
        return filter_nodes(self.request, self.snapshot, self.policy)


def filter_overlay(base: Decision, overlay: Overlay) -> Overlaid:
    """`filter_nodes` on an overlay that counts alike: only the replaced nodes are filtered."""
    # Both parts spend the search steps of one request.
    part = filter_nodes(base.request, overlay.part, base.policy, list(base.steps))
    return Overlaid(np.concatenate((base.verdict, part.verdict)), base, part, overlay)


def _is_counted_alike(one: NodeState, other: NodeState) -> bool:
    """Whether a node counts the same in both states: as GPUs of its kinds and models, and as a node of its
    shape, which the GPU in its first slot decides."""
    if (one.gpus, one.cpu_milli, one.estimated) != (other.gpus, other.cpu_milli, other.estimated):
        return False
    kinds, others = list(slot_kinds(one)), list(slot_kinds(other))
    same = kinds == others or (kinds[:1] == others[:1] and Counter(kinds) == Counter(others))
    return same and set(state_models(one)) == set(state_models(other))


def _joined(known: tuple[_Value, ...], more: Iterable[_Value]) -> tuple[_Value, ...]:
    return tuple(dict.fromkeys((*known, *more)))


def _numbers(values: Sequence[_Value], among: Sequence[_Value]) -> Ints:
    """The place of each value, and -1 at the end, for none."""
    places = {value: place for place, value in enumerate(among)}
    # A part without any GPU has a placeholder for a model, which no node uses.
    return np.array([*(places.get(value, 0) for value in values), -1], np.int32)


def _beside(left: _Columns, right: _Columns, empty: _Columns) -> _Columns:
    """`left` and `right` side by side, written into `empty`, which is wide and deep enough."""
    for each in fields(empty):
        one, other, both = (getattr(columns, each.name) for columns in (left, right, empty))
        both[tuple(map(slice, one.shape))] = one
        both[..., one.shape[-1] :][tuple(map(slice, other.shape))] = other
    return empty
