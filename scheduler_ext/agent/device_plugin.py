"""How the device plugin offers a node's GPUs, and the UUIDs behind its ids of GPUs and MIG instances.
Sources: NVIDIA/k8s-device-plugin internal/rm (UUIDs, `<id>::<replica>`), GKE's device plugin
(`nvidia0/gi3/vgpu1`)."""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from scheduler_ext.agent.node_reading import DeviceReading, NodeReading
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.node import node_labels
from scheduler_ext.core.node.node_labels import MAX_REPORTED_REPLICAS
from scheduler_ext.wire.gpunode import SharingStatus

# Up to 9 digits: no device has a longer number.
_GKE = re.compile(r"nvidia([0-9]{1,9})(?:/gi([0-9]{1,9}))?")
_GKE_REPLICA = re.compile(r"(nvidia[0-9]{1,9}(?:/gi[0-9]{1,9})?)/vgpu[0-9]{1,9}")
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/([0-9]{1,9})/[0-9]{1,9}")
_INDEX = re.compile(r"[0-9]{1,9}")
# KubeVirt's plugin numbers IOMMU groups, under names such as nvidia.com/GA102GL_A10.
_INDEXED = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
# Device ids by resource name, as the kubelet was offered them.
Allocatable = Mapping[str, Iterable[str]]


class DeviceReference(NamedTuple):
    """The meaning of a device id: a device, or one MIG instance of it, by their UUIDs."""

    device: str
    instance: str | None = None


class DeviceIds:
    """The device ids that the device plugin may use for the devices of a reading."""

    def __init__(self, reading: NodeReading) -> None:
        self._by_uuid = {device.uuid: device for device in reading.devices}
        # The N of /dev/nvidiaN: NVML's index only if the minor number could not be read.
        self._by_number = {device.index: device for device in reading.devices if device.minor is None}
        self._by_number |= {device.minor: device for device in reading.devices if device.minor is not None}
        self._by_index = {device.index: device for device in reading.devices}
        self._instances = {
            instance.uuid: DeviceReference(device.uuid, instance.uuid)
            for device in reading.devices
            for instance in device.instances
        }

    def place(self, resource: str, device_id: str) -> DeviceReference | None:
        """The meaning of an id of a resource name; None if no device or instance of the reading has it."""
        name = without_replica(device_id)
        if name in self._by_uuid:
            return DeviceReference(name)
        if name in self._instances:
            return self._instances[name]
        if match := _OLD_MIG.fullmatch(name):
            return _instance_place(self._by_uuid.get(match[1]), int(match[2]))
        if match := _GKE.fullmatch(name):
            device = self._by_number.get(int(match[1]))
            if match[2] is not None:
                return _instance_place(device, int(match[2]))
            return DeviceReference(device.uuid) if device else None
        if _INDEX.fullmatch(name) and resource in _INDEXED:
            indexed = self._by_index.get(int(name))
            return DeviceReference(indexed.uuid) if indexed else None
        return None


def without_replica(device_id: str) -> str:
    """The id that a replica shares; other ids unchanged."""
    name = device_id.split("::", 1)[0]
    match = _GKE_REPLICA.fullmatch(name)
    return match[1] if match else name


def _instance_place(device: DeviceReading | None, gpu_instance_id: int) -> DeviceReference | None:
    """The instance with that number; None if several compute instances share it."""
    found = [i for i in device.instances if i.gpu_instance_id == gpu_instance_id] if device else []
    return DeviceReference(device.uuid, found[0].uuid) if device and len(found) == 1 else None


def mig_strategy(labels: Mapping[str, str], allocatable: Allocatable | None) -> str | None:
    """none, single or mixed. None if no source says so; then it depends on whether any GPU has MIG on."""
    label = labels.get("nvidia.com/mig.strategy", "").lower()
    if label in ("single", "mixed"):
        return label
    if not allocatable:
        return "none" if label == "none" else None
    if any(resource.startswith(MIG_PREFIX) for resource in allocatable):
        return "mixed"
    whole = [device for name in _INDEXED for device in allocatable.get(name, ())]
    if any(device.startswith("MIG-") for device in whole):
        return "single"
    return "none" if whole else None


def sharing_replicas(allocatable: Allocatable | None) -> int | None:
    """The largest number of replicas that a GPU or an instance is offered as; None if none is shared."""
    replicas: dict[str, set[str]] = {}
    for device_id in chain.from_iterable((allocatable or {}).values()):
        if (name := without_replica(device_id)) != device_id:
            replicas.setdefault(name, set()).add(device_id)
    return min(MAX_REPORTED_REPLICAS, max(map(len, replicas.values()))) if replicas else None


def sharing(labels: Mapping[str, str], allocatable: Allocatable | None) -> SharingStatus | None:
    """How many pods may share a GPU, and by which means; None if GPUs are not shared."""
    strategy, replicas = node_labels.sharing(labels)
    offered = sharing_replicas(allocatable) or 1
    if strategy == "none" and offered < 2:
        return None
    # The kubelet knows the number and not the means. Labels without a strategy predate MPS.
    return SharingStatus(
        "mps" if strategy == "mps" else "time-slicing",
        offered if offered > 1 else min(replicas, MAX_REPORTED_REPLICAS),
    )
