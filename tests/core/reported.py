"""Reports, pods and nodes as values, with defaults for irrelevant parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler_ext.core.gpu.gpu import Device, Memory, Mig, MigInstance, Report
from scheduler_ext.core.gpu.mig_geometry import geometry_for
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import BoundPod, NodeInfo, Slot
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import (
    ContainerRequest,
    ContainerRole,
    GpuRequest,
    UnparsedRequest,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames

NAMES = ResourceNames()
WHOLE = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
ONE_G = "nvidia.com/mig-1g.10gb"
SHARE = "gpu.scheduler-ext.io/memory-mib"
A100 = canonical_model("A100-80GB")
PROFILE_SIZES = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "7g.80gb": 8}


def device(index: int, **fields: Any) -> Device:
    """An empty A100 of 80 GB, GPU-<index>."""
    plain = Device(f"GPU-{index}", index, "nvidia", "NVIDIA A100-SXM4-80GB", A100, (8, 0), Memory(81920))
    return replace(plain, **fields)


def sliced(*instances: tuple[str, int], holders: dict[int, Any] | None = None) -> Mig:
    """MIG with these (profile, start) instances, MIG-<start>; `holders` by start."""
    return Mig(
        enabled=True,
        geometry=geometry_for("A100-80GB"),
        instances=tuple(
            MigInstance(f"MIG-{start}", profile, start, PROFILE_SIZES[profile], (holders or {}).get(start))
            for profile, start in instances
        ),
    )


def ask(*containers: ContainerRequest) -> GpuRequest:
    """The request of a pod of these containers."""
    request = parse_request(UnparsedRequest("ns", "p", "u", 0, {}, containers), NAMES)
    assert isinstance(request, GpuRequest), request
    return request


def wants(
    amount: int, resource: str, container: str = "main", role: ContainerRole = ContainerRole.APP
) -> ContainerRequest:
    """A container that asks for one resource."""
    return ContainerRequest(container, role, {}, {resource: str(amount)})


def bound(name: str, *containers: ContainerRequest, **fields: Any) -> BoundPod:
    """A pod on the node, ns/<name>, uid-<name>."""
    return replace(BoundPod(f"uid-{name}", "ns", name, 0, ask(*containers)), **fields)


def node(
    *devices: Device, pods: tuple[BoundPod, ...] = (), report: dict[str, Any] | None = None, **fields: Any
) -> NodeInfo:
    """A node that reported these devices."""
    return NodeInfo("n", report=Report(devices, **(report or {})), pods=pods, **fields)


def slots(info: NodeInfo) -> dict[str | None, Slot]:
    """Slots by UUID."""
    found = resolve(info, NAMES, 10)
    return dict(zip(found.uuids, found.state.slots, strict=True))


def free_units(info: NodeInfo) -> dict[str | None, dict[str, int]]:
    """Free units per UUID and resource name."""
    return {uuid: {unit.resource: unit.free for unit in slot.units} for uuid, slot in slots(info).items()}
