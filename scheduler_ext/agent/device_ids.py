"""UUIDs from the ids by which device plugins name GPUs, MIG instances and their replicas.

Sources: NVIDIA/k8s-device-plugin internal/rm (UUIDs, ``<id>::<replica>``), GKE's device plugin
(``nvidia0/gi3/vgpu1``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading

# Limit of a GPUNode.
MAX_REPLICAS = 1000

# Up to 9 digits: no device has a longer number.
_GKE = re.compile(r"nvidia([0-9]{1,9})(?:/gi([0-9]{1,9}))?")
_GKE_REPLICA = re.compile(r"(nvidia[0-9]{1,9}(?:/gi[0-9]{1,9})?)/vgpu[0-9]{1,9}")
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/([0-9]{1,9})/[0-9]{1,9}")
_INDEX = re.compile(r"[0-9]{1,9}")
# KubeVirt's plugin numbers IOMMU groups, under names such as nvidia.com/GA102GL_A10.
_INDEXED = ("nvidia.com/gpu", "nvidia.com/gpu.shared")


@dataclass(frozen=True, slots=True)
class Place:
    """The meaning of a device id: a device, or one MIG instance of it, by their UUIDs."""

    device: str
    instance: str | None = None


class DeviceIds:
    """The ids of one reading's devices and instances."""

    def __init__(self, reading: NodeReading) -> None:
        self._by_uuid = {device.uuid: device for device in reading.devices}
        self._by_minor = {device.minor: device for device in reading.devices if device.minor is not None}
        self._by_index = {device.index: device for device in reading.devices}
        self._instances = {
            instance.uuid: Place(device.uuid, instance.uuid)
            for device in reading.devices
            for instance in device.instances
        }

    def place(self, resource: str, device_id: str) -> Place | None:
        """The meaning of an id of a resource name; None if no device or instance of the reading has it."""
        name = without_replica(device_id)
        if name in self._by_uuid:
            return Place(name)
        if name in self._instances:
            return self._instances[name]
        if match := _OLD_MIG.fullmatch(name):
            return _instance_place(self._by_uuid.get(match[1]), int(match[2]))
        if match := _GKE.fullmatch(name):
            device = self._numbered(int(match[1]))
            if match[2] is not None:
                return _instance_place(device, int(match[2]))
            return Place(device.uuid) if device else None
        if _INDEX.fullmatch(name) and resource in _INDEXED:
            indexed = self._by_index.get(int(name))
            return Place(indexed.uuid) if indexed else None
        return None

    def _numbered(self, number: int) -> DeviceReading | None:
        """The device of /dev/nvidiaN; by NVML's index only if its minor number could not be read."""
        device = self._by_minor.get(number)
        if device is None:
            indexed = self._by_index.get(number)
            device = indexed if indexed is not None and indexed.minor is None else None
        return device


def without_replica(device_id: str) -> str:
    """The id that a replica shares; other ids unchanged."""
    name = device_id.split("::", 1)[0]
    match = _GKE_REPLICA.fullmatch(name)
    return match[1] if match else name


def sharing_replicas(allocatable: Mapping[str, Iterable[str]] | None) -> int | None:
    """The largest number of replicas that a GPU or an instance is offered as; None if none is shared.

    ``allocatable`` has device ids by resource name, or is None if unknown.
    """
    replicas: dict[str, set[str]] = {}
    for ids in (allocatable or {}).values():
        for device_id in ids:
            name = without_replica(device_id)
            if name != device_id:
                replicas.setdefault(name, set()).add(device_id)
    return min(MAX_REPLICAS, max(map(len, replicas.values()))) if replicas else None


def _instance_place(device: DeviceReading | None, gpu_instance_id: int) -> Place | None:
    """The instance with that number; None if several compute instances share it."""
    found: list[InstanceReading] = []
    if device is not None:
        found = [i for i in device.instances if i.gpu_instance_id == gpu_instance_id]
    return Place(device.uuid, found[0].uuid) if device is not None and len(found) == 1 else None
