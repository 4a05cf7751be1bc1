"""The status of a large cluster's GPUNode, as from an agent: H100s, some held by a pod."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.large.large_pod import LargePod, managed
from tests.kube_objects import Json

_TOTAL_MIB = 81559
_USED_MIB = 61440


def report(index: int, uuids: Sequence[str], holders: Sequence[LargePod | None]) -> Json:
    """A node's status; `holders` has the pod that holds each device, None for a free one."""
    devices = [
        _device(number, uuid, holder)
        for number, (uuid, holder) in enumerate(zip(uuids, holders, strict=True))
    ]
    used = sum(device["memory"]["usedMiB"] for device in devices)
    summary: Json = {"gpus": len(devices), "healthy": len(devices), "memoryUsedPercent": 0}
    if devices:
        summary |= {"model": "H100-80GB", "memoryUsedPercent": used * 100 // (len(devices) * _TOTAL_MIB)}
    return {
        "reportedAt": "2026-11-20T13:10:16Z",
        "sequence": 1000 + index,
        "bootID": f"{index:08x}-1111-4000-8000-000000000b07",
        "driverVersion": "570.124.06",
        "cudaVersion": "12.8",
        "migStrategy": "none",
        "sharing": {"strategy": "none", "replicas": 1},
        "summary": summary,
        "devices": devices,
    }


def _device(number: int, uuid: str, holder: LargePod | None) -> Json:
    held: Json = {}
    if holder is not None:
        name = {"namespace": holder.namespace, "name": holder.name, "container": "main"}
        held = {"holders": [{"uid": holder.uid} | name]}
    used_mib = _USED_MIB if holder else 0
    return {
        "uuid": uuid,
        "index": number,
        "vendor": "nvidia",
        "model": "H100-80GB",
        "product": "NVIDIA H100 80GB HBM3",
        "architecture": "hopper",
        "computeCapability": "9.0",
        "memory": {"totalMiB": _TOTAL_MIB, "reservedMiB": 551, "usedMiB": used_mib, "unaccountedMiB": 0},
        "utilizationPercent": 97 if holder else 0,
        "memoryUtilizationPercent": 61 if holder else 0,
        "temperatureCelsius": 64 if holder else 31,
        "powerWatts": 640 if holder else 72,
        "smClockMHz": 1980 if holder else 345,
        "idleSeconds": 0 if holder else 86_400,
        "health": {"state": "Healthy"},
        "numaNode": number // 4 % 2,
        "pciBusID": f"00000000:{0x1B + number:02X}:00.0",
        "mig": {"enabled": False, "creatable": False},
    } | held


def managed_fields(status: Json) -> Json:
    """The entry of metadata.managedFields from the agent's apply."""
    devices = [dict.fromkeys(device) | {"uuid": device["uuid"]} for device in status["devices"]]
    fields = {"status": dict.fromkeys(status) | {"devices": devices}}
    version = "gpu.scheduler-ext.io/v1alpha1"
    return managed("scheduler-ext-agent", "Apply", status["reportedAt"], fields, version)
