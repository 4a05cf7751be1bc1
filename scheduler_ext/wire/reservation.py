"""GPUReservation `gpu.scheduler-ext.io/v1alpha1`: the intents of one node, bytes to values and back. An
object that is partly unreadable counts as broken as a whole, because an overlooked intent is memory that is
promised twice."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, profile_from_resource
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import MAX_SHARES, GpuRequest, InitShare, ShareRequest, UnitRequest
from scheduler_ext.wire.decoding import decode_answer
from scheduler_ext.wire.kube import Int32, KubeStruct, ObjectMeta, OwnerReference, node_owner, owner_uid

API_VERSION = "gpu.scheduler-ext.io/v1alpha1"
KIND = "GPUReservation"
STAMP_ANNOTATION = "gpu.scheduler-ext.io/written"
RESERVATIONS = "/apis/gpu.scheduler-ext.io/v1alpha1/gpureservations"

# More resources than any node has; the length of a qualified name (Kubernetes' validation).
_MAX_UNITS = 64
_MAX_RESOURCE = 317

_Name = Annotated[str, Meta(min_length=1, max_length=253)]


class ShareSpec(KubeStruct):
    """One container's share, those of running containers first. `beside` has the positions of the running
    shares that exist at the same time as an init container's."""

    container: _Name
    memory_mib: Annotated[int, Meta(ge=1, le=MAX_COUNT)] = msgspec.field(name="memoryMiB")
    device: _Name
    init: bool | None = None
    beside: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_SHARES)] | None = None


class UnitSpec(KubeStruct):
    """Whole GPUs or MIG instances, as many as the pod holds at its peak."""

    resource: Annotated[str, Meta(min_length=1, max_length=_MAX_RESOURCE)]
    count: Annotated[int, Meta(ge=1, le=MAX_COUNT)]

    def __post_init__(self) -> None:
        """Refuses an invalid MIG resource; msgspec adds the field."""
        self.profile()

    def profile(self) -> str | None:
        """The MIG profile; None for whole GPUs."""
        return profile_from_resource(self.resource)[0] if self.resource.startswith(MIG_PREFIX) else None


class HeldSpec(KubeStruct):
    """The amounts that the pod will hold."""

    priority: Int32
    shares: Annotated[list[ShareSpec], Meta(max_length=MAX_SHARES)] | None = None
    units: Annotated[list[UnitSpec], Meta(max_length=_MAX_UNITS)] | None = None

    def __post_init__(self) -> None:
        """Refuses amounts that no pod can hold; msgspec adds the field."""
        shares, units = self.shares or (), self.units or ()
        if not shares and not units:
            raise ValueError("it holds neither shares nor units")
        running = sum(not share.init for share in shares)
        if len({share.container for share in shares}) < len(shares):
            raise ValueError("two shares of one container")
        if len({unit.resource for unit in units}) < len(units):
            raise ValueError("one resource twice")
        for share in shares:
            if share.beside and not share.init:
                raise ValueError(f"the share of {share.container!r} runs, so that it starts beside none")
            if any(i >= running for i in share.beside or ()):
                raise ValueError(f"the share of {share.container!r} starts beside one that is not there")


class IntentSpec(KubeStruct):
    """One Binding that was about to be posted."""

    pod_uid: _Name = msgspec.field(name="podUID")
    namespace: _Name
    name: _Name
    resource_version: _Name
    pod: HeldSpec
    extender: str | None = None


class ReservationSpec(KubeStruct):
    intents: Annotated[list[IntentSpec], Meta(max_length=MAX_INTENTS)] | None = None


class ReservationMeta(ObjectMeta):
    owner_references: list[OwnerReference] | None = None


class GpuReservation(KubeStruct):
    metadata: ReservationMeta | None = None
    spec: ReservationSpec | None = None


def read_reservation(body: bytes) -> Reservation:
    """A GPUReservation from the API server. Raises ClusterError naming the field."""
    return reservation(decode_answer(GpuReservation, body))


def reservation(found: GpuReservation) -> Reservation:
    """A GPUReservation as a core value."""
    metadata, spec = found.metadata or ReservationMeta(), found.spec or ReservationSpec()
    return Reservation(
        node=metadata.name or "",
        node_uid=owner_uid(metadata.owner_references),
        resource_version=metadata.resource_version,
        intents=tuple(map(_intent, spec.intents or ())),
    )


def reservation_body(wanted: Reservation) -> dict[str, Any]:
    """The body of POST, and of PUT if `wanted` has a version, which is its precondition. Raises ValueError
    for content that must never be written: too many intents, or a share without exactly one GPU."""
    if len(wanted.intents) > MAX_INTENTS:
        raise ValueError(f"{len(wanted.intents)} intents on node {wanted.node}; at most {MAX_INTENTS}")
    metadata: dict[str, Any] = {"name": wanted.node}
    if wanted.resource_version is not None:
        metadata["resourceVersion"] = wanted.resource_version
    if wanted.stamp:
        metadata["annotations"] = {STAMP_ANNOTATION: wanted.stamp}
    if wanted.node_uid is not None:
        metadata["ownerReferences"] = [node_owner(wanted.node, wanted.node_uid)]
    intents = [msgspec.to_builtins(_intent_spec(intent)) for intent in wanted.intents]
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"intents": intents}}


def _intent(spec: IntentSpec) -> Intent:
    shares = spec.pod.shares or ()
    asked = ShareRequest(
        tuple((share.container, share.memory_mib) for share in shares if not share.init),
        tuple(
            InitShare(share.container, share.memory_mib, tuple(share.beside or ()))
            for share in shares
            if share.init
        ),
    )
    pod = BoundPod(
        uid=spec.pod_uid,
        namespace=spec.namespace,
        name=spec.name,
        priority=spec.pod.priority,
        request=GpuRequest(
            units=tuple(
                UnitRequest(unit.resource, unit.count, unit.profile()) for unit in spec.pod.units or ()
            ),
            shares=asked if shares else None,
            priority=spec.pod.priority,
        ),
        devices={share.container: (share.device,) for share in shares},
    )
    return Intent(pod, spec.resource_version, spec.extender or "")


def _intent_spec(intent: Intent) -> IntentSpec:
    pod, asked = intent.pod, intent.pod.request.shares or ShareRequest(())
    shares = [ShareSpec(name, mib, _device(pod, name)) for name, mib in asked.running] + [
        ShareSpec(share.container, share.memory_mib, _device(pod, share.container), True, list(share.beside))
        for share in asked.init
    ]
    units = [UnitSpec(ask.resource, ask.count) for ask in pod.request.units]
    held = HeldSpec(pod.priority, shares or None, units or None)
    return IntentSpec(pod.uid, pod.namespace, pod.name, intent.resource_version, held, intent.extender)


def _device(pod: BoundPod, container: str) -> str:
    uuids = pod.devices.get(container, ())
    if len(uuids) != 1:
        where = f"pod {pod.namespace}/{pod.name}: container {container!r}"
        raise ValueError(f"{where}: its share is on {len(uuids)} GPUs, not on one")
    return uuids[0]
