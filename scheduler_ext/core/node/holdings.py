"""The holdings on one node: those of known pods, and those that only the agent saw."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler_ext.core.dra.device import GPU_DRIVERS, DraDevice, memory_mib
from scheduler_ext.core.dra.published import ClaimedDevice, DeviceId
from scheduler_ext.core.gpu.gpu import Device, Holder, MigInstance
from scheduler_ext.core.gpu.share_memory import DeviceHoldings
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of


@dataclass(slots=True)
class Holdings:
    """The holdings on one node; `unknown` counts units per resource whose device is not known yet,
    `unplaced` are pods with a share whose device is not in their annotations: another binder bound them.
    `allocated` counts the claims that hold each published device, `consumed` the capacity that they have of
    it, `lost` the GPUs that claims hold and no slice lists. `claimed` counts units per resource that DRA
    serves and whose claim is not known yet."""

    devices: dict[str, DeviceHoldings] = field(default_factory=dict)
    unplaced: list[BoundPod] = field(default_factory=list)
    allocated: Counter[DeviceId] = field(default_factory=Counter)
    consumed: dict[DeviceId, Counter[str]] = field(default_factory=dict)
    claimed: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    requested: Counter[str] = field(default_factory=Counter)


def holdings_of(node: NodeInfo, resources: ResourceNames) -> Holdings:
    """All holdings on a node. A pod's whole GPUs and instances are found through the report's holders; the
    others are counted without a device. A share on an unknown device counts on every device that it could be
    on, which can only refuse too much. Holders that are no known pod hold the memory that the agent saw. In
    an overdue report that counts nevertheless, they are pods that have ended since: no later report says so,
    and allocatable less the requests of all pods is the limit there."""
    devices = node.devices
    held = Holdings({device.uuid: DeviceHoldings() for device in devices})
    for device in devices:
        _hold_seen(device, node.pods, held.devices[device.uuid], strangers=not node.takes_unreported)
    claimed = _hold_claims(node, held)
    for pod in node.pods:
        if pod.holds:
            _hold_pod(pod, node, held, resources, claimed.get(pod.uid, {}))
    for device in devices:
        here = held.devices[device.uuid]
        for holder in device.holders:
            other = pod_of(holder, node.pods)
            # Use by pods that hold nothing on the device, known ones and others.
            if other is None or not (other.departed or other.uid in here.pods):
                here.foreign_mib += holder.memory_mib or 0
    for pod in node.pods:
        if pod.departed:
            _count_departed(pod, devices, held)
    return held


def unknown_gpus(node: NodeInfo, held: Holdings) -> int:
    """The number of whole GPUs that pods hold on unknown devices; instances do not count."""
    whole = {ask.resource for pod in node.pods for ask in pod.request.units if ask.profile is None}
    return sum(held.unknown[resource] for resource in whole)


def pod_of(holder: Holder, pods: tuple[BoundPod, ...]) -> BoundPod | None:
    """The known pod that a holder is, None for a stranger."""
    mine = [pod for pod in pods if pod.is_holder(holder)]
    # By name it may be one that has left, too.
    return next((pod for pod in mine if pod.holds), mine[0] if mine else None)


def _hold_seen(device: Device, pods: tuple[BoundPod, ...], held: DeviceHoldings, *, strangers: bool) -> None:
    """Instances in use, and with `strangers` also those of holders that are none of the known pods."""
    for instance in device.mig.instances:
        if instance.holder is not None:
            pod = pod_of(instance.holder, pods)
            holds = strangers if pod is None else pod.holds
            if holds:
                held.instances.add(instance.uuid)
    held.units += strangers and sum(
        holder.memory_mib is None and pod_of(holder, pods) is None for holder in device.holders
    )


def _hold_claims(node: NodeInfo, held: Holdings) -> dict[str, Counter[str]]:
    """Count what claims hold. Returns the number of devices that claims for extended resources hold, by the
    uid of their pod and by resource."""
    if not node.claims or node.dra is None:
        return {}
    devices = {device.id: device for device in node.dra.devices}
    totals = {device.uuid: device for device in node.devices}
    by_pod: dict[str, Counter[str]] = {}
    for claim in node.claims:
        pods = {uid for uid, _ in claim.pods}
        for each in claim.devices or ():
            device = devices.get(each.id)
            if device is None or device.on not in held.devices:
                held.lost += each.id.driver in GPU_DRIVERS
                continue
            held.allocated[device.id] += 1
            if device.multiple:
                held.consumed.setdefault(device.id, Counter()).update(each.consumed or device.capacity)
            here = held.devices[device.on]
            here.claimed = here.claimed or DeviceHoldings()
            for holdings in (here, here.claimed):
                _hold_claimed(device, each, totals[device.on], holdings)
            here.pods |= pods
            for uid in pods if claim.extended else ():
                by_pod.setdefault(uid, Counter()).update(device.resources)
    return by_pod


def _hold_claimed(device: DraDevice, each: ClaimedDevice, on: Device, here: DeviceHoldings) -> None:
    """Count one device of a claim on its GPU."""
    if device.multiple:
        used_mib = memory_mib(each.consumed)
        here.requested_mib += min(used_mib or on.memory.total_mib, on.memory.total_mib)
        if not on.memory.total_mib:
            # How much of it is unknown; it is not free.
            here.parts = 1.0
    elif device.profile is None:
        here.units += 1
    elif any(instance.uuid == device.uuid for instance in on.mig.instances):
        here.instances.add(device.uuid or "")
    else:
        part = device.memory_mib / on.memory.total_mib if on.memory.total_mib and device.memory_mib else 1.0
        here.parts = min(1.0, round(here.parts + part, 9))


def _hold_pod(
    pod: BoundPod, node: NodeInfo, held: Holdings, resources: ResourceNames, claimed: Mapping[str, int]
) -> None:
    devices = node.devices
    # Claims are written before the pod is bound, but may arrive here after it.
    has_claim = pod.extended_claim is not None or bool(claimed) or pod.uid in node.assumed
    for ask in pod.request.units:
        if has_claim and node.by_claim(ask.resource):
            held.claimed[ask.resource] += max(0, ask.count - claimed.get(ask.resource, 0))
            continue
        held.requested[ask.resource] += ask.count
        found = 0
        for device, seen in seen_gpus(pod, ask, node):
            held.devices[device.uuid].units += seen
            held.devices[device.uuid].pods.add(pod.uid)
            found += seen
        found += len(seen_instances(pod, ask, node))
        held.unknown[ask.resource] += max(0, ask.count - found)
    if pod.request.shares is not None:
        held.requested[resources.share] += pod.request.shares.total_mib
        # Its observed use may be only a part of its later use, so an observation does not reopen the node.
        names = [name for name, _ in pod.request.shares.by_container]
        if devices and not all(_annotated(pod, name, devices) for name in names):
            held.unplaced.append(pod)
        for uuid, asked in share_peaks(pod, devices).items():
            held.devices[uuid].requested_mib += asked
            held.devices[uuid].pods.add(pod.uid)


def seen_gpus(pod: BoundPod, ask: UnitRequest, node: NodeInfo) -> list[tuple[Device, int]]:
    """The GPUs of a pod's request that are known, by its annotation or by the agent, each with its number of
    units."""
    if ask.profile is not None:
        return []
    # The same annotation names the device of a share: only those of containers that ask this count.
    requesting = [name for name, resource, _ in pod.request.by_container if resource == ask.resource]
    annotated = [uuid for name in requesting for uuid in {*pod.devices.get(name, ())}]
    seen_on = [[holder for holder in device.holders if pod.is_holder(holder)] for device in node.devices]
    if not annotated and not any(seen_on):
        return []
    # Holders from the kubelet need no guess from use: a pod may use a GPU that it does not hold.
    allocated = any(holder.memory_mib is None for mine in seen_on for holder in mine)
    vendor = vendor_of(ask.resource)
    places, left = [], ask.count
    instances = Counter(device.uuid for device, _ in seen_instances(pod, ask, node))
    for device, mine in zip(node.devices, seen_on, strict=True):
        if vendor in (None, device.vendor):
            # As allocated, otherwise one that it uses.
            used = sum(holder.memory_mib is None for holder in mine) if allocated else min(len(mine), 1)
            seen = min(max(annotated.count(device.uuid), used), left)
            if seen:
                places.append((device, seen))
                left -= seen
        left = max(0, left - instances[device.uuid])
    return places


def seen_instances(pod: BoundPod, ask: UnitRequest, node: NodeInfo) -> list[tuple[Device, MigInstance]]:
    """The MIG instances of a pod's request that the agent saw it hold; a whole GPU may be any instance (MIG
    single)."""
    if ask.profile is None and not (node.report is not None and node.report.mig_strategy == "single"):
        return []
    return [
        (device, instance)
        for device in node.devices
        for instance in device.mig.instances
        if ask.profile in (None, instance.offered_as)
        and instance.holder is not None
        and pod.is_holder(instance.holder)
    ]


def _count_departed(pod: BoundPod, devices: tuple[Device, ...], held: Holdings) -> None:
    """Count the memory that the report still shows as used by a pod that has left since: the use that the
    agent saw, otherwise all use of a GPU that it held alone, otherwise the amount that it requested."""
    asked = share_peaks(pod, devices)
    for device in devices:
        mine = [holder for holder in device.holders if pod.is_holder(holder)]
        used = sum(holder.memory_mib or 0 for holder in mine)
        if mine and not used and len(mine) == len(device.holders):
            used = device.memory.used_mib
        held.devices[device.uuid].departed_mib += used or asked.get(device.uuid, 0)


def share_peaks(pod: BoundPod, devices: tuple[Device, ...]) -> dict[str, int]:
    """The peak of a pod's shares on each device that it may have one on, in MiB."""
    shares = pod.request.shares
    if shares is None:
        return {}
    running = [_share_devices(pod, container, devices) for container, _ in shares.running]
    init = [_share_devices(pod, share.container, devices) for share in shares.init]
    peaks = {}
    for device in devices:
        here = [device.uuid in where for where in running]
        sizes = [mib * there for (_, mib), there in zip(shares.running, here, strict=True)]
        before = [
            share.memory_mib + sum(sizes[i] for i in share.beside)
            for share, where in zip(shares.init, init, strict=True)
            if device.uuid in where
        ]
        peak = max([sum(sizes), *before])
        if peak:
            peaks[device.uuid] = peak
    return peaks


def _share_devices(pod: BoundPod, container: str, devices: tuple[Device, ...]) -> frozenset[str]:
    return known_devices(pod, container, devices) or frozenset(device.uuid for device in devices)


def known_devices(pod: BoundPod, container: str, devices: tuple[Device, ...]) -> frozenset[str]:
    """The devices of a container's share by its pod's annotation, or by the agent; empty if unknown."""
    told = _annotated(pod, container, devices)
    if told:
        return told
    seen = [(device.uuid, holder) for device in devices for holder in device.holders if pod.is_holder(holder)]
    return frozenset(uuid for uuid, holder in seen if holder.container in (None, container))


def unknown_shares(node: NodeInfo) -> list[int]:
    """The shares of a node's pods, in MiB each, that may be on any of several GPUs."""
    devices = node.devices
    if len(devices) < 2:
        return []
    return [
        mib
        for pod in node.pods
        if pod.holds and pod.request.shares is not None
        for container, mib in pod.request.shares.by_container
        if mib and not known_devices(pod, container, devices)
    ]


def _annotated(pod: BoundPod, container: str, devices: tuple[Device, ...]) -> frozenset[str]:
    return frozenset({device.uuid for device in devices} & set(pod.devices.get(container, ())))
