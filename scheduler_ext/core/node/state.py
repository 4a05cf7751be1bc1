"""From a node's sources to the state a decision compares."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import or_

from scheduler_ext.core.gpu.gpu import Device, MigInstance, Report
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, resource_from_profile, window
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.gpu.share_memory import DeviceHoldings, ShareMemory
from scheduler_ext.core.node.beyond_allocatable import beyond_allocatable
from scheduler_ext.core.node.claimable import Claimable, OneWay
from scheduler_ext.core.node.estimated_slot import estimated_slot, whole_names, without_free_memory
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import (
    NO_NEIGHBOURS,
    UNKNOWN_FREE,
    UNLIMITED,
    BoundPod,
    InstancePlacements,
    Node,
    NodeInfo,
    NodeState,
    Slot,
    Unit,
    eviction_rank,
    version_number,
)
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of

# A slot, and the device in it.
_Placed = tuple[Slot, str | None]

# Free CPU of a node is counted in this many parts: fewer distinct nodes, and equally good placements.
_CPU_STEPS = 16


def resolve(
    info: NodeInfo,
    resources: ResourceNames,
    headroom_percent: int,
    known: dict[tuple[str, Hashable], Slot] | None = None,
) -> Node:
    """The node's state after all holdings; devices of equal state stay in their reported order. `known` as
    for `resolve_held`."""
    node = resolve_held(info, holdings_of(info, resources), resources, headroom_percent, known)
    state = replace(node.state, neighbours=neighbours(info.pods), cpu_free_milli=cpu_free_milli(info))
    return replace(node, state=state)


def resolve_held(
    info: NodeInfo,
    held: Holdings,
    resources: ResourceNames,
    headroom_percent: int,
    known: dict[tuple[str, Hashable], Slot] | None = None,
) -> Node:
    """The node after these holdings, whatever pods hold them; `known` are slots of the same report."""
    known = {} if known is None else known
    # Most GPUs of a node are equal.
    alike: dict[Hashable, Slot] = {}
    slots: list[_Placed] = []
    source = info.report or info.estimate
    claimable = Claimable(info, held) if info.dra is not None else None
    if info.report is not None:
        whole = _WholeUnits(info.report, resources)
        for device in info.report.devices:
            here = held.devices[device.uuid]
            slot = known.get((device.uuid, here.amounts))
            if slot is None:
                likeness = device.likeness, here.amounts
                slot = alike.get(likeness) or _slot(device, here, whole, headroom_percent)
                alike[likeness] = slot
                if claimable is not None:
                    slot = claimable.added(slot, device, here)
                else:
                    known[device.uuid, here.amounts] = slot
            slots.append((slot, device.uuid))
        slots.sort(key=lambda pair: _slot_key(pair[0]))
    elif info.estimate is not None:
        slots = [(estimated_slot(info, info.estimate, resources), None)]
    _close_taken(slots, held)
    if info.takes_unreported:
        slots = [(without_free_memory(slot), uuid) for slot, uuid in slots]
    by_claim = claimable.served if claimable is not None else frozenset()
    closed = _closed_by_cordon(info, held, slots)
    limits = _limits(info, held, slots, closed, claimable)
    way = claimable.one_way(slots, resources.share) if claimable is not None else OneWay()
    strategy = source.sharing_strategy if source is not None else "none"
    # A share that another binder bound may be on any GPU: until it is gone, the node takes no new share.
    share_limit = 0 if held.unplaced else _limit(info, held, resources.share)
    state = NodeState(
        slots=tuple(slot for slot, _ in slots),
        gpus=info.estimate.count if info.report is None and info.estimate is not None else len(slots),
        adrift=_adrift(held, [slot for slot, _ in slots]),
        limits=limits,
        beyond=beyond_allocatable(info, held, slots, closed - by_claim, takes_shares=share_limit > 0),
        share_limit=share_limit,
        # A Node object without GPUs shows that the node has none; without a Node object, that is unknown.
        fresh=(info.freshness == "Fresh" or info.by_allocatable)
        and (source is not None or info.allocatable is not None),
        estimated=info.report is None,
        changing=info.changing,
        shared=strategy != "none" and (info.report is None or ("", 1) not in info.report.own_replicas),
        shared_instances=strategy != "none",
        sliced=any(
            unit.model.is_mig_slice and not unit.resource.startswith(MIG_PREFIX)
            for slot, _ in slots
            for unit in slot.units
        ),
        fraction=info.fraction,
        # k8s-device-plugin, ValidateRequest: MPS refuses more than one by default (v0.20), time
        # slicing allows it by default.
        one_replica=strategy != "none"
        and (strategy == "mps" if info.one_replica is None else info.one_replica),
        cuda=version_number(source.cuda_version if source is not None else None),
        spot=info.spot,
        value=info.value,
        cpu_milli=UNLIMITED if info.cpu_milli is None else min(info.cpu_milli, UNLIMITED),
        offers_shares=_offers(info, resources.share),
        offers_whole=any(
            _offers(info, name) or name in by_claim for name, *_ in limits if not name.startswith(MIG_PREFIX)
        ),
        by_claim=tuple(sorted(by_claim)),
        open=tuple(sorted(filter(info.by_claim, info.dra.open))) if info.dra is not None else (),
        twice=tuple(name for name in way.closed if name != resources.share),
        shares_twice=resources.share in way.closed,
        in_use=way.in_use if way.closed else (),
        by_allocatable=info.by_allocatable,
    )
    return Node(info, state, tuple(uuid for _, uuid in slots))


def neighbours(pods: Iterable[BoundPod]) -> int:
    """The rank of the most evictable pod that holds GPUs of a node; NO_NEIGHBOURS without such a pod."""
    lowest = min((pod.priority for pod in pods if pod.holds and pod.request.asks_gpu), default=None)
    return NO_NEIGHBOURS if lowest is None else eviction_rank(lowest)


def cpu_free_milli(info: NodeInfo) -> int:
    """The unrequested CPU, in coarse steps; UNLIMITED if unknown."""
    if info.cpu_milli is None:
        return UNLIMITED
    asked = info.cpu_elsewhere_milli + sum(pod.cpu_milli for pod in info.pods if pod.holds)
    return coarse_free_milli(info.cpu_milli, asked)


def coarse_free_milli(cpu_milli: int, asked_milli: int) -> int:
    """The rest of this much CPU, in the steps that distinguish nodes."""
    free = min(UNLIMITED, max(0, cpu_milli - asked_milli))
    return free - free % max(1, cpu_milli // _CPU_STEPS)


def _slot_key(slot: Slot) -> tuple[object, ...]:
    units = tuple(
        (unit.resource, unit.free, unit.free_mib, unit.mig_placements.order if unit.mig_placements else ())
        for unit in slot.units
    )
    return (slot.model.name, not slot.healthy, slot.total_mib, slot.share_free_mib, slot.idle, units)


def _close_taken(slots: list[_Placed], held: Holdings) -> None:
    """Close the emptiest devices to shares, one for each whole GPU that is held on an unknown device, so that
    a share fits whichever devices are held."""
    for vendor in {slot.model.vendor for slot, _ in slots} if any(held.unknown.values()) else ():
        unknown = max((_unknown(held, name) for name in held.unknown if vendor_of(name) == vendor), default=0)
        takers = [
            i
            for i, (slot, _) in enumerate(slots)
            if slot.share_free_mib >= 0 and slot.model.vendor == vendor and slot.is_whole
        ]
        for i in sorted(takers, key=lambda i: -slots[i][0].share_free_mib)[:unknown]:
            slots[i] = (replace(slots[i][0], share_free_mib=-1), slots[i][1])


def _adrift(held: Holdings, slots: list[Slot]) -> float:
    worth = 0.0
    for resource, count in held.unknown.items():
        parts = [unit.gpu_part for slot in slots for unit in slot.units if unit.resource == resource]
        worth += count * sum(parts) / max(len(parts), 1)
    return round(worth, 9)


def _limit(info: NodeInfo, held: Holdings, resource: str) -> int:
    limit = info.limit(resource)
    return limit if limit == UNLIMITED else min(UNLIMITED, max(0, limit - held.requested[resource]))


def _offers(info: NodeInfo, resource: str) -> bool:
    return info.allocatable is None or info.allocatable.get(resource, 0) > 0


def _closed_by_cordon(info: NodeInfo, held: Holdings, slots: list[_Placed]) -> frozenset[str]:
    """Resources with a unit on a cordoned GPU that the kubelet may hand out: the kubelet picks the device,
    and may pick that one, so that only refusing the node keeps the GPU from new pods."""
    # Kubelet knows neither shares nor strangers: without a holder of its own, the GPU is free to it.
    cordoned: dict[str | None, bool] = {
        device.uuid: not (held.devices[device.uuid].units or device.mig.enabled)
        for device in info.devices
        if device.cordoned and device.healthy
    }
    if not cordoned:
        return frozenset()
    units = ((unit, uuid) for slot, uuid in slots for unit in slot.units)
    return frozenset(
        unit.resource for unit, uuid in units if uuid in cordoned and (unit.free or cordoned[uuid])
    )


def _limits(
    info: NodeInfo,
    held: Holdings,
    slots: list[_Placed],
    closed: frozenset[str],
    claimable: Claimable | None,
) -> tuple[tuple[str, int, int], ...]:
    """Resources that a cordon has `closed` have a limit of 0. Of what DRA serves, kube-scheduler picks the
    device; it may also choose a sick GPU, in an order that is known."""
    sick = {device.uuid for device in info.devices if not device.healthy}
    shut = {device.uuid for device in info.devices if device.cordoned}
    limits = []
    for name in sorted({unit.resource for slot, _ in slots for unit in slot.units}):
        if claimable is not None and name in claimable.served:
            reach = claimable.within_reach(name, shut, sick) if sick or shut else UNLIMITED
            limits.append((name, claimable.expected(name), reach))
        else:
            limit = 0 if name in closed else _limit(info, held, name)
            limits.append((name, _unknown(held, name), limit))
    return tuple(limits)


def _unknown(held: Holdings, resource: str) -> int:
    """Units held on unknown devices; one vendor's whole GPUs are one pool under several names."""
    vendor = vendor_of(resource)
    if resource.startswith(MIG_PREFIX) or vendor is None:
        return min(UNLIMITED, held.unknown[resource])
    whole = [name for name in held.unknown if not name.startswith(MIG_PREFIX)]
    return min(UNLIMITED, sum(held.unknown[name] for name in whole if vendor_of(name) == vendor))


class _WholeUnits:
    """What one reported device offers as whole GPUs, under MIG strategy and sharing of its node."""

    def __init__(self, report: Report, resources: ResourceNames) -> None:
        self._report = report
        self._shared = report.sharing_strategy != "none"
        self.replicas = report.replicas_of()
        enabled = [device.mig.enabled for device in report.devices]
        profiles = {each.offered_as for device in report.devices for each in device.mig.instances}
        # Under strategy single the plugin offers instances as whole GPUs, but only when every GPU is
        # partitioned into one identical profile; anything else is an error and offers nothing.
        self._single = report.mig_strategy == "single" and any(enabled)
        cut = all(device.mig.enabled and device.mig.instances for device in report.devices)
        self._single_valid = cut and len(profiles) == 1
        vendors = {device.vendor for device in report.devices}
        self._names = {vendor: whole_names(resources, vendor, self._shared) for vendor in vendors}

    def of(self, device: Device, held: DeviceHoldings) -> Iterator[Unit]:
        names = self._names[device.vendor]
        if self._single:
            if self._single_valid:
                yield from (unit for name in names for unit in self._instances(device, held, name))
        elif not self._report.hands_out_instances(device):
            yield from (self._whole(device, held, name) for name in names)
        if device.mig.enabled and self._report.mig_strategy == "mixed":
            for profile in sorted({instance.offered_as for instance in device.mig.instances}):
                resource = resource_from_profile(profile)
                for name in (resource, f"{resource}.shared") if self._shared else (resource,):
                    yield from self._instances(device, held, name, profile)

    def idle(self, device: Device, held: DeviceHoldings, room: ShareMemory) -> float:
        """The part of a device that nothing holds, 0 to 1; 0 for one that pods cannot get."""
        by_instances = self._report.hands_out_instances(device)
        if by_instances and device.mig.instances:
            grid = sum(instance.size for instance in device.mig.instances)
            # By their sizes: an agent may not be able to read where they are.
            taken = sum(each.size for each in device.mig.instances if each.uuid in held.instances)
            return round(1 - taken / grid, 9)
        if held.units:
            return round(max(0, self.replicas - held.units) / self.replicas, 9)
        return 0.0 if by_instances else round(max(0.0, room.idle - held.parts), 9)

    def _whole(self, device: Device, held: DeviceHoldings, name: str) -> Unit:
        """A device, or its replicas; under MPS each replica has an equal part of the memory."""
        memory = device.memory
        parts = self.replicas if self._report.sharing_strategy == "mps" else 1
        busy = held.units or int(held.taken)
        return Unit(
            name,
            free=max(0, self.replicas - busy),
            memory_mib=memory.total_mib // parts,
            free_mib=ShareMemory.of(memory, held).free // parts if memory.measured else UNKNOWN_FREE,
            model=device.model,
            gpu_part=1 / self.replicas,
        )

    def _instances(
        self, device: Device, held: DeviceHoldings, name: str, profile: str | None = None
    ) -> Iterator[Unit]:
        """The free instances of a profile (of the only one there is, under strategy single)."""
        same = [instance for instance in device.mig.instances if profile in (None, instance.offered_as)]
        free = [instance for instance in same if instance.uuid not in held.instances]
        if not same:
            return
        memory_mib, model = min(map(device.instance_memory_mib, same)), device.model
        replicas = self._report.replicas_of(profile or "")
        if profile is None:
            # Under strategy single: A100-80GB-MIG-1G.10GB, which A100 does not match.
            name_of_slice = f"{model.name}-MIG-{same[0].offered_as.replace('+', '.')}"
            model = canonical_model(name_of_slice, vendor=model.vendor)
        yield Unit(
            name,
            free=len(free) * replicas,
            memory_mib=memory_mib,
            free_mib=memory_mib,
            model=model,
            gpu_part=same[0].size / sum(instance.size for instance in device.mig.instances) / replicas,
            mig_placements=_mig_placements(device, held, free),
        )


def _mig_placements(
    device: Device, held: DeviceHoldings, free: list[MigInstance]
) -> InstancePlacements | None:
    """The possible places of the next of the `free` instances, all of one profile; None if unknown."""
    geometry = device.mig.geometry
    profile = geometry.profile(free[0].offered_as) if geometry is not None and free else None
    if geometry is None or profile is None:
        return None
    masks = [each.mask for each in device.mig.instances if each.uuid in held.instances]
    mask = reduce(or_, masks, 0)
    starts = (each.start for each in free if each.start is not None and each.start in profile.starts)
    places = tuple(sorted(start for start in starts if not mask & window(profile, start)))
    return InstancePlacements(geometry, mask, len(masks), profile.name, places) if places else None


def _slot(device: Device, held: DeviceHoldings, whole: _WholeUnits, headroom_percent: int) -> Slot:
    room = ShareMemory.of(device.memory, held, headroom_percent)
    takes_shares = not (device.mig.enabled or held.units or held.parts or device.cordoned)
    return Slot(
        model=device.model,
        healthy=device.healthy,
        compute_capability=version_number(device.compute_capability),
        total_mib=device.memory.total_mib,
        share_total_mib=0 if device.mig.enabled else room.share_total,
        share_free_mib=room.free if takes_shares else -1,
        idle=whole.idle(device, held, room),
        units=tuple(whole.of(device, held)),
    )
