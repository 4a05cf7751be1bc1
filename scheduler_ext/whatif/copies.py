"""How many copies of one pod a node takes, one after the other, each placed as the extender would place it.
The result equals placing them one by one, which would take minutes where thousands fit on thousands of nodes:
single shares are divided by arithmetic, and other copies are placed on all nodes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import Sizing, place
from scheduler_ext.core.forecast.demand import part_milli
from scheduler_ext.core.gpu.share_memory import ShareMemory
from scheduler_ext.core.node.columns import Ints, copied
from scheduler_ext.core.node.holdings import holdings_of, share_peaks
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Node, NodeInfo
from scheduler_ext.core.node.placed import with_pod
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

# Above any number of copies that a node could hold.
NO_LIMIT = 2**40


@dataclass(frozen=True, slots=True)
class Vessel:
    """A node to be filled with at most `most` copies. `rooms` are those of its GPUs by slot, where the
    copies have shares. `settled`: no pod holds a whole GPU that may be any of them, so that a share on one
    GPU changes no other."""

    node: Node
    most: int
    rooms: tuple[ShareMemory, ...] = ()
    settled: bool = True

    @classmethod
    def of(cls, node: Node, most: int, request: GpuRequest, sizing: Sizing) -> Vessel:
        """The node for copies of a request."""
        report = node.info.report
        if report is None or request.shares is None:
            return cls(node, most)
        held = holdings_of(node.info, sizing.resources)
        rooms = {
            device.uuid: ShareMemory.of(device.memory, held.devices[device.uuid], sizing.headroom_percent)
            for device in report.devices
        }
        by_slot = tuple(rooms[uuid] for uuid in node.uuids if uuid is not None)
        return cls(node, most, by_slot, settled=not any(held.unknown.values()))


@dataclass(frozen=True, slots=True)
class Fill:
    """Copies of one pod on a node, and the MiB that they hold of each GPU, by slot."""

    copies: int = 0
    held_mib: tuple[int, ...] = ()


def gpus_used(node: Node, request: GpuRequest, fill: Fill) -> int:
    """The physical GPUs of the node that the copies use, if the device plugin spreads them: the slices of a
    GPU, its MIG instances and its shares are one GPU together."""
    if fill.copies >= NO_LIMIT:
        return 0
    used = sum(1 for mib in fill.held_mib if mib)
    choices = []
    for ask in request.units:
        able = sum(
            slot.healthy and any(unit.resource == ask.resource and unit.free for unit in slot.units)
            for slot in node.state.slots
        )
        count = able if ask.every else ask.count
        # One slot stands for all GPUs of an estimated node.
        used += min(node.state.gpus if node.state.estimated else able, fill.copies * count)
        choices += [ask.choice] if 0 < ask.choice <= able else []
    # Of alternatives, each copy uses the fewest that are there, or more.
    used += fill.copies * min(choices, default=0)
    return min(used, node.state.gpus)


def fill_all(
    vessels: Sequence[Vessel], request: GpuRequest, sizing: Sizing, within: Snapshot | None = None
) -> list[Fill]:
    """The copies that each node takes; as many as `most` if the request asks no GPU. `within` is the
    cluster whose forecast chooses the GPUs, as for a decision there."""
    shares = request.shares
    if not request.asks_gpu:
        return [Fill(vessel.most) for vessel in vessels]
    snapshot = build_snapshot({vessel.node.info.name: vessel.node for vessel in vessels}, 1)
    decision = filter_nodes(request, snapshot, sizing.policy)
    states = snapshot.state_of[:-1]
    fits = decision.fits[states].tolist()
    fills = [Fill() for _ in vessels]
    side_by_side = []
    by_count = _units_left(request, snapshot)
    for i, vessel in enumerate(vessels):
        if not fits[i] or not vessel.most:
            continue
        if shares is None:
            known = any(ask.least for ask in request.units)
            fills[i] = Fill(min(vessel.most, by_count[states[i]]) if known else NO_LIMIT)
        elif request.units or not vessel.settled:
            fills[i] = _one_by_one(vessel, request, sizing, within)
        elif len(shares.by_container) == 1:
            takes = (decision.share_room_mib[:, states[i]] >= 0).tolist()
            fills[i] = _divided(vessel, shares.largest_mib, request.min_free_mib, takes)
        else:
            side_by_side.append(i)
    if side_by_side and shares is not None:
        found = _side_by_side([vessels[i] for i in side_by_side], request, shares, sizing, within)
        for i, fill in zip(side_by_side, found, strict=True):
            fills[i] = fill
    return fills


def filled(node: Node, request: GpuRequest, fill: Fill, sizing: Sizing) -> NodeInfo:
    """The node with the copies, as one pod that holds what all of them hold."""
    info = node.info
    if not fill.copies:
        return info
    held = {uuid: mib for uuid, mib in zip(node.uuids, fill.held_mib, strict=False) if mib and uuid}
    units = tuple(_times(ask, fill.copies) for ask in request.units)
    holding = GpuRequest(units, ShareRequest(tuple(held.items())) if held else None)
    pod = BoundPod("copies", "", "", request.priority, holding, {uuid: (uuid,) for uuid in held})
    if info.allocatable is not None and request.shares is not None:
        # Init containers use other GPUs at other times: the peaks of all GPUs exceed the pods' sums.
        share = sizing.resources.share
        excess = sum(held.values()) - fill.copies * request.shares.total_mib
        info = replace(info, allocatable={**info.allocatable, share: info.allocatable.get(share, 0) + excess})
    return with_pod(info, pod, sizing.resources)


def _times(ask: UnitRequest, copies: int) -> UnitRequest:
    return replace(ask, count=ask.count * copies, choice=ask.choice * copies)


def _units_left(request: GpuRequest, snapshot: Snapshot) -> list[int]:
    """How many times each state has the requested units; earlier copies change only the number left."""
    times = np.full(len(snapshot.states), 2**31 - 1, np.int64)
    choices = []
    for ask in request.units:
        available = (snapshot.units.get(ask.resource) or snapshot.no_units).available
        if ask.count:
            times = np.minimum(times, available // ask.count)
        if ask.every:
            times = np.minimum(times, 1)
        if ask.choice:
            choices.append(available // ask.least)
    if choices:
        # All copies choose alike: others may fit beside them.
        times = np.minimum(times, np.max(choices, axis=0))
    left: list[int] = times.tolist()
    return left


def _divided(vessel: Vessel, mib: int, min_free_mib: int, takes: Sequence[bool]) -> Fill:
    """One share per copy: in any order of GPUs, a GPU takes as many as fit there."""
    left = min(vessel.node.state.share_limit // mib, vessel.most)
    held = []
    for room, eligible in zip(vessel.rooms, takes, strict=False):
        here = min(left, room.copies(mib, min_free_mib)) if eligible else 0
        held.append(here * mib)
        left -= here
    return Fill(sum(held) // mib, tuple(held))


def _one_by_one(vessel: Vessel, request: GpuRequest, sizing: Sizing, within: Snapshot | None) -> Fill:
    """Where a copy's share decides which GPUs may be the whole GPUs of the next copy."""
    node = vessel.node
    devices = node.info.devices
    fill = Fill(0, (0,) * len(node.uuids))
    while fill.copies < vessel.most:
        found = place(filled(node, request, fill, sizing), request, sizing, within)
        if isinstance(found, str):
            break
        peaks = share_peaks(BoundPod("", "", "", 0, request, found.devices), devices)
        held = (mib + peaks.get(uuid or "", 0) for mib, uuid in zip(fill.held_mib, node.uuids, strict=True))
        fill = Fill(fill.copies + 1, tuple(held))
    return fill


def _side_by_side(
    vessels: Sequence[Vessel],
    request: GpuRequest,
    shares: ShareRequest,
    sizing: Sizing,
    within: Snapshot | None,
) -> list[Fill]:
    """One copy per round on each node that takes one; the columns of one snapshot follow."""
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
    return [
        Fill(int(copies[i]), tuple(columns.held[: len(vessel.rooms), i].tolist()))
        for i, vessel in enumerate(vessels)
    ]


class _Columns:
    """The GPUs of nodes, `[slot, node]` in the slots' first order, and the snapshot of their state now."""

    def __init__(self, vessels: Sequence[Vessel], within: Snapshot | None) -> None:
        self._first = first = _column_each([vessel.node for vessel in vessels], within)
        self._rooms = [list(vessel.rooms) for vessel in vessels]
        self._free = first.devices.share_free_mib.copy()
        self._idle = first.devices.idle.copy()
        # The place of each GPU among those of its node by what never changes; then the units of whole GPUs.
        self._rank, self._units = np.full((2, *self._free.shape), 2**30)
        for i, vessel in enumerate(vessels):
            slots = vessel.node.state.slots
            keys = [(slot.model.name, not slot.healthy, slot.total_mib) for slot in slots]
            self._rank[: len(keys), i] = [sorted(keys).index(key) for key in keys]
            self._units[: len(keys), i] = [slot.units[0].free if slot.units else 0 for slot in slots]
        reports = [vessel.node.info.report for vessel in vessels]
        self._replicas = np.array([each.replicas_of() if each is not None else 1 for each in reports])
        self.held = np.zeros(self._free.shape, np.int64)
        self._order: Ints = np.zeros(self._free.shape, np.int32)

    def snapshot(self, requested_mib: npt.NDArray[np.int64]) -> Snapshot:
        """All nodes, a column each, when copies request so much of each node, `[node]`."""
        first, held = self._first.devices, self.held > 0
        self._order = np.lexsort((self._units, self._idle, self._free, self._rank), axis=0).astype(np.int32)
        now = replace(
            first,
            share_free_mib=self._free,
            idle=self._idle,
            residual=np.where(held, part_milli(np.maximum(self._free, 0), first), first.residual),
            whole=first.whole & ~held,
        )
        limit = self._first.node.share_limit
        limit = np.where(limit < UNLIMITED, np.maximum(0, limit - requested_mib), limit)
        ordered = {
            each.name: np.take_along_axis(getattr(now, each.name), self._order, axis=0)
            for each in fields(now)
        }
        return replace(
            self._first,
            devices=type(now)(**ordered),
            node=replace(self._first.node, share_limit=limit.astype(np.int32)),
        )

    def hold(self, load_mib: Ints) -> None:
        """Hold so much more, `[slot, node]` in the order of the last snapshot."""
        more = np.zeros_like(self.held)
        np.put_along_axis(more, self._order, load_mib.astype(np.int64), axis=0)
        self.held += more
        slots, nodes = np.nonzero(more)
        rooms = []
        for slot, i, mib in zip(slots.tolist(), nodes.tolist(), more[slots, nodes].tolist(), strict=True):
            room = self._rooms[i][slot] = self._rooms[i][slot].after(mib)
            rooms.append(room)
        self._free[slots, nodes] = [room.free for room in rooms]
        self._idle[slots, nodes] = [room.idle for room in rooms]
        self._units[slots, nodes] = np.minimum(self._units, np.maximum(0, self._replicas - 1))[slots, nodes]


def _column_each(nodes: Sequence[Node], within: Snapshot | None) -> Snapshot:
    """The snapshot of nodes with a column for each, also for equal ones."""
    snapshot = build_snapshot({node.info.name: node for node in nodes}, 1, within)
    states = snapshot.state_of[:-1]
    return replace(
        snapshot,
        state_of=np.append(np.arange(len(nodes), dtype=np.int32), np.int32(0)),
        states=tuple(snapshot.states[state] for state in states.tolist()),
        devices=copied(snapshot.devices, states),
        # The request asks no whole GPUs or instances here.
        units={},
        node=copied(snapshot.node, states),
    )
