"""Victims for one member on single nodes, from the search that answers kube-scheduler's preemption."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Candidate
from scheduler_ext.core.preemption.victim_search import Cost
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.gangs.planning.draining import Running

# Nodes on which the cheapest victims are searched before one is proposed, the first by those known at once.
SEARCHED = 8


@dataclass(frozen=True, slots=True)
class _KnownProposal:
    """A node as it was when its candidate was found, and the pods that might leave it."""

    info: NodeInfo
    movable: tuple[str, ...]
    candidate: Candidate


class NodeProposals:
    """Proposals for the members of gangs in one step. `node` returns a node as it is in the trial. Members
    with one request share what was found for the nodes that have not changed in between."""

    def __init__(self, node: Callable[[str], NodeInfo], sizing: Sizing) -> None:
        self._node = node
        self._sizing = sizing
        self._known: dict[tuple[GpuRequest, str], _KnownProposal] = {}
        self._budgets: Sequence[Budget] = ()

    def of(
        self, pod: BoundPod, running: Sequence[Running], budgets: Sequence[Budget]
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """The nodes that take the pod without some of `running`, with the uids of the cheapest of these, the
        cheapest first. Victims that exceed a budget are left out, and so are nodes on which a pod that is not
        in `running` would have to leave."""
        if budgets is not self._budgets:
            self._known.clear()
            self._budgets = budgets
        movable: dict[str, list[str]] = {}
        for each in running:
            movable.setdefault(each.node, []).append(each.uid)
        preemption = Preemption(pod.request, pod.uid, {}, budgets, self._sizing)
        candidates = []
        for name, uids in movable.items():
            candidate = self._candidate(pod, name, tuple(uids), preemption)
            if (cost := candidate.cost) is not None:
                candidates.append((cost, name, candidate))
        found: list[tuple[Cost, str, Sequence[str]]] = []
        for _, name, candidate in sorted(candidates, key=lambda each: each[:2]):
            candidate.search()
            victims, cost = candidate.victims, candidate.cost
            if victims is not None and cost is not None and victims.uids and not victims.violations:
                heappush(found, (cost, name, victims.uids))
            if len(found) == SEARCHED:
                yield heappop(found)[1:]
        while found:
            yield heappop(found)[1:]

    def _candidate(
        self, pod: BoundPod, name: str, movable: tuple[str, ...], preemption: Preemption
    ) -> Candidate:
        info = self._node(name)
        known = self._known.get((pod.request, name))
        is_there = any(each.uid == pod.uid for each in (*info.pods, *info.nominated, *info.planned))
        if known is not None and known.info is info and known.movable == movable and not is_there:
            return known.candidate
        # Assumed pods stay in a preemption: so do those that may not leave.
        staying = frozenset(each.uid for each in info.pods).difference(movable)
        candidate = preemption.candidate(replace(info, assumed=info.assumed | staying))
        if not is_there:
            self._known[pod.request, name] = _KnownProposal(info, movable, candidate)
        return candidate
