"""What gangs see of a cluster: the pods on nodes that they may wait for, and the topology that they name."""

from collections.abc import Callable, Iterable, Mapping

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.gang_request import NODE_POOL, GangKey, GangRequest
from scheduler_ext.features.gangs.planning.draining import Running, Topology

# The extender may evict no pods there.
_PROTECTED = ("kube-system", "gpu-scheduler")


def running_pods(
    infos: Iterable[NodeInfo],
    duration_s: Callable[[str], float | None],
    gang_of: Mapping[str, GangKey],
    now: float,
    protected: Iterable[str] = _PROTECTED,
) -> list[Running]:
    """The pods on nodes that hold GPUs, except those of protected namespaces. A pod ends at the latest so
    long after it started as it says (`duration_s`); one that the kubelet has not seen yet starts `now`."""
    kept = frozenset(protected)
    found = []
    for info in infos:
        for pod in info.pods:
            if not pod.holds or pod.expected or pod.namespace in kept:
                continue
            length = duration_s(pod.uid)
            started_at = now if pod.started_at is None else pod.started_at
            ends_at = None if length is None else started_at + length
            found.append(Running(pod, info.name, ends_at, leaving=pod.terminating, gang=gang_of.get(pod.uid)))
    return found


def topology_of(
    gang_requests: Iterable[GangRequest], infos: Mapping[str, NodeInfo], facts: Mapping[str, NodeFacts]
) -> Topology:
    """The values of the nodes for each label that a gang names."""
    keys = {
        key
        for gang_request in gang_requests
        for key in (gang_request.required_topology, gang_request.preferred_topology)
        if key
    }
    found: dict[str, dict[str, str]] = {}
    for key in keys:
        values = found[key] = {}
        for name, info in infos.items():
            labels = facts[name].labels if name in facts else {}
            if value := info.pool if key == NODE_POOL else labels.get(key, ""):
                values[name] = value
    return found
