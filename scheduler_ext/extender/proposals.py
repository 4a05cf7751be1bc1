"""kube-scheduler's proposed victims without pods that must stay: it does not check the extender's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire import kube
from scheduler_ext.wire.extender_args import PreemptionArgs, Proposal
from scheduler_ext.wire.pod import other_requests, pod_priority


@dataclass(frozen=True, slots=True)
class Admissible:
    """The proposal for one node: uids that exist as far as known, the most important first.

    ``staying`` are the holdings of proposed pods of no lower priority. ``price`` orders nodes roughly like
    kube-scheduler.
    """

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
    Victims that are the pod itself, or on another node, are left out.
    """
    unknown = {
        victim
        for name, info in infos.items()
        for victim in set(args.proposals[name].uids) - {pod.uid for pod in info.pods}
    }
    elsewhere = _known_anywhere(unknown, snapshot) | {uid}
    found = {}
    for name, info in infos.items():
        proposal = args.proposals[name]
        here = {pod.uid: pod for pod in info.pods}
        high = _of_no_lower_priority(proposal, here, priority)
        uids = tuple(
            each for each in proposal.uids if each in here or (each not in elsewhere and each not in high)
        )
        lower = [here[each].priority for each in uids if each in here]
        price = (proposal.violations, max(lower, default=0), sum(lower), len(uids))
        staying = tuple(other_requests(pod.spec or kube.PodSpec(), resources) for pod in high.values())
        found[name] = Admissible(info, uids, proposal.violations, staying, price)
    return found


def _known_anywhere(uids: set[str], snapshot: Snapshot) -> set[str]:
    """The uids that belong to a pod on some node; for uids that are not on their proposed node, a pod of
    another node.
    """
    if not uids:
        return set()
    return {pod.uid for node in snapshot.nodes.values() for pod in node.info.pods if pod.uid in uids}


def _of_no_lower_priority(proposal: Proposal, here: Iterable[str], priority: int) -> dict[str, kube.Pod]:
    """Proposed whole pods that are unknown on the node and must stay."""
    pods = zip(proposal.uids, proposal.pods, strict=False)
    return {uid: pod for uid, pod in pods if uid not in here and pod_priority(pod) >= priority}
