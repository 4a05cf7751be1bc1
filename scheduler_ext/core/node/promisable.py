"""What can be promised of a node's GPUs, what the node advertises of it, and what pods use beyond it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, DeviceHoldings, ShareMemory
from scheduler_ext.core.node.holdings import Holdings, holdings_of, pod_of, share_peaks
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.request import ShareRequest, UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of

# The one whose GPUs agents report.
_VENDOR = "nvidia"


def shareable_mib(device: Device, headroom_percent: int = 0) -> int:
    """What shares can get of a device at most; 0 of a partitioned one."""
    return (
        0 if device.mig.enabled else ShareMemory.of(device.memory, NOTHING_HELD, headroom_percent).share_total
    )


def overallocated(info: NodeInfo, pod: BoundPod, resources: ResourceNames) -> str | None:
    """Why a pod's future holdings on a node are too much, beside all others there; None if they are not. Use
    does not matter, nor whether filters would prefer another place: any of them is possible."""
    return next(_problems(info, pod, resources), None)


def _problems(info: NodeInfo, pod: BoundPod, resources: ResourceNames) -> Iterator[str]:
    request, shares = pod.request, pod.request.shares
    amounts = [(ask.resource, ask.count) for ask in request.units]
    amounts += [(resources.share, mib) for _, mib in (shares.by_container if shares is not None else ())]
    yield from (f"{amount} is no amount of {name}" for name, amount in amounts if amount < 0)
    beside = replace(info, pods=tuple(other for other in info.pods if other.uid != pod.uid))
    held = holdings_of(beside, resources)
    if request.units:
        node = resolve_held(beside, held, resources, 0)
        for ask in request.units:
            yield from _units(ask, node, held)
    if shares is not None:
        yield from _places(beside, pod, shares)
        yield from _memory(beside, pod)
        mine = share_peaks(pod, info.devices)
        whole = (uuid for uuid in mine if held.devices[uuid].units)
        yield from (f"GPU {uuid} would be shared, and is held whole" for uuid in whole)
        yield from _held_somewhere(beside, mine, held, resources)


def _units(ask: UnitRequest, node: Node, held: Holdings) -> Iterator[str]:
    """Whole GPUs and instances; of sick ones as well, for the device plugin may hand those out."""
    name = ask.resource
    left = sum(unit.free for slot in node.state.slots for unit in slot.units if unit.resource == name)
    left -= next((unknown for known, unknown, _ in node.state.limits if known == name), 0)
    left = min(left, node.info.limit(name) - held.requested[name])
    if ask.count > max(0, left):
        yield f"{ask.count} {name} would be promised where {max(0, left)} are left"


def _places(info: NodeInfo, pod: BoundPod, shares: ShareRequest) -> Iterator[str]:
    if info.report is None:
        yield "a share would be promised where no GPU is known"
        return
    known = {device.uuid for device in info.devices}
    for container, _ in shares.by_container:
        uuids = pod.devices.get(container, ())
        share = f"the share of container {container} would be on"
        if not uuids:
            yield f"{share} no GPU"
        yield from (f"{share} {uuid}, which the node does not have" for uuid in uuids if uuid not in known)


def _memory(info: NodeInfo, pod: BoundPod) -> Iterator[str]:
    mine = share_peaks(pod, info.devices)
    promised = Counter(mine)
    for other in info.pods:
        if other.holds:
            promised.update(share_peaks(other, info.devices))
    for device in info.devices:
        mib, most_mib = promised[device.uuid], shareable_mib(device)
        if device.uuid in mine and mib > most_mib:
            yield f"GPU {device.uuid} would be promised {mib} of {most_mib} MiB"


def _held_somewhere(
    info: NodeInfo, mine: Mapping[str, int], held: Holdings, resources: ResourceNames
) -> Iterator[str]:
    """For each GPU that is held whole on an unknown device, one must stay free of shares."""
    names = [name for name, count in held.unknown.items() if count and not name.startswith(MIG_PREFIX)]
    if not names:
        return
    free = [(uuid, slot) for uuid, slot in resolve_held(info, held, resources, 0).gpus if slot.is_whole]
    for vendor in sorted({slot.model.vendor for _, slot in free} & set(map(vendor_of, names))):
        here = [(uuid, slot) for uuid, slot in free if slot.model.vendor == vendor]
        opened = [uuid for uuid, _ in here if uuid in mine]
        # The node's state has closed as many to shares as are held.
        if len(opened) > sum(slot.share_free_mib >= 0 for _, slot in here):
            yield f"GPU {opened[0]} would be shared, and may be one that is held whole"


def advertised_mib(info: NodeInfo, resources: ResourceNames, headroom_percent: int) -> int | None:
    """The MiB that a node advertises: the requests of its pods and the memory that is still available,
    because kube-scheduler, quotas and autoscalers subtract these requests. Use never counts: the extender's
    filter decides which GPU has room. None when the node is none of shares, or has no report. The last report
    counts however old it is: an amount that comes and goes with an agent would have pods preempted and nodes
    added, and nothing new is placed by an old report anyway."""
    if info.report is None or not is_of_shares(info):
        return None
    devices = info.report.devices
    # Shares on a sick GPU count against the sum of the others until they leave.
    room = {each.uuid: shareable_mib(each, headroom_percent) if each.healthy else 0 for each in devices}
    if any(device.cordoned for device in devices):
        # A cordoned GPU accepts nothing new, but its pods stay, and kube-scheduler counts their requests.
        # With all its room the node would seem to fit pods that it does not, for example to an autoscaler;
        # with none, the other GPUs would seem full. Therefore it counts with its holdings.
        held = holdings_of(info, resources)
        for device in devices:
            if device.cordoned:
                room[device.uuid] = min(room[device.uuid], held.devices[device.uuid].requested_mib)
    return sum(room.values())


def is_of_shares(info: NodeInfo) -> bool:
    """Whether a node's GPUs are handed out as shares: labelled so, and not by a device plugin as well."""
    if info.allocatable is None or not info.share_node:
        return False
    # By the domain: whole GPUs under any name, and MIG instances. A plugin that has gone leaves a 0.
    return not any(vendor_of(name) == _VENDOR and amount > 0 for name, amount in info.allocatable.items())


def drift_mib(info: NodeInfo, resources: ResourceNames) -> int:
    """MiB that pods use of a node's GPUs beyond what they hold there, over all GPUs; memory is accounted, not
    fenced. Pods hold whole GPUs and instances with all their memory. Where an agent reports use by pod,
    memory that one pod leaves unused does not cover the use of another."""
    if info.report is None:
        return 0
    held, devices = holdings_of(info, resources).devices, info.devices
    promised = {pod.uid: share_peaks(pod, devices) for pod in info.pods if pod.holds}
    return sum(
        held[device.uuid].foreign_mib
        + max(
            ShareMemory.of(device.memory, held[device.uuid]).excess,
            _excess_by_pod(device, held, info, promised),
        )
        for device in devices
        if not held[device.uuid].units and not device.mig.enabled
    )


def _excess_by_pod(
    device: Device,
    held: Mapping[str, DeviceHoldings],
    info: NodeInfo,
    promised: Mapping[str, Mapping[str, int]],
) -> int:
    used: Counter[str] = Counter()
    for holder in device.holders:
        pod = pod_of(holder, info.pods)
        if pod is not None and pod.uid in held[device.uuid].pods:
            used[pod.uid] += holder.memory_mib or 0
    return sum(max(0, mib - promised.get(uid, {}).get(device.uuid, 0)) for uid, mib in used.items())
