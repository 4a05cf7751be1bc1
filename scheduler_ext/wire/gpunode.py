"""GPUNode `gpu.scheduler-ext.io/v1alpha1` as written: a node's report about its GPUs, field by field. Sizes
and starts of MIG profiles and instances are units of the device's placement grid."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

import msgspec
import msgspec.structs
from msgspec import Meta, Struct

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.gpu.mig_profile import MAX_GRID
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_answer

API_VERSION = "gpu.scheduler-ext.io/v1alpha1"

# MiB, bounded so that sums over a node fit into 32 bits.
Mib = Annotated[int, Meta(ge=0, le=2**24)]
Units = Annotated[int, Meta(ge=0, le=MAX_GRID)]
Percent = Annotated[int, Meta(ge=0, le=100)]
# Limits of measured values. A year: longer says no more.
MAX_IDLE_S = 31_536_000
MAX_WATTS = MAX_MHZ = MAX_XID = 100_000
MAX_COUNT, MAX_XIDS = 2**31 - 1, 64
IdleSeconds = Annotated[int, Meta(ge=0, le=MAX_IDLE_S)]
# No decision reads it: a word that only a newer agent knows refuses no report.
ThrottleReason = Annotated[str, Meta(pattern=r"^[A-Z][A-Za-z0-9]{0,39}\Z")]


def _spelling(name: str) -> str:
    """camelCase, with the acronyms in the fields: totalMiB, smClockMHz, bootID."""
    first, *rest = name.split("_")
    return first + "".join(
        {"mib": "MiB", "mhz": "MHz", "id": "ID"}.get(word, word.capitalize()) for word in rest
    )


class _StatusPart(Struct, rename=_spelling, gc=False, omit_defaults=True):
    """Base of the report's parts; null means absent, and absent fields are not written."""

    def but(self, **fields: Any) -> Self:
        """A copy with these fields changed."""
        return msgspec.structs.replace(self, **fields)


class HolderStatus(_StatusPart):
    """`idle_seconds` is the time since its processes last computed, `peak_mib` the most memory that they ever
    used."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    memory_mib: Mib | None = None
    idle_seconds: IdleSeconds | None = None
    peak_mib: Mib | None = None

    def unmeasured(self) -> Self:
        """The holder alone."""
        return self.but(memory_mib=None, idle_seconds=None, peak_mib=None)


class InstanceStatus(_StatusPart):
    """An existing MIG instance; it has no `start` and `size` if the agent may not read them."""

    uuid: str
    profile: str
    start: Units | None = None
    size: Annotated[int, Meta(ge=1, le=MAX_GRID)] | None = None
    utilization_percent: Percent | None = None
    idle_seconds: IdleSeconds | None = None
    holder: HolderStatus | None = None


class ProfileStatus(_StatusPart):
    name: str
    size: Units
    starts: list[Units]
    max_instances: Annotated[int, Meta(ge=0, le=64)]
    memory_mib: Mib | None = None


class MigStatus(_StatusPart):
    enabled: bool | None = None
    creatable: bool | None = None
    grid_size: Units | None = None
    profiles: list[ProfileStatus] | None = None
    instances: list[InstanceStatus] | None = None


class MemoryStatus(_StatusPart):
    """A device's memory in MiB; `used` excludes `reserved` as in NVML v2."""

    total_mib: Mib
    reserved_mib: Mib | None = None
    used_mib: Mib | None = None
    unaccounted_mib: Mib | None = None


class HealthStatus(_StatusPart):
    state: Literal["Healthy", "Unhealthy"] | None = None
    reason: str | None = None
    recovery: Literal["Quiet", "GPUReset", "Reboot"] | None = None
    last_error_at: str | None = None
    reset_pending: bool | None = None


class XidCount(_StatusPart):
    """How often an XID error occurred since the node booted."""

    xid: Annotated[int, Meta(ge=1, le=MAX_XID)]
    count: Annotated[int, Meta(ge=1, le=MAX_COUNT)]


class DeviceStatus(_StatusPart):
    """One GPU. Percentages and power are means of about a minute."""

    uuid: str
    index: Annotated[int, Meta(ge=0, le=1023)]
    memory: MemoryStatus
    vendor: str | None = None
    model: str | None = None
    product: str | None = None
    architecture: str | None = None
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]{1,2}\.[0-9]{1,2}\Z")] | None = None
    utilization_percent: Percent | None = None
    memory_utilization_percent: Percent | None = None
    power_watts: Annotated[int, Meta(ge=0, le=MAX_WATTS)] | None = None
    temperature_celsius: Annotated[int, Meta(ge=-50, le=250)] | None = None
    sm_clock_mhz: Annotated[int, Meta(ge=0, le=MAX_MHZ)] | None = None
    throttle_reasons: list[ThrottleReason] | None = None
    idle_seconds: IdleSeconds | None = None
    xids: list[XidCount] | None = None
    health: HealthStatus | None = None
    numa_node: int | None = None
    pci_bus_id: str | None = None
    mig: MigStatus | None = None
    holders: list[HolderStatus] | None = None


NOT_MEASURED: Mapping[str, None] = dict.fromkeys(
    (
        *("utilization_percent", "memory_utilization_percent", "power_watts", "temperature_celsius"),
        *("sm_clock_mhz", "throttle_reasons", "idle_seconds", "xids"),
    )
)
"""The fields of a DeviceStatus that change from moment to moment, without values."""


class SharingStatus(_StatusPart):
    strategy: Literal["none", "time-slicing", "mps"] | None = None
    replicas: Annotated[int, Meta(ge=1, le=1000)] | None = None


class GpuNodeStatus(_StatusPart):
    """The observations of a node's agent."""

    devices: list[DeviceStatus] | None = None
    reported_at: str | None = None
    sequence: Annotated[int, Meta(ge=0)] | None = None
    boot_id: str | None = None
    driver_version: str | None = None
    cuda_version: Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}\Z")] | None = None
    mig_strategy: Literal["none", "single", "mixed"] | None = None
    sharing: SharingStatus | None = None


class SummaryStatus(_StatusPart):
    """Columns of `kubectl get`: they must agree with the devices, and are not read."""

    gpus: int
    healthy: int
    model: str | None = None
    memory_used_percent: int | None = None


class WrittenStatus(GpuNodeStatus):
    summary: SummaryStatus | None = None


class ManagedFields(kube.KubeStruct):
    subresource: str | None = None
    time: str | None = None


class GpuNodeMeta(kube.ObjectMeta):
    managed_fields: list[ManagedFields] | None = None


class GpuNode(_StatusPart):
    metadata: GpuNodeMeta | None = None
    status: GpuNodeStatus | None = None


def summarised(status: GpuNodeStatus, summary: SummaryStatus) -> WrittenStatus:
    """A status that was read, in the form that is written."""
    return WrittenStatus(**{**msgspec.structs.asdict(status), "summary": summary})


def object_body(name: str, node_uid: str | None) -> bytes:
    """The server-side apply that creates a node's GPUNode as a dependent of its Node."""
    metadata = {"name": name, **({"ownerReferences": [kube.node_owner(name, node_uid)]} if node_uid else {})}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": metadata})


def status_body(name: str, status: WrittenStatus) -> bytes:
    """The server-side apply that reports a status."""
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": {"name": name}, "status": status}
    )


def plain(name: str, status: WrittenStatus) -> dict[str, Any]:
    """The object as plain JSON values."""
    return msgspec.json.decode(status_body(name, status), type=dict[str, Any])


read_gpu_node = partial(decode_answer, GpuNode)


class _Number(_StatusPart):
    sequence: int | None = None
    boot_id: str | None = None


class _Numbered(_StatusPart):
    status: _Number | None = None


def read_last_status(body: bytes) -> tuple[GpuNodeStatus | None, str | None]:
    """The status of a GPUNode and None; of one with a value that this release does not know, only its
    number, and the problem. Raises ClusterError if even the number cannot be read."""
    try:
        return read_gpu_node(body).status, None
    except ClusterError as error:
        number = decode_answer(_Numbered, body).status or _Number()
        return GpuNodeStatus(sequence=number.sequence, boot_id=number.boot_id), str(error)


def read_annotations(body: bytes) -> dict[str, str]:
    """The annotations of an object from the API server; empty if it cannot be read."""
    try:
        metadata = msgspec.json.decode(body, type=kube.Header).metadata
    except msgspec.MsgspecError:
        return {}
    return kube.strings(metadata.annotations) if metadata is not None else {}
