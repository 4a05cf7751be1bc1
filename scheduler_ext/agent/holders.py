"""Who holds each GPU and instance: what kubelet gave to containers, and what processes use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_ext.agent.device_ids import DeviceIds, Place
from scheduler_ext.agent.kubernetes_names import LABEL, POD_NAME
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading, Process
from scheduler_ext.agent.pod_resources import Allocation
from scheduler_ext.agent.processes import NotAPod

PodOf = Callable[[int], str | NotAPod | None]

# What a GPUNode may say of holders; a name that may not be there is left out, its holder is not.
MAX_HOLDERS = 1000
_UID = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True, slots=True)
class HolderReading:
    """Who holds a device or an instance.

    ``memory_mib`` is what its processes use, as far as known; None where kubelet gave it all, or a replica.
    """

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who holds one device and, by UUID, its instances; use by no pod in MiB, None where it is not known."""

    holders: tuple[HolderReading, ...] = ()
    instances: Mapping[str, HolderReading] = field(default_factory=dict)
    unaccounted_mib: int | None = None


def find_holdings(
    reading: NodeReading, allocations: Iterable[Allocation] | None, pod_of: PodOf | None
) -> dict[str, Holdings]:
    """Holdings of every device, by UUID; equal for equal readings, in whatever order things were read.

    ``allocations`` is None where PodResources does not answer. ``pod_of`` tells the pod of a PID, and is None
    where the host's processes cannot be seen.

    A device has one holder for each id that a container was given, so that a container with two replicas of a
    GPU is there twice, then one for each pod with processes on it. kubelet tells names, processes tell UIDs:
    the same pod may be there in both ways, by name without and by UID with its memory, and only who knows the
    pods can tell. An instance has one holder, the container that was given it, else the pod that uses most.
    """
    given = _given(reading, allocations or ())
    return {device.uuid: _holdings_of(device, given, pod_of) for device in reading.devices}


def _given(reading: NodeReading, allocations: Iterable[Allocation]) -> dict[Place, list[HolderReading]]:
    """Who was given what, in the order of names."""
    ids = DeviceIds(reading)
    given: dict[Place, list[HolderReading]] = {}
    for allocation in sorted(allocations, key=lambda a: (a.namespace, a.pod, a.container, a.resource)):
        holder = HolderReading(
            namespace=_allowed(LABEL, allocation.namespace),
            name=_allowed(POD_NAME, allocation.pod),
            container=_allowed(LABEL, allocation.container),
        )
        for device_id in sorted(set(allocation.device_ids)):
            place = ids.place(allocation.resource, device_id)
            if place is not None:
                given.setdefault(place, []).append(holder)
    return given


def _allowed(pattern: re.Pattern[str], text: str) -> str | None:
    return text if pattern.fullmatch(text) else None


def _holdings_of(
    device: DeviceReading, given: Mapping[Place, list[HolderReading]], pod_of: PodOf | None
) -> Holdings:
    holders = list(given.get(Place(device.uuid), ()))
    instances = {}
    uses = []
    for instance in device.instances:
        use = _use(instance.processes, pod_of, device.total_mib)
        uses.append(use)
        users = given.get(Place(device.uuid, instance.uuid), []) + _by_size(use.pods)
        if users:
            instances[instance.uuid] = users[0]
    # The processes of a partitioned device are those of its instances.
    if not device.instances:
        use = _use(device.processes, pod_of, device.total_mib)
        uses.append(use)
        holders += use.pods
    return Holdings(tuple(holders[:MAX_HOLDERS]), instances, _unaccounted(device, uses))


@dataclass(frozen=True, slots=True)
class _Use:
    """Pods that use a device or an instance, by UID, and what their processes use of it together in MiB."""

    pods: list[HolderReading]
    pods_mib: int | None


def _use(processes: Iterable[Process] | None, pod_of: PodOf | None, total_mib: int) -> _Use:
    """``pods_mib`` is None as soon as the pod or the memory of one process is not known.

    A pod uses what is known of its processes, and no more than there is: they may have memory in common.
    """
    if processes is None or pod_of is None:
        return _Use([], None)
    pods: dict[str, int] = {}
    all_known = True
    for process in processes:
        pod = pod_of(process.pid)
        all_known = all_known and pod is not None and process.used_mib is not None
        if isinstance(pod, str):
            pods[pod] = pods.get(pod, 0) + (process.used_mib or 0)
    return _Use(
        [
            HolderReading(uid=_allowed(_UID, uid), memory_mib=min(used, total_mib))
            for uid, used in sorted(pods.items())
        ],
        sum(pods.values()) if all_known else None,
    )


def _by_size(users: list[HolderReading]) -> list[HolderReading]:
    """The largest use first, equal ones in the order they have."""
    return sorted(users, key=lambda user: -(user.memory_mib or 0))


def _unaccounted(device: DeviceReading, uses: Iterable[_Use]) -> int | None:
    """What is used beyond what pods' processes use: by the host's, or by none, and so by no pod.

    At least 0: NVML reads its numbers one after the other, and processes may have memory in common.
    """
    unaccounted_mib = device.used_mib
    for use in uses:
        if unaccounted_mib is None or use.pods_mib is None:
            return None
        unaccounted_mib = max(0, unaccounted_mib - use.pods_mib)
    return unaccounted_mib
