"""Slices, classes and claims as NVIDIA's DRA driver and kube-scheduler write them."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.dra.published import (
    Claim,
    ClaimedDevice,
    DeviceClass,
    DeviceFacts,
    DeviceId,
    DeviceRequirements,
    PublishedDevice,
    RequestedDevices,
    ResourceSlice,
)
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.core.intree.affinity import Taint
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.dra.device_selector import DeviceSelector

DRIVER = "gpu.nvidia.com"
WHOLE = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
IS_GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
IS_MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
GPU_CLASS = DeviceClass("gpu.nvidia.com", (IS_GPU,), WHOLE)
MIG_CLASS = DeviceClass("mig.nvidia.com", (IS_MIG,))


def gpu(
    index: int, product: str = "NVIDIA H100 80GB HBM3", memory: str = "81559Mi", *taints: Taint
) -> PublishedDevice:
    return PublishedDevice(
        f"gpu-{index}",
        DeviceFacts(
            DRIVER,
            {
                "type": "gpu",
                "uuid": f"GPU-{index}",
                "productName": product,
                "cudaComputeCapability": parse_version("9.0.0"),
                "driverVersion": parse_version("580.95.5"),
                "cudaDriverVersion": parse_version("13.0.0"),
                "resource.kubernetes.io/pciBusID": f"0000:0{index}:00.0",
            },
            {"memory": memory},
        ),
        taints=taints,
    )


def instance(index: int, parent: int = 0, profile: str = "1g.10gb") -> PublishedDevice:
    facts = DeviceFacts(
        DRIVER,
        {
            "type": "mig",
            "uuid": f"MIG-{index}",
            "parentUUID": f"GPU-{parent}",
            "profile": profile,
            "productName": "NVIDIA H100 80GB HBM3",
        },
        {"memory": "9728Mi", f"memorySlice{index}": "1"},
    )
    return PublishedDevice(f"gpu-{parent}-mig-{index}", facts)


def one_slice(
    node: str | None,
    devices: Sequence[PublishedDevice],
    *,
    name: str = "",
    generation: int = 1,
    slices: int = 1,
) -> ResourceSlice:
    pool = node or "pool"
    return ResourceSlice(
        name or f"{pool}-{generation}", DRIVER, pool, generation, slices, node, tuple(devices)
    )


def claim(
    name: str,
    *devices: str,
    node: str = "node",
    pod: str | None = None,
    extended: bool = False,
) -> Claim:
    return Claim(
        uid=f"uid-{name}",
        namespace="default",
        name=name,
        devices=tuple(ClaimedDevice(DeviceId(DRIVER, node, device)) for device in devices),
        pods=((pod or f"pod-{name}", pod or f"pod-{name}"),),
        node=node,
        extended=extended,
    )


def waiting(name: str, ask: DeviceRequirements, count: int = 1) -> Claim:
    return Claim(uid=f"uid-{name}", namespace="default", name=name, requests=(RequestedDevices(ask, count),))


def index_of(*items: ResourceSlice | DeviceClass | Claim) -> DeviceIndex:
    index = DeviceIndex(DeviceSelector, ResourceNames())
    for item in items:
        if isinstance(item, ResourceSlice):
            index.update_slice(item)
        elif isinstance(item, DeviceClass):
            index.update_class(item)
        else:
            index.update_claim(item)
    index.settle()
    return index
