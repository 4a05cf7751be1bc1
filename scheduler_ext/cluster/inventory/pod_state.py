"""The state of a pod that the scheduler cache follows."""

from typing import NamedTuple, TypeAlias

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_identity import is_finished
from scheduler_ext.wire.pod.pod_request import asks_gpu


class OtherPod(NamedTuple):
    """A pod without GPUs on a node."""

    node: str
    cpu_milli: int


# The state of a pod that the cache follows: bound to a node with GPUs, or with claims, which may hold some;
# waiting for GPUs; or on a node without any. None: the cache keeps nothing of it.
PodState: TypeAlias = tuple[BoundPod, str] | PendingPod | OtherPod | None


def pod_state(pod: kube.Pod, resources: ResourceNames) -> PodState:
    """The state of a pod. Raises QuantityError for an amount of GPUs that cannot be read."""
    spec = pod.spec or kube.PodSpec()
    has_gpus = bool(spec.resource_claims) or asks_gpu(spec, resources)
    if spec.node_name and has_gpus:
        return bound_pod(pod, resources), spec.node_name
    if is_finished(pod):
        return None
    if spec.node_name:
        return OtherPod(spec.node_name, pod_cpu_milli(held_spec(pod)))
    waiting = pending_pod(pod, resources) if has_gpus else None
    # A placeholder waits for an autoscaler, and for no node.
    return None if waiting is not None and waiting.pod.request.is_placeholder else waiting


def holds_gpus(state: PodState) -> bool:
    """Whether it is that of a pod on a node which has GPUs there, or may have some by a claim."""
    return isinstance(state, tuple) and not isinstance(state, OtherPod)


def update_pod(
    cache: Cache, uid: str, state: PodState, now: float, planned_until: float | None = None
) -> None:
    """Update the cache with the state of a pod; `planned_until` as of `Cache.update_pending`."""
    if state is None:
        cache.remove_pod(uid, now)
    elif isinstance(state, OtherPod):
        cache.update_other_pod(uid, state.node, state.cpu_milli)
    elif isinstance(state, PendingPod):
        cache.update_pending(state, planned_until)
    else:
        cache.confirm(*state, now)
