"""Statuses of GPUNodes: one with every field of the schema, small ones with MIG, and how they are read."""

from __future__ import annotations

import copy
import json
from typing import Any

from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import Json, gpu

FULL: Json = {
    "reportedAt": "2026-11-20T13:10:16Z",
    "sequence": 42,
    "bootID": "b7f3ed75",
    "driverVersion": "570.124.06",
    "cudaVersion": "12.8",
    "migStrategy": "mixed",
    "sharing": {"strategy": "none", "replicas": 1},
    "devices": [
        {
            "uuid": "GPU-0",
            "index": 0,
            "vendor": "nvidia",
            "model": "A100-80GB",
            "product": "NVIDIA A100-SXM4-80GB",
            "architecture": "ampere",
            "computeCapability": "8.0",
            "memory": {"totalMiB": 81920, "reservedMiB": 620, "usedMiB": 5000, "unaccountedMiB": 100},
            "utilizationPercent": 37,
            "temperatureCelsius": 61,
            "health": {"state": "Unhealthy", "reason": "XID 79"},
            "numaNode": 1,
            "pciBusID": "0000:07:00.0",
            "links": [{"peer": "GPU-1", "kind": "NV12"}],
            "mig": {
                "enabled": True,
                "creatable": False,
                "gridSize": 8,
                "profiles": [
                    {
                        "name": "1g.10gb",
                        "size": 1,
                        "starts": [0, 1, 2, 3, 4, 5, 6],
                        "maxInstances": 7,
                        "memoryMiB": 9728,
                    },
                    {"name": "3g.40gb", "size": 4, "starts": [0, 4], "maxInstances": 2, "memoryMiB": 40192},
                ],
                "instances": [
                    {"uuid": "MIG-a", "profile": "3g.40gb", "start": 0, "size": 4},
                    {
                        "uuid": "MIG-b",
                        "profile": "1g.10gb",
                        "start": 4,
                        "size": 1,
                        "holder": {"namespace": "ns", "name": "p"},
                    },
                ],
            },
            "holders": [
                {"uid": "u1", "namespace": "ns", "name": "p", "container": "main", "memoryMiB": 4000},
                {"namespace": "ns", "name": "q"},
            ],
        }
    ],
}


def instance(
    uuid: str = "MIG-a",
    start: int | None = 0,
    size: int | None = 1,
    profile: str = "1g.10gb",
    **more: Any,
) -> Json:
    return {"uuid": uuid, "profile": profile, "start": start, "size": size} | more


def with_mig(*instances: Json, **mig: Any) -> Json:
    """The status of one A100 in MIG mode."""
    return {"devices": [gpu(0, mig={"enabled": True, "gridSize": 8, "instances": [*instances]} | mig)]}


def read(status: Json | None, previous: NodeInfo | None = None) -> NodeInfo:
    """The node that a file with this one GPUNode makes."""
    document = {"kind": "GPUNode", "metadata": {"name": "n"}, "status": status}
    last = {"n": previous} if previous else None
    return assemble(read_objects(json.dumps(document).encode()), ResourceNames(), last)["n"]


def report_of(status: Json) -> Report:
    report = read(status).report
    assert report is not None
    return report


def changed(path: str, value: Any) -> Json:
    """FULL with one field changed; the path as the messages write it."""
    status = copy.deepcopy(FULL)
    *parents, last = path.replace("[", ".[").split(".")
    place: Any = status
    for part in parents:
        place = place[int(part[1:-1])] if part.startswith("[") else place[part]
    place[int(last[1:-1]) if last.startswith("[") else last] = value
    return status
