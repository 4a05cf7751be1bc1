"""GPUNode ``gpu.scheduler-ext.io/v1alpha1`` as it is written: a node's report on its GPUs, field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import msgspec
import msgspec.structs
from msgspec import Meta, Struct

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.gpu.mig_profile import MAX_GRID
from scheduler_ext.wire import kube

API_VERSION = "gpu.scheduler-ext.io/v1alpha1"

# MiB bounded so that sums over a node stay inside 32 bits.
Mib = Annotated[int, Meta(ge=0, le=2**24)]
Units = Annotated[int, Meta(ge=0, le=MAX_GRID)]


def _spelling(name: str) -> str:
    """camelCase with the two capitals our fields have: totalMiB, bootID."""
    first, *rest = name.split("_")
    return first + "".join({"mib": "MiB", "id": "ID"}.get(word, word.capitalize()) for word in rest)


class _Status(Struct, rename=_spelling, gc=False, omit_defaults=True):
    """Base of the report's parts; null means absent, and what is absent is not written."""

    def but(self, **fields: Any) -> Self:
        """The same with these fields instead."""
        return msgspec.structs.replace(self, **fields)


class HolderStatus(_Status):
    """Who holds a device or an instance."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    memory_mib: Mib | None = None


class InstanceStatus(_Status):
    """A MIG instance that exists, in units of the device's placement grid; without its place where the agent
    may not read it."""

    uuid: str
    profile: str
    start: Units | None = None
    size: Annotated[int, Meta(ge=1, le=MAX_GRID)] | None = None
    holder: HolderStatus | None = None


class ProfileStatus(_Status):
    """A MIG profile the device supports, and where it can lie."""

    name: str
    size: Units
    starts: list[Units]
    max_instances: Annotated[int, Meta(ge=0, le=64)]
    memory_mib: Mib | None = None


class MigStatus(_Status):
    """A device's MIG mode, placements and instances."""

    enabled: bool | None = None
    creatable: bool | None = None
    grid_size: Units | None = None
    profiles: list[ProfileStatus] | None = None
    instances: list[InstanceStatus] | None = None


class MemoryStatus(_Status):
    """A device's memory in MiB, used without reserved as in NVML v2."""

    total_mib: Mib
    reserved_mib: Mib | None = None
    used_mib: Mib | None = None
    unaccounted_mib: Mib | None = None


class HealthStatus(_Status):
    """Whether a device can be used, why not, and what ends that; all but the first two is the agent's own."""

    state: Literal["Healthy", "Unhealthy"] | None = None
    reason: str | None = None
    recovery: Literal["Quiet", "GPUReset", "Reboot"] | None = None
    last_error_at: str | None = None
    reset_pending: bool | None = None


class DeviceStatus(_Status):
    """One GPU."""

    uuid: str
    index: Annotated[int, Meta(ge=0, le=1023)]
    memory: MemoryStatus
    vendor: str | None = None
    model: str | None = None
    product: str | None = None
    architecture: str | None = None
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]{1,2}\.[0-9]{1,2}\Z")] | None = None
    utilization_percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    health: HealthStatus | None = None
    numa_node: int | None = None
    pci_bus_id: str | None = None
    mig: MigStatus | None = None
    holders: list[HolderStatus] | None = None


class SharingStatus(_Status):
    """How the node's device plugin shares its GPUs."""

    strategy: Literal["none", "time-slicing", "mps"] | None = None
    replicas: Annotated[int, Meta(ge=1, le=1000)] | None = None


class GpuNodeStatus(_Status):
    """What a node's agent saw."""

    devices: list[DeviceStatus] | None = None
    reported_at: str | None = None
    sequence: Annotated[int, Meta(ge=0)] | None = None
    boot_id: str | None = None
    driver_version: str | None = None
    cuda_version: Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}\Z")] | None = None
    mig_strategy: Literal["none", "single", "mixed"] | None = None
    sharing: SharingStatus | None = None


class SummaryStatus(_Status):
    """What ``kubectl get`` shows of the devices; has to agree with them, and is not read."""

    gpus: int
    healthy: int
    model: str | None = None
    memory_used_percent: int | None = None


class WrittenStatus(GpuNodeStatus):
    """The same as it is written: with the summary, which nobody reads back."""

    summary: SummaryStatus | None = None


class OwnerReference(kube.KubeStruct):
    """OwnerReference of Kubernetes' API, as far as it is read."""

    kind: str | None = None
    uid: str | None = None


class ManagedFields(kube.KubeStruct):
    """ManagedFieldsEntry of Kubernetes' API, as far as it is read."""

    subresource: str | None = None
    time: str | None = None


class GpuNodeMeta(kube.ObjectMeta):
    """ObjectMeta with what tells whose report it is, and how old."""

    owner_references: list[OwnerReference] | None = None
    managed_fields: list[ManagedFields] | None = None


class GpuNode(_Status):
    """The object itself."""

    metadata: GpuNodeMeta | None = None
    status: GpuNodeStatus | None = None


def summarised(status: GpuNodeStatus, summary: SummaryStatus) -> WrittenStatus:
    """A status that was read, to be written."""
    return WrittenStatus(**{**msgspec.structs.asdict(status), "summary": summary})


def object_body(name: str, node_uid: str | None) -> bytes:
    """What creates a node's GPUNode by server-side apply, as a dependent of its Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    metadata = {"name": name, **({"ownerReferences": [owner]} if node_uid else {})}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": metadata})


def status_body(name: str, status: WrittenStatus) -> bytes:
    """What reports a status by server-side apply."""
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": {"name": name}, "status": status}
    )


def plain(name: str, status: WrittenStatus) -> dict[str, Any]:
    """The object as plain JSON values."""
    read: dict[str, Any] = msgspec.json.decode(status_body(name, status))
    return read


def read_gpu_node(body: bytes) -> GpuNode:
    """A GPUNode as the API server gives it. Raises ClusterError."""
    try:
        return msgspec.json.decode(body, type=GpuNode)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"a GPUNode that is none: {error}") from None


class _Annotated(kube.KubeStruct):
    """Any object, as far as its annotations."""

    metadata: kube.ObjectMeta | None = None


def read_annotations(body: bytes) -> dict[str, str]:
    """The annotations of an object as the API server gives it; none of one that cannot be read."""
    try:
        metadata = msgspec.json.decode(body, type=_Annotated).metadata
    except msgspec.MsgspecError:
        return {}
    return kube.strings(metadata.annotations) if metadata is not None else {}
