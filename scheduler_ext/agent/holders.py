"""The holders of each GPU and instance: containers by the kubelet's allocation, pods by their processes."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_ext.agent.device_plugin import DeviceIds, DeviceReference
from scheduler_ext.agent.fitting import LABEL, POD_NAME, matching
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading, Process
from scheduler_ext.agent.pod_resources import Allocation
from scheduler_ext.agent.processes import NOT_A_POD
from scheduler_ext.wire.gpunode import HolderStatus

# The UID of a PID's pod, as in Processes.pod_of.
PodOf = Callable[[int], str | None]

# Limits of a GPUNode's holders. A name outside them is left out; its holder is kept.
MAX_HOLDERS = 1000
_UID = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True, slots=True)
class DeviceHolders:
    """The holders of one device and, by UUID, of its instances; memory used outside pods in MiB, None if
    unknown. A holder's memory is the known use of its processes, None for what the kubelet allocated of a
    device; of an instance, it is that of the only pod which uses it."""

    holders: tuple[HolderStatus, ...] = ()
    instances: Mapping[str, HolderStatus] = field(default_factory=dict)
    unaccounted_mib: int | None = None


def find_holders(
    reading: NodeReading, allocations: Iterable[Allocation] | None, pod_of: PodOf | None
) -> dict[str, DeviceHolders]:
    """The holders of every device, by UUID; equal for equal readings, in whatever order they were read.

    `allocations` is None if PodResources does not answer. `pod_of` returns the pod of a PID, and is
    None if the host's processes are invisible.

    A device has one holder for each id that a container was given, so that a container with two replicas of a
    GPU appears twice, then one for each pod with processes on it. The kubelet knows names, processes lead to
    UIDs: the same pod may appear by name without memory and by UID with memory, and only a reader that knows
    the pods can join the two. An instance has one holder: the container that was given it, with the memory of
    the pod that uses it, if there is one of each; otherwise the pod that uses most."""
    ids = DeviceIds(reading)
    given: dict[DeviceReference, list[HolderStatus]] = {}
    for allocation in sorted(allocations or ()):
        holder = HolderStatus(
            namespace=matching(LABEL, allocation.namespace),
            name=matching(POD_NAME, allocation.pod),
            container=matching(LABEL, allocation.container),
        )
        for device_id in sorted(set(allocation.device_ids)):
            place = ids.place(allocation.resource, device_id)
            if place is not None:
                given.setdefault(place, []).append(holder)
    return {device.uuid: _holders_of(device, given, pod_of) for device in reading.devices}


def _holders_of(
    device: DeviceReading, given: Mapping[DeviceReference, list[HolderStatus]], pod_of: PodOf | None
) -> DeviceHolders:
    holders = list(given.get(DeviceReference(device.uuid), ()))
    instances = {}
    used_by_pods_mib = []
    for instance in device.instances:
        pods, pods_mib = _use(instance.processes, pod_of, device.total_mib)
        used_by_pods_mib.append(pods_mib)
        pods.sort(key=lambda pod: -(pod.memory_mib or 0))
        here = given.get(DeviceReference(device.uuid, instance.uuid), [])
        if len(pods) == 1 and len({(each.namespace, each.name) for each in here}) == 1:
            instances[instance.uuid] = here[0].but(memory_mib=pods[0].memory_mib)
        elif users := here + pods:
            instances[instance.uuid] = users[0]
    # The processes of a partitioned device are those of its instances.
    if not device.instances:
        pods, pods_mib = _use(device.processes, pod_of, device.total_mib)
        used_by_pods_mib.append(pods_mib)
        holders += pods
    # The memory of processes of the host, or of no visible process. At least 0: NVML reads its numbers one
    # after the other, and processes may share memory.
    unaccounted_mib = device.used_mib
    for mib in used_by_pods_mib:
        unaccounted_mib = None if unaccounted_mib is None or mib is None else max(0, unaccounted_mib - mib)
    return DeviceHolders(tuple(holders[:MAX_HOLDERS]), instances, unaccounted_mib)


def _use(
    processes: Iterable[Process] | None, pod_of: PodOf | None, total_mib: int
) -> tuple[list[HolderStatus], int | None]:
    """The pods that use a device or an instance, and the sum of their processes' memory in MiB; None as soon
    as the pod or the memory of one process is unknown. A pod's use is the known use of its processes, at most
    the total (0: unknown): processes may share memory."""
    if processes is None or pod_of is None:
        return [], None
    pods: dict[str, int] = {}
    all_known = True
    for process in processes:
        pod = pod_of(process.pid)
        all_known = all_known and pod is not None and process.used_mib is not None
        if pod is not None and pod != NOT_A_POD:
            pods[pod] = pods.get(pod, 0) + (process.used_mib or 0)
    holders = [
        HolderStatus(uid=matching(_UID, uid), memory_mib=min(used, total_mib or used))
        for uid, used in sorted(pods.items())
    ]
    return holders, sum(pods.values()) if all_known else None
