"""kube-scheduler's proposed victims without pods that must stay: it does not check the extender's answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire import kube
from scheduler_ext.wire.extender_args import PreemptionArgs
from scheduler_ext.wire.pod import other_requests, pod_priority


@dataclass(frozen=True, slots=True)
class Admissible:
    """The proposal for one node: uids that exist as far as known, the most important first. ``staying`` are
    the holdings of proposed pods of no lower priority. ``price`` orders nodes roughly like kube-scheduler."""

    info: NodeInfo
    uids: tuple[str, ...]
    violations: int
    staying: tuple[Mapping[str, Fraction], ...]
    price: tuple[int, ...]


def admissible(
    args: PreemptionArgs,
    infos: Mapping[str, NodeInfo],
    snapshot: Snapshot,
    uid: str,
    priority: int,
    resources: ResourceNames,
) -> dict[str, Admissible]:
    """The proposal for each of these nodes; ``uid`` and ``priority`` are of the pod that looks for a place.
    Victims that are the pod itself, or on another node, are left out."""
    unknown = {
        victim
        for name, info in infos.items()
        for victim in set(args.proposals[name].uids) - {pod.uid for pod in info.pods}
    }
    elsewhere = {uid}
    if unknown:
        elsewhere |= {
            pod.uid for node in snapshot.nodes.values() for pod in node.info.pods if pod.uid in unknown
        }
    found = {}
    for name, info in infos.items():
        proposal = args.proposals[name]
        here = {pod.uid: pod for pod in info.pods}
        # Proposed whole pods that are unknown on the node and must stay.
        pods = zip(proposal.uids, proposal.pods, strict=False)
        high = {each: pod for each, pod in pods if each not in here and pod_priority(pod) >= priority}
        uids = tuple(
            each for each in proposal.uids if each in here or (each not in elsewhere and each not in high)
        )
        lower = [here[each].priority for each in uids if each in here]
        price = (proposal.violations, max(lower, default=0), sum(lower), len(uids))
        staying = tuple(other_requests(pod.spec or kube.PodSpec(), resources) for pod in high.values())
        found[name] = Admissible(info, uids, proposal.violations, staying, price)
    return found
