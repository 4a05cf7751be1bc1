"""A pod's name, uid and priority, and whether it has ended."""

from scheduler_ext.wire import kube

_FINISHED = ("Succeeded", "Failed")

# The two classes that every cluster has (k8s.io/kubernetes/pkg/apis/scheduling).
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def pod_name(pod: kube.Pod) -> str:
    """namespace/name, for people."""
    metadata = pod.metadata or kube.ObjectMeta()
    return f"{metadata.namespace or 'default'}/{metadata.name or '?'}"


def pod_uid(pod: kube.Pod) -> str:
    """The pod's uid; empty for a pod that was never created."""
    return (pod.metadata.uid if pod.metadata else None) or ""


def pod_priority(pod: kube.Pod) -> int:
    """The pod's priority; admission fills it in, and a hand-written pod may have only a class name."""
    spec = pod.spec or kube.PodSpec()
    if spec.priority is not None:
        return spec.priority
    return SYSTEM_PRIORITIES.get(spec.priority_class_name or "", 0)


def may_preempt(pod: kube.Pod) -> bool:
    """Whether other pods may be evicted for the pod (its preemptionPolicy)."""
    return pod.spec is None or pod.spec.preemption_policy != "Never"


def is_finished(pod: kube.Pod) -> bool:
    """Whether a pod still exists but no longer holds anything."""
    return pod.status is not None and pod.status.phase in _FINISHED


def is_terminating(pod: kube.Pod) -> bool:
    """Whether a pod was deleted; it holds everything until it is gone."""
    return pod.metadata is not None and pod.metadata.deletion_timestamp is not None
