"""Victims for one member on single nodes, from the search that answers kube-scheduler's preemption."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.planning.draining import Running
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.preemption.preemption import Preemption

# Nodes on which the cheapest victims are searched, by victims that are known at once.
SEARCHED = 8


def node_proposals(
    pod: BoundPod,
    running: Sequence[Running],
    budgets: Sequence[Budget],
    node: Callable[[str], NodeInfo],
    sizing: Sizing,
) -> Iterator[tuple[str, Sequence[str]]]:
    """The nodes that take the pod without some of `running`, with the uids of the cheapest of these, the
    cheapest first. `node` returns a node as it is in the trial. Victims that exceed a budget are left out,
    and so are nodes on which a pod that is not in `running` would have to leave."""
    movable = {each.uid for each in running}
    preemption = Preemption(pod.request, pod.uid, {}, budgets, sizing)
    candidates = []
    for name in dict.fromkeys(each.node for each in running):
        info = node(name)
        # Assumed pods stay in a preemption: so do those that may not leave.
        staying = frozenset(each.uid for each in info.pods if each.uid not in movable)
        candidate = preemption.candidate(replace(info, assumed=info.assumed | staying))
        if (cost := candidate.cost) is not None:
            candidates.append((cost, name, candidate))
    found = []
    for _, name, candidate in nsmallest(SEARCHED, candidates, key=lambda each: each[:2]):
        candidate.search()
        victims, cost = candidate.victims, candidate.cost
        if victims is not None and cost is not None and victims.uids and not victims.violations:
            found.append((cost, name, victims.uids))
    for _, name, uids in sorted(found):
        yield name, uids
