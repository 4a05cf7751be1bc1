"""Which pods are alike to a request: what each would free, as far as the filters can see it.

Two pods are of one kind when either may leave in the other's place: they free the same on the same devices,
or each the same on devices that are alike and that no other pod shares with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.holdings import DeviceHoldings
from scheduler_ext.core.node.node import Slot
from scheduler_ext.core.preemption.dry_run import DryRun
from scheduler_ext.core.preemption.victim_search import Need, Pricing
from scheduler_ext.core.request.request import GpuRequest

Kinds = list[tuple[Hashable, int]]


@dataclass(frozen=True, slots=True)
class Focus:
    """Where to search: pods with their kinds, and what they must free besides what is needed anywhere."""

    kinds: Kinds
    needs: Sequence[Need] = ()


def focuses(
    departures: DryRun, pricing: Pricing, needs: Sequence[Need], request: GpuRequest
) -> Iterator[Focus]:
    """The searches that together find every set of pods worth looking at; ``needs`` are those of the node."""
    shares = request.shares
    single = shares is not None and len(shares.running) + len(shares.init) == 1 and not request.units
    report = departures.info.report
    if shares is not None and single and report is not None and not any(departures.held.unknown.values()):
        for device in report.devices:
            # Where no share may ever go, nobody makes room for one.
            if device.healthy and not device.cordoned and not device.mig.enabled:
                yield _device_focus(device, departures, pricing, needs, shares.largest_mib)
        return
    yield Focus(_node_kinds(departures, pricing, needs, request))


def _device_focus(
    device: Device, departures: DryRun, pricing: Pricing, needs: Sequence[Need], mib: int
) -> Focus:
    """A single share needs one device: who is not on it matters only for what the whole node lacks."""
    parts = [relief.devices.get(device.uuid) for relief in departures.reliefs]
    here = [((_price_kind(i, pricing), _part(part)), i) for i, part in enumerate(parts) if part is not None]
    lacking = [need.gains for need in needs if need.much > 0]
    elsewhere = [
        ((_price_kind(i, pricing), None), i)
        for i, part in enumerate(parts)
        if lacking and part is None and any(gains[i] for gains in lacking)
    ]
    held, memory = departures.held.devices[device.uuid], device.memory
    left = memory.total_mib - memory.reserved_mib - memory.headroom_mib(departures.headroom_percent) - mib
    # Memory.free_mib has the larger of two; either must leave enough.
    requested = (memory.unaccounted_mib or 0) + held.foreign_mib + held.requested_mib
    used = memory.used_mib - held.departed_mib
    return Focus(
        [*here, *elsewhere],
        [
            Need(requested - left, [part.requested_mib + part.foreign_mib if part else 0 for part in parts]),
            Need(used - left, [-part.departed_mib if part else 0 for part in parts]),
            Need(held.units, [part.units if part else 0 for part in parts]),
        ],
    )


def _price_kind(i: int, pricing: Pricing) -> Hashable:
    """Priority and age are left out: of pods that are alike else, the least important always go first."""
    return i if pricing.overlapping else pricing.counted[i]


def _part(part: DeviceHoldings) -> tuple[Hashable, ...]:
    return part.units, part.requested_mib, part.foreign_mib, part.departed_mib


def _node_kinds(departures: DryRun, pricing: Pricing, needs: Sequence[Need], request: GpuRequest) -> Kinds:
    parts = _parts(departures, request)
    kinds: Kinds = []
    for i, relief in enumerate(departures.reliefs):
        unknown = frozenset(relief.unknown.items())
        if parts[i] or unknown or any(need.much > 0 and need.gains[i] for need in needs):
            kinds.append(((_price_kind(i, pricing), unknown, parts[i]), i))
    return kinds


def _parts(departures: DryRun, request: GpuRequest) -> list[frozenset[tuple[Hashable, int]]]:
    """What each pod frees on devices; on one that it has to itself, as the change of what a decision sees."""
    users = Counter(uuid for relief in departures.reliefs for uuid in relief.devices)
    profiles = _profiles(departures)
    # Where shares are placed, every device has a room of its own, and few are alike.
    alone = request.shares is None
    before = _slots(departures, (), request) if alone else {}
    parts = []
    for i, relief in enumerate(departures.reliefs):
        exclusive = {uuid for uuid in relief.devices if alone and users[uuid] == 1}
        after = _slots(departures, (i,), request) if exclusive else {}
        counted: Counter[Hashable] = Counter()
        for uuid, part in relief.devices.items():
            units = departures.held.devices[uuid].units
            if uuid in exclusive:
                counted[(units, part.units, before[uuid], after[uuid], uuid in profiles.cordoned)] += 1
            else:
                instances = Counter(profiles.of[instance] for instance in part.instances)
                counted[(uuid, *_part(part), frozenset(instances.items()))] += 1
        parts.append(frozenset(counted.items()))
    return parts


@dataclass(frozen=True, slots=True)
class _Profiles:
    of: dict[str, str]
    cordoned: frozenset[str]


def _profiles(departures: DryRun) -> _Profiles:
    devices = departures.info.report.devices if departures.info.report is not None else ()
    return _Profiles(
        {instance.uuid: instance.profile for device in devices for instance in device.mig.instances},
        frozenset(device.uuid for device in devices if device.cordoned),
    )


def _slots(departures: DryRun, gone: tuple[int, ...], request: GpuRequest) -> dict[str, Slot]:
    """What a decision on whole units sees of each device, without what it does not ask about."""
    node = departures.node_without(gone)
    slots = {}
    for uuid, slot in zip(node.uuids, node.state.slots, strict=True):
        if uuid is not None:
            units = tuple(
                replace(unit, mig_room=None, free_mib=unit.free_mib if request.min_free_mib else 0)
                for unit in slot.units
            )
            slots[uuid] = replace(slot, share_free_mib=-1, idle=0.0, units=units)
    return slots
