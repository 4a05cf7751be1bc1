"""A pod that holds GPUs, with its part of them and its use."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scheduler_ext.core.dra.device import memory_mib
from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.node.claimed import ClaimedGpu, claimed_gpus, gpu_pods
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.request.request import UnitRequest
from scheduler_ext.explain.waiting import placed_item


class PlacedPod(NamedTuple):
    """A pod that holds GPUs of a node: `held` as the node counts them, `gpus` as whole ones, parts of GPUs
    included. `requested_mib` is the memory that they promise to it, 0 where GPUs are shared by time;
    `used_mib` is the use of its processes, None if the agent cannot see that."""

    pod: BoundPod
    held: float
    gpus: float
    requested_mib: int
    used_mib: int | None

    @property
    def since(self) -> float | None:
        """Its start on the node, in seconds of wall time; before that its creation, None if unknown."""
        return self.pod.started_at or self.pod.created_at


def placed_pods(node: Node) -> tuple[PlacedPod, ...]:
    """The pods that hold GPUs of one node."""
    info = node.info
    share_sizes_mib = {uuid: slot.share_total_mib for uuid, slot in node.gpus if uuid is not None}
    claimed = list(claimed_gpus(info))
    found = []
    for pod in gpu_pods(info):
        own = [each for each in claimed if pod.uid in dict(each.claim.pods)]
        parts = [
            *_by_unit(pod, info),
            *(claimed_part(each, info) for each in own),
            *_by_share(pod, share_sizes_mib),
        ]
        held = sum(part for part, _ in parts)
        gpus = round(held * info.counted_part, DIGITS)
        found.append(PlacedPod(pod, held, gpus, sum(mib for _, mib in parts), used_mib(pod, info)))
    return tuple(found)


def _by_unit(pod: BoundPod, info: NodeInfo) -> Iterator[tuple[float, int]]:
    for ask in pod.request.units:
        if not (ask.by_claim or info.by_claim(ask.resource)):
            part, mib = _unit(ask, info)
            yield ask.count * part, ask.count * mib


def _unit(ask: UnitRequest, info: NodeInfo) -> tuple[float, int]:
    """The part of a GPU, and its memory in MiB, in one unit of a resource; GPUs of a node are nearly always
    alike."""
    report, estimate = info.report, info.estimate
    if report is None or not report.devices:
        if estimate is None or ask.profile is not None:
            return 1.0, 0
        memory_mib = estimate.memory_mib or 0 if estimate.replicas == 1 else 0
        return 1 / estimate.replicas, memory_mib
    if ask.profile is not None or report.mig_strategy == "single":
        for device in report.devices:
            for instance in device.mig.instances:
                if ask.profile in (None, instance.offered_as):
                    return _instance(instance, device)
        if ask.profile is not None:
            return 1.0, 0
    if (replicas := report.replicas_of()) > 1:
        return 1 / replicas, 0
    memory = report.devices[0].memory
    return 1.0, max(0, memory.total_mib - memory.reserved_mib)


def _instance(instance: MigInstance, device: Device) -> tuple[float, int]:
    slots = sum(each.size for each in device.mig.instances)
    return instance.size / slots, device.instance_memory_mib(instance)


def claimed_part(each: ClaimedGpu, info: NodeInfo) -> tuple[float, int]:
    """The part of a GPU, and its memory in MiB, that a claim holds."""
    on = next((device for device in info.devices if device.uuid == each.device.on), None)
    total = on.memory.total_mib if on is not None else 0
    mib = 0
    if each.device.multiple:
        mib = memory_mib(each.held.consumed)
    elif each.device.profile is not None:
        mib = each.device.memory_mib
    if mib and total:
        return min(1.0, mib / total), min(mib, total)
    return 1.0, max(0, total - on.memory.reserved_mib) if on is not None else 0


def _by_share(pod: BoundPod, sizes_mib: Mapping[str, int]) -> Iterator[tuple[float, int]]:
    """`sizes_mib` is the memory for shares of each GPU of the node."""
    if pod.request.shares is None:
        return
    given = {uuid for uuids in pod.devices.values() for uuid in uuids}
    totals = [mib for uuid, mib in sizes_mib.items() if uuid in given]
    total = next(iter(totals or sizes_mib.values()), 0)
    mib = pod.request.shares.total_mib
    yield min(float(len(totals) or 1), mib / total) if total else 0.0, mib


def used_mib(pod: BoundPod, info: NodeInfo) -> int | None:
    """The memory that the pod's processes use on the GPUs that it holds, in MiB; None if some of that is
    unknown: the agent sees no processes, or they run in MIG instances."""
    given = {uuid for uuids in pod.devices.values() for uuid in uuids}
    used, on_some = 0, False
    for device in info.devices:
        if any(each.holder is not None and pod.is_holder(each.holder) for each in device.mig.instances):
            return None
        mine = [holder for holder in device.holders if pod.is_holder(holder)]
        if not mine and device.uuid not in given:
            continue
        seen = [holder.memory_mib for holder in mine if holder.memory_mib is not None]
        if not seen and device.memory.unaccounted_mib is None:
            return None
        used, on_some = used + sum(seen), True
    return used if on_some else None


def placed_row(placed: PlacedPod, info: NodeInfo) -> dict[str, Any]:
    """A pod with its node, its GPUs and its part of them, as plain JSON values."""
    item = placed_item(placed.pod, info)
    places: dict[str, tuple[int, str | None]] = {device.uuid: (device.index, None) for device in info.devices}
    places |= {
        each.uuid: (device.index, each.profile) for device in info.devices for each in device.mig.instances
    }
    devices = []
    for held in item["devices"]:
        index, profile = places.get(held["uuid"], (None, None))
        devices.append(held | {"index": index, "profile": profile})
    kept = ("namespace", "name", "uid", "node", "state", "priority", "asks")
    return {key: item[key] for key in kept} | {
        "gpus": placed.gpus,
        "requestedMiB": placed.requested_mib,
        "usedMiB": placed.used_mib,
        "since": placed.since,
        "devices": devices,
    }
