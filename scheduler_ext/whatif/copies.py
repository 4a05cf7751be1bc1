"""How many copies of one pod a node takes, one after the other, each placed as the extender would place it.

Exactly as many as placing them one by one, which would take minutes where thousands fit on thousands of
nodes: numbers are divided where placing cannot lead astray, and all nodes are filled side by side where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import Sizing, place
from scheduler_ext.core.forecast.demand import part_milli
from scheduler_ext.core.node.columns import DeviceColumns, Ints, NodeColumns
from scheduler_ext.core.node.holdings import share_peaks
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Node
from scheduler_ext.core.request.request import GpuRequest, ShareAsk
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.whatif.rooms import Fill, Rooms, filled

# MiB of many copies together.
_Mib = npt.NDArray[np.int64]

# Above any number of copies that a node could hold.
NO_LIMIT = 2**40


@dataclass(frozen=True, slots=True)
class Vessel:
    """A node to be filled with copies, of which kube-scheduler would let it take ``most``."""

    node: Node
    rooms: Rooms
    most: int


def fill_all(
    vessels: Sequence[Vessel], request: GpuRequest, sizing: Sizing, within: Snapshot | None = None
) -> list[Fill]:
    """The copies that each node takes; as many as ``most`` where the request asks no GPU.

    ``within`` is the cluster by whose forecast GPUs are chosen, as a decision there would.
    """
    if not request.asks_gpu:
        return [Fill(vessel.most) for vessel in vessels]
    snapshot = build_snapshot({vessel.node.info.name: vessel.node for vessel in vessels}, 1)
    decision = filter_nodes(request, snapshot, sizing.policy)
    states = snapshot.state_of[:-1]
    fits = decision.fits[states].tolist()
    fills = [Fill() for _ in vessels]
    together = []
    room = decision.share_room_mib if request.shares is not None else None
    by_count = _units_left(request, snapshot)
    for i, vessel in enumerate(vessels):
        if not fits[i] or not vessel.most:
            continue
        if request.shares is None or room is None:
            fills[i] = Fill(min(vessel.most, by_count[states[i]]))
        elif request.units or not vessel.rooms.settled:
            fills[i] = _one_by_one(vessel, request, request.shares, sizing, within)
        elif len(request.shares.by_container) == 1:
            left = vessel.node.state.share_limit // request.shares.total_mib
            takes = (room[:, states[i]] >= 0).tolist()
            fills[i] = _divided(vessel, request.shares, request.min_free_mib, takes, left)
        else:
            together.append(i)
    if together and request.shares is not None:
        found = _side_by_side([vessels[i] for i in together], request, request.shares, sizing, within)
        for i, fill in zip(together, found, strict=True):
            fills[i] = fill
    return fills


def _units_left(request: GpuRequest, snapshot: Snapshot) -> list[int]:
    """How many times each state has the units that a request asks, where it fits at all: the copies before
    change nothing but how many are left."""
    times = np.full(len(snapshot.states), 2**31 - 1, np.int64)
    for ask in request.units:
        columns = snapshot.units.get(ask.resource) or snapshot.no_units
        times = np.minimum(times, columns.available // ask.count)
    left: list[int] = times.tolist()
    return left


def _divided(vessel: Vessel, shares: ShareAsk, min_free_mib: int, takes: Sequence[bool], left: int) -> Fill:
    """One share per copy: whichever GPU each goes to, a GPU takes as many as fit there."""
    mib = shares.largest_mib
    needed = max(mib, min_free_mib)
    left = min(left, vessel.most)
    held = []
    for room, eligible in zip(vessel.rooms.by_slot, takes, strict=False):
        here = min(left, room.copies(mib, needed)) if eligible else 0
        held.append(here * mib)
        left -= here
    return Fill(sum(held) // mib, tuple(held))


def _one_by_one(
    vessel: Vessel, request: GpuRequest, shares: ShareAsk, sizing: Sizing, within: Snapshot | None
) -> Fill:
    """Where a copy's share decides which GPUs the whole ones of the next may be."""
    node = vessel.node
    devices = node.info.report.devices if node.info.report is not None else ()
    fill = Fill(0, (0,) * len(node.uuids))
    while fill.copies < vessel.most:
        found = place(filled(node, request, fill, sizing), request, sizing, within)
        if isinstance(found, str):
            break
        pod = BoundPod("", "", "", request.priority, request, devices=found.devices)
        peaks = share_peaks(pod, shares, devices)
        held = tuple(
            mib + peaks.get(uuid or "", 0) for mib, uuid in zip(fill.held_mib, node.uuids, strict=True)
        )
        fill = Fill(fill.copies + 1, held)
    return fill


def _side_by_side(
    vessels: Sequence[Vessel],
    request: GpuRequest,
    shares: ShareAsk,
    sizing: Sizing,
    within: Snapshot | None,
) -> list[Fill]:
    """A copy on each node at a time, while any takes one; the columns of a snapshot follow."""
    columns = _Columns(vessels, within)
    most = np.array([vessel.most for vessel in vessels])
    copies = np.zeros(len(vessels), np.int64)
    while True:
        decision = filter_nodes(request, columns.snapshot(shares.total_mib * copies), sizing.policy)
        takes = decision.fits & (copies < most)
        if not takes.any():
            break
        fit = decision.scoring.fit
        assert fit is not None
        columns.hold(np.where(takes, fit.load_mib, 0))
        copies += takes
    return [Fill(int(count), held) for count, held in zip(copies, columns.held_mib(), strict=True)]


class _Columns:
    """The GPUs of nodes, ``[slot, node]`` in the slots' first order, and the snapshot that follows from what
    is held of them by now."""

    def __init__(self, vessels: Sequence[Vessel], within: Snapshot | None) -> None:
        self._first = _column_each([vessel.node for vessel in vessels], within)
        devices = self._first.devices
        shape = devices.healthy.shape
        self._free_of_all, self._used, self._requested, self._foreign = (
            _of_rooms(vessels, shape, name) for name in ("free_of_all", "used", "requested", "foreign")
        )
        self._replicas = _of_rooms(vessels, shape, "replicas")
        self._held = np.zeros(shape, np.int64)
        self._takes = devices.share_free_mib >= 0
        self._slots = [len(vessel.node.uuids) for vessel in vessels]
        self._rank = _ranks([vessel.node for vessel in vessels], shape)
        self._order: Ints = np.zeros(shape, np.int32)

    def snapshot(self, requested_mib: _Mib) -> Snapshot:
        """All nodes, a column each, when copies request so much of each node, ``[node]``."""
        first = self._first.devices
        promised = self._requested + self._held
        free = np.maximum(0, self._free_of_all - np.maximum(promised, self._used))
        share_free = np.where(self._takes, free, -1).astype(np.int32)
        left = np.maximum(0, first.share_total_mib - promised - self._foreign)
        idle = np.where(self._takes, np.round(left / np.maximum(first.share_total_mib, 1), 9), first.idle)
        # What whole GPUs and their replicas would be: that counts for the order of slots only.
        whole = np.maximum(0, self._replicas - (promised > 0))
        keys = (whole, idle, share_free, self._rank)
        self._order = np.lexsort(keys, axis=0).astype(np.int32)
        held = self._held > 0
        now = replace(
            first,
            share_free_mib=share_free,
            idle=idle,
            residual=np.where(held, part_milli(free, first), first.residual),
            whole=first.whole & ~held,
        )
        limit = self._first.node.share_limit
        limit = np.where(limit < UNLIMITED, np.maximum(0, limit - requested_mib), limit)
        return replace(
            self._first,
            devices=DeviceColumns(
                **{
                    each.name: np.take_along_axis(getattr(now, each.name), self._order, axis=0)
                    for each in fields(now)
                }
            ),
            node=replace(self._first.node, share_limit=limit.astype(np.int32)),
        )

    def hold(self, load_mib: Ints) -> None:
        """So much more is held, ``[slot, node]`` in the order of the last snapshot."""
        more = np.zeros_like(self._held)
        np.put_along_axis(more, self._order, load_mib.astype(np.int64), axis=0)
        self._held += more

    def held_mib(self) -> list[tuple[int, ...]]:
        """What copies hold of each GPU, by node and slot."""
        return [tuple(self._held[:slots, i].tolist()) for i, slots in enumerate(self._slots)]


def _column_each(nodes: Sequence[Node], within: Snapshot | None) -> Snapshot:
    """The snapshot of nodes with a column for each, for equal ones too."""
    snapshot = build_snapshot({node.info.name: node for node in nodes}, 1, within)
    states = snapshot.state_of[:-1]
    columns, devices = snapshot.node, snapshot.devices
    return replace(
        snapshot,
        state_of=np.append(np.arange(len(nodes), dtype=np.int32), np.int32(0)),
        states=tuple(snapshot.states[state] for state in states.tolist()),
        devices=DeviceColumns(
            **{each.name: getattr(devices, each.name)[:, states] for each in fields(devices)}
        ),
        # Nobody asks whole GPUs or instances here.
        units={},
        node=NodeColumns(**{each.name: getattr(columns, each.name)[states] for each in fields(columns)}),
    )


def _of_rooms(vessels: Sequence[Vessel], shape: tuple[int, ...], name: str) -> _Mib:
    found = np.zeros(shape, np.int64)
    for i, vessel in enumerate(vessels):
        found[: len(vessel.rooms.by_slot), i] = [getattr(room, name) for room in vessel.rooms.by_slot]
    return found


def _ranks(nodes: Sequence[Node], shape: tuple[int, ...]) -> _Mib:
    """The place of each GPU among those of its node by what never changes; slots without one come last."""
    ranks = np.full(shape, 2**30, np.int64)
    for i, node in enumerate(nodes):
        keys = [(slot.model.name, not slot.healthy, slot.total_mib) for slot in node.state.slots]
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        ranks[: len(keys), i] = [places[key] for key in keys]
    return ranks
