"""A pod as far as gangs are concerned, and the bodies of requests about it."""

from dataclasses import dataclass
from typing import Any

from scheduler_ext.cluster.evictions import eviction_body
from scheduler_ext.core.request.gang_request import GATE
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.planning.gang import MemberState, Refusal
from scheduler_ext.features.gangs.planning.gang_failures import Remembered
from scheduler_ext.features.gangs.wire.nomination import remembered, start_by
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import NAMING, READ, gates
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.pod.pod_identity import is_terminating, may_preempt, pod_priority
from scheduler_ext.wire.pod.pod_request import asks_gpu
from scheduler_ext.wire.times import seconds

EVICTED_FOR = "gpu.scheduler-ext.io/evicted-for"
"""An annotation of Evictions: the gang that they are for, as NAMESPACE/NAME."""


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod that may belong to a gang. `named` has the fields that its gang follows from. `state` is None for
    one that is no member (yet): it failed, is being deleted, or has gates of others. `node` is where it is
    bound, `nominated` where a nomination keeps its place. `gates` are the names of its gates in their order.
    `deadline` is the time by which its gang must have started (seconds of wall time), `refusal` what
    kube-scheduler says of a pod that it found no place for, and `remembered` what a planner wrote about its
    gang. `asks_gpu` is False for one that only belongs to pods with GPUs, such as a launcher."""

    uid: str
    namespace: str
    name: str
    named: kube.Pod
    state: MemberState | None
    scheduler_name: str = ""
    priority: int = 0
    created_at: float = 0.0
    node: str | None = None
    nominated: str | None = None
    gates: tuple[str, ...] = ()
    deadline: float | None = None
    refusal: Refusal | None = None
    remembered: Remembered | None = None
    preempts: bool = True
    asks_gpu: bool = True

    @property
    def is_gated(self) -> bool:
        """Whether it is behind the gate of gangs, and no other."""
        return self.state is MemberState.GATED


def gang_pod(pod: kube.Pod, resources: ResourceNames) -> GangPod:
    """What gangs need of a pod."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    names = gates(pod)
    return GangPod(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        named=reduced(pod),
        state=_state(pod, names),
        scheduler_name=spec.scheduler_name or "",
        priority=pod_priority(pod),
        created_at=seconds(metadata.creation_timestamp) or 0.0,
        node=spec.node_name or None,
        nominated=(pod.status.nominated_node_name if pod.status else None) or None,
        gates=names,
        deadline=start_by(pod),
        refusal=_refusal(pod),
        remembered=remembered(pod),
        preempts=may_preempt(pod),
        asks_gpu=bool(spec.resource_claims) or asks_gpu(spec, resources),
    )


def _state(pod: kube.Pod, names: tuple[str, ...]) -> MemberState | None:
    phase = pod.status.phase if pod.status is not None else None
    if phase == "Failed" or is_terminating(pod):
        return None
    if phase == "Succeeded":
        return MemberState.DONE
    if pod.spec is not None and pod.spec.node_name:
        return MemberState.BOUND
    if not names:
        return MemberState.WAITING
    return MemberState.GATED if set(names) == {GATE} else None


def _refusal(pod: kube.Pod) -> Refusal | None:
    """The reasons are those of k8s.io/api (core/v1/types.go): with SchedulerError, kube-scheduler or one of
    its extenders failed."""
    for each in (pod.status.conditions or ()) if pod.status is not None else ():
        if each.type == "PodScheduled" and each.status == "False" and each.reason != "SchedulingGated":
            return Refusal(each.message or each.reason or "", each.reason == "SchedulerError")
    return None


def reduced(pod: kube.Pod) -> kube.Pod:
    """The pod with the fields alone from which its gang follows."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    return kube.Pod(
        metadata=kube.ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            labels=_read_of(metadata.labels),
            annotations=_read_of(metadata.annotations),
            owner_references=metadata.owner_references,
        ),
        spec=kube.PodSpec(
            scheduling_gates=spec.scheduling_gates,
            scheduling_group=spec.scheduling_group,
            workload_ref=spec.workload_ref,
        ),
    )


def _read_of(fields: kube.Strings | None) -> kube.Strings | None:
    return {key: value for key, value in (fields or {}).items() if key in READ} or None


def names_in(pod: GangPod) -> set[tuple[str, str, str]]:
    """What may name the gang of a pod: its namespace with each such label and annotation."""
    metadata = pod.named.metadata or kube.ObjectMeta()
    fields = (*strings(metadata.labels).items(), *strings(metadata.annotations).items())
    return {(pod.namespace, key, value) for key, value in fields if key in NAMING}


def gate_patch(pod: GangPod) -> list[dict[str, Any]]:
    """The JSON patch that removes the gate of gangs from this pod, and from no other; refused with 422 if the
    gate is somewhere else by now."""
    path = f"/spec/schedulingGates/{pod.gates.index(GATE)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": path, "value": {"name": GATE}},
        {"op": "remove", "path": path},
    ]


def gang_eviction(namespace: str, name: str, uid: str, gang: str) -> dict[str, Any]:
    """The Eviction of a pod for a gang."""
    body = eviction_body(namespace, name, uid)
    return body | {"metadata": body["metadata"] | {"annotations": {EVICTED_FOR: gang}}}
