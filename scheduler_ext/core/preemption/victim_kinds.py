"""The kinds of a node's pods: pods that free the same resources, as far as the filters can see.

Two pods are of one kind when either may leave instead of the other: they free the same on the same devices,
or each the same on devices that are alike and that no other pod shares with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import DeviceHoldings, Room
from scheduler_ext.core.node.node import Slot
from scheduler_ext.core.preemption.dry_run import DryRun, Gone
from scheduler_ext.core.preemption.victim_search import Need, Pricing
from scheduler_ext.core.request.request import GpuRequest

Kinds = list[tuple[Hashable, int]]


@dataclass(frozen=True, slots=True)
class Focus:
    """One search: pods with their kinds, and what they must free besides the needs of the whole node."""

    kinds: Kinds
    needs: Sequence[Need] = ()


def focuses(dry_run: DryRun, pricing: Pricing, needs: Sequence[Need], request: GpuRequest) -> Iterator[Focus]:
    """The searches that together find every set of pods worth looking at; ``needs`` are those of the node."""
    shares = request.shares
    single = shares is not None and len(shares.running) + len(shares.init) == 1 and not request.units
    report = dry_run.info.report
    if shares is not None and single and report is not None and not any(dry_run.held.unknown.values()):
        for device in report.devices:
            # On a device that takes no share, departures do not help.
            if device.healthy and not device.cordoned and not device.mig.enabled:
                yield _device_focus(device, dry_run, pricing, needs, shares.largest_mib)
        return
    yield Focus(_node_kinds(dry_run, pricing, needs, request))


def _device_focus(
    device: Device, dry_run: DryRun, pricing: Pricing, needs: Sequence[Need], mib: int
) -> Focus:
    """A single share needs one device: pods elsewhere matter only for the needs of the whole node."""
    parts = [relief.devices.get(device.uuid) for relief in dry_run.reliefs]
    here = [((_price_kind(i, pricing), _part(part)), i) for i, part in enumerate(parts) if part is not None]
    lacking = [need.gains for need in needs if need.much > 0]
    elsewhere = [
        ((_price_kind(i, pricing), None), i)
        for i, part in enumerate(parts)
        if lacking and part is None and any(gains[i] for gains in lacking)
    ]
    held = dry_run.held.devices[device.uuid]
    room = Room.of(device.memory, held, dry_run.sizing.headroom_percent)
    freed = [room.without((part,)) if part else room for part in parts]
    return Focus(
        [*here, *elsewhere],
        [
            # The smaller of the two is free; each must become enough.
            Need(mib - room.unpromised, [each.unpromised - room.unpromised for each in freed]),
            Need(mib - room.unused, [each.unused - room.unused for each in freed]),
            Need(held.units, [part.units if part else 0 for part in parts]),
        ],
    )


def _price_kind(i: int, pricing: Pricing) -> Hashable:
    """Without priority and age: among otherwise equal pods, the least important always leave first."""
    return i if pricing.overlapping else pricing.counted[i]


def _part(part: DeviceHoldings) -> tuple[Hashable, ...]:
    return part.units, part.requested_mib, part.foreign_mib, part.departed_mib


def _node_kinds(dry_run: DryRun, pricing: Pricing, needs: Sequence[Need], request: GpuRequest) -> Kinds:
    parts = _parts(dry_run, request)
    kinds: Kinds = []
    for i, relief in enumerate(dry_run.reliefs):
        unknown = frozenset(relief.unknown.items())
        if parts[i] or unknown or any(need.much > 0 and need.gains[i] for need in needs):
            kinds.append(((_price_kind(i, pricing), unknown, parts[i]), i))
    return kinds


def _parts(dry_run: DryRun, request: GpuRequest) -> list[frozenset[tuple[Hashable, int]]]:
    """What each pod frees on devices; on a device of its own, as the change of what a decision sees."""
    users = Counter(uuid for relief in dry_run.reliefs for uuid in relief.devices)
    devices = dry_run.info.report.devices if dry_run.info.report is not None else ()
    profiles = {instance.uuid: instance.profile for device in devices for instance in device.mig.instances}
    cordoned = {device.uuid for device in devices if device.cordoned}
    # Where shares are placed, every device has a room of its own, and few are alike.
    alone = request.shares is None
    before = _slots(dry_run, (), request) if alone else {}
    parts = []
    for i, relief in enumerate(dry_run.reliefs):
        exclusive = {uuid for uuid in relief.devices if alone and users[uuid] == 1}
        after = _slots(dry_run, (i,), request) if exclusive else {}
        counted: Counter[Hashable] = Counter()
        for uuid, part in relief.devices.items():
            units = dry_run.held.devices[uuid].units
            if uuid in exclusive:
                counted[(units, part.units, before[uuid], after[uuid], uuid in cordoned)] += 1
            else:
                instances = Counter(profiles[instance] for instance in part.instances)
                counted[(uuid, *_part(part), frozenset(instances.items()))] += 1
        parts.append(frozenset(counted.items()))
    return parts


def _slots(dry_run: DryRun, gone: Gone, request: GpuRequest) -> dict[str, Slot]:
    """What a decision on whole units sees of each device, without what the request does not ask about."""
    node = dry_run.node_without(gone)
    slots = {}
    for uuid, slot in zip(node.uuids, node.state.slots, strict=True):
        if uuid is not None:
            units = tuple(
                replace(unit, mig_room=None, free_mib=unit.free_mib if request.min_free_mib else 0)
                for unit in slot.units
            )
            slots[uuid] = replace(slot, share_free_mib=-1, idle=0.0, units=units)
    return slots
