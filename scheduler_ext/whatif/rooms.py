"""What copies of one pod leave free of a node's GPUs: memory arithmetic without a report per step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, ShareAsk, UnitAsk


@dataclass(frozen=True, slots=True)
class Room:
    """One GPU's memory for shares in MiB: ``free_of_all`` is what it has when nobody asks or uses any,
    ``used`` what is used by pods there, ``requested`` what they were promised, ``foreign`` is used by others.
    ``replicas`` are those of the whole GPU, 0 where it is offered to nobody.
    """

    free_of_all: int
    used: int
    requested: int
    foreign: int
    replicas: int

    def free(self, more: int = 0) -> int:
        """What is free when so much more is promised (the formula of Memory.free_mib)."""
        return max(0, self.free_of_all - max(self.requested + more, self.used))

    def copies(self, each: int, needed: int) -> int:
        """How many shares fit one after the other where each needs so much free."""
        if self.free() < needed:
            return 0
        return (self.free_of_all - needed - self.requested) // each + 1


@dataclass(frozen=True, slots=True)
class Rooms:
    """The rooms of a node by slot; ``settled``: nobody holds a whole GPU that may be any of them, so that a
    share on one GPU changes no other."""

    by_slot: tuple[Room, ...] = ()
    settled: bool = True


def rooms_of(node: Node, sizing: Sizing) -> Rooms:
    """The rooms of a node's GPUs for shares; none of a node without a report."""
    report = node.info.report
    if report is None:
        return Rooms()
    held = holdings_of(node.info, sizing.resources)
    devices = {device.uuid: device for device in report.devices}
    rooms = []
    for uuid, slot in zip(node.uuids, node.state.slots, strict=True):
        assert uuid is not None
        memory, here = devices[uuid].memory, held.devices[uuid]
        unaccounted = (memory.unaccounted_mib or 0) + here.foreign_mib
        headroom = memory.headroom_mib(sizing.headroom_percent)
        rooms.append(
            Room(
                free_of_all=memory.total_mib - memory.reserved_mib - unaccounted - headroom,
                used=memory.used_mib - unaccounted - here.departed_mib,
                requested=here.requested_mib,
                foreign=here.foreign_mib,
                replicas=(report.replicas if report.sharing_strategy != "none" else 1) if slot.units else 0,
            )
        )
    return Rooms(tuple(rooms), settled=not any(held.unknown.values()))


@dataclass(frozen=True, slots=True)
class Fill:
    """Copies of one pod on a node, and what they hold of each GPU in MiB, by slot."""

    copies: int = 0
    held_mib: tuple[int, ...] = ()


def filled(node: Node, request: GpuRequest, fill: Fill, sizing: Sizing) -> NodeInfo:
    """The node with the copies, told as one pod that holds what all of them hold."""
    info = node.info
    if not fill.copies:
        return info
    by_uuid = {
        uuid: mib for uuid, mib in zip(node.uuids, fill.held_mib, strict=False) if mib and uuid is not None
    }
    units = tuple(replace(ask, count=ask.count * fill.copies) for ask in request.units)
    pod = BoundPod(
        uid="copies",
        namespace="",
        name="",
        priority=request.priority,
        request=_merged(units, by_uuid),
        devices={uuid: (uuid,) for uuid in by_uuid},
    )
    if info.allocatable is not None and request.shares is not None:
        # Init containers use other GPUs at other times: the peaks of all GPUs exceed the pods' sums.
        share = sizing.resources.share
        excess = sum(by_uuid.values()) - fill.copies * request.shares.total_mib
        info = replace(info, allocatable={**info.allocatable, share: info.allocatable.get(share, 0) + excess})
    return replace(info, pods=(*info.pods, pod))


def _merged(units: tuple[UnitAsk, ...], by_uuid: dict[str, int]) -> GpuRequest:
    return GpuRequest(units, ShareAsk(tuple(by_uuid.items())) if by_uuid else None)
