"""Nodes whose kubelet may refuse a pod because of NUMA, which kube-scheduler and the extender do not compare.
The policy of a kubelet is in no object, so only the GPUs of each NUMA node are known, from the report."""

from collections import Counter
from collections.abc import Iterable

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.sentences import listed

_NAMED = 3


def numa_notes(request: GpuRequest, fitting: Iterable[Node]) -> list[str]:
    """A note on the nodes that fit where the GPUs of a container are free on no single NUMA node: a kubelet
    with topologyManagerPolicy single-numa-node refuses the pod there (TopologyAffinityError), and one with
    restricted does if the NUMA node would have enough without other pods. Source: kubernetes.io/docs,
    "Control Topology Management Policies on a node"."""
    whole = {ask.resource for ask in request.units if ask.profile is None and not ask.by_claim}
    most = max((count for _, name, count in request.by_container if name in whole), default=0)
    if most < 2:
        return []
    found: dict[str, list[str]] = {}
    for node in fitting:
        free, every = _by_numa(node)
        if node.state.shared or not free or max(free.values()) >= most:
            continue
        restricted = max(every.values()) >= most
        policy = "restricted or single-numa-node" if restricted else "single-numa-node"
        found.setdefault(policy, []).append(f"{node.info.name} ({_counts(free)} free)")
    return [
        f"no NUMA node of {listed(names, 'or', _NAMED)} has {most} free GPUs: a kubelet with "
        f"topologyManagerPolicy {policy} refuses the pod there (TopologyAffinityError); the policy is not "
        "known here"
        for policy, names in found.items()
    ]


def _by_numa(node: Node) -> tuple[Counter[int], Counter[int]]:
    """The free and all healthy whole GPUs of each NUMA node; none if the report does not say it of each."""
    where = {device.uuid: device for device in node.info.devices if not device.mig.enabled}
    free, every = Counter[int](), Counter[int]()
    for uuid, slot in node.gpus:
        device = where.get(uuid or "")
        if device is None or not slot.healthy:
            continue
        if device.numa_node is None or device.numa_node < 0:
            return Counter(), Counter()
        every[device.numa_node] += 1
        free[device.numa_node] += slot.idle == 1 and not device.cordoned
    return free, every


def _counts(free: Counter[int]) -> str:
    return " and ".join(str(free[numa]) for numa in sorted(free))
