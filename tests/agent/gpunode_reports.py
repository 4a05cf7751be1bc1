"""Statuses of GPUNodes: correct ones, and mistaken ones."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from tests.kube_objects import Json, gpu
from tests.wire.reports.gpunode_status import read


def reader_refusal(status: Json) -> str:
    """The reader's objection to a status; empty if it accepts it."""
    try:
        read(status)
    except InventoryError as error:
        return str(error)
    return ""


def instance(uuid: str, start: int, size: int = 1, profile: str = "1g.10gb") -> Json:
    return {"uuid": uuid, "profile": profile, "start": start, "size": size}


def with_mig(*instances: Json, **mig: Any) -> Json:
    return {"devices": [gpu(0, mig={"enabled": True, "gridSize": 8, "instances": [*instances]} | mig)]}


def profile(name: str = "1g.10gb", size: int = 1, starts: tuple[int, ...] = (0, 1), most: int = 7) -> Json:
    return {"name": name, "size": size, "starts": [*starts], "maxInstances": most}


def without(field: str) -> Json:
    return {"devices": [{key: value for key, value in gpu(0).items() if key != field}]}


def with_summary(**fields: Any) -> Json:
    devices = [gpu(0), gpu(1, model="T4", health={"state": "Unhealthy"})]
    devices[0]["memory"] |= {"usedMiB": 40960}
    return {"devices": devices, "summary": summary_of(devices) | fields}


def summary_of(devices: list[Json]) -> Json:
    """The summary that goes with the devices of a report that name their models."""
    total = sum(device["memory"]["totalMiB"] for device in devices)
    used = sum(device["memory"].get("usedMiB", 0) for device in devices)
    models = ", ".join(sorted({device["model"] for device in devices}))
    return {
        "gpus": len(devices),
        "healthy": sum(device.get("health", {}).get("state") != "Unhealthy" for device in devices),
        "memoryUsedPercent": used * 100 // total if total else 0,
    } | ({"model": models} if models else {})


def status_of(report: Report) -> Json:
    """The status that an agent would write for a report."""
    devices = list(map(_device, report.devices))
    return {
        "cudaVersion": ".".join(map(str, report.cuda_version)) if report.cuda_version else None,
        "migStrategy": report.mig_strategy,
        "sharing": {"strategy": report.sharing_strategy, "replicas": report.replicas},
        "summary": summary_of(devices),
        "devices": devices,
    }


def _device(device: Device) -> Json:
    capability = device.compute_capability
    memory = device.memory
    return {
        "uuid": device.uuid,
        "index": device.index,
        "vendor": device.vendor,
        "model": device.model.name,
        "product": device.product,
        "computeCapability": f"{capability[0]}.{capability[1]}" if capability else None,
        "memory": {
            "totalMiB": memory.total_mib,
            "reservedMiB": memory.reserved_mib,
            "usedMiB": memory.used_mib,
            "unaccountedMiB": memory.unaccounted_mib,
        },
        "health": {
            "state": "Healthy" if device.healthy else "Unhealthy",
            "reason": device.health_reason or None,
        },
        "holders": list(map(_holder, device.holders)),
        "mig": _mig(device) if device.mig.enabled else None,
    }


def _mig(device: Device) -> Json:
    geometry = device.mig.geometry
    return {
        "enabled": True,
        "creatable": device.mig.creatable,
        "gridSize": geometry.grid if geometry else None,
        "profiles": [
            {
                "name": profile.name,
                "size": profile.size,
                "starts": list(profile.starts),
                "maxInstances": profile.max_instances,
                "memoryMiB": profile.memory_mib,
            }
            for profile in (geometry.profiles if geometry else ())
        ],
        "instances": [
            {
                "uuid": instance.uuid,
                "profile": instance.profile,
                "start": instance.start,
                "size": instance.size,
                "holder": _holder(instance.holder) if instance.holder else None,
            }
            for instance in device.mig.instances
        ],
    }


def _holder(holder: Holder) -> Json:
    return {
        "uid": holder.uid,
        "namespace": holder.namespace,
        "name": holder.name,
        "container": holder.container,
        "memoryMiB": holder.memory_mib,
    }
