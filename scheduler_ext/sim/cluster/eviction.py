"""The pods that kube-scheduler would evict for a pod that fits nowhere, asking preempt as it does live."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.intree import NodeFacts, intree_rejection
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, most_important_first, over_budget
from scheduler_ext.core.preemption.dry_run import DryRun
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.intree_nodes import with_pods
from scheduler_ext.extender.preemption_answers import cost_of
from scheduler_ext.extender.preemptor import by_cost
from scheduler_ext.whatif.whatif import PodInfo, Resident, WhatIf
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_amounts import other_requests
from scheduler_ext.wire.pod.pod_identity import may_preempt

# kube-scheduler looks at a hundred candidates or a tenth of the nodes, whichever is more.
_CANDIDATES = 100
_CANDIDATES_PART = 10
# Candidates on which cheaper victims are looked for; the cheapest ones by the cost known at once.
_SEARCHED = 100


def find_eviction(
    pod_info: PodInfo, cluster: WhatIf, budgets: Sequence[Budget], *, empty_victims: bool
) -> tuple[str, tuple[str, ...]] | None:
    """The node, and the uids of the pods that leave it so that the pod fits there, the most important
    first; None if no pods of lower priority suffice, or if kube-scheduler would not ask
    (`empty_victims` as in the configuration)."""
    if not may_preempt(pod_info.pod):
        return None
    others = other_requests(pod_info.pod.spec or kube.PodSpec(), cluster.sizing.resources)
    preemption = Preemption(pod_info.request, pod_info.uid, others, budgets, cluster.sizing)
    most = max(_CANDIDATES, len(cluster.infos) // _CANDIDATES_PART)
    proposals = dict(islice(_proposals(pod_info, cluster, budgets, preemption, empty_victims), most))
    chosen = _answered(proposals, preemption, cluster) if pod_info.request.asks_gpu else proposals
    for name in sorted(chosen, key=lambda name: (_price(name, chosen[name], cluster), name)):
        if cluster.fits_without(pod_info, name, chosen[name].uids):
            return name, chosen[name].uids
    return None


def _proposals(
    pod_info: PodInfo, cluster: WhatIf, budgets: Sequence[Budget], preemption: Preemption, empty_victims: bool
) -> Iterator[tuple[str, Victims]]:
    """The victims that kube-scheduler finds by its own filters, which count GPUs, node by node. Without a
    Node object it has no amounts to count; it is then assumed to leave the choice to the extender."""
    counted = cluster.in_tree.refused(pod_info.needs, with_gpus=True)
    for name, info in sorted(cluster.infos.items()):
        if not _has_devices(pod_info, info, cluster.sizing):
            continue
        facts, rejection = cluster.in_tree.facts(name), counted.get(name)
        by_claim = frozenset(ask.resource for ask in pod_info.request.units if info.by_claim(ask.resource))
        if by_claim and facts is not None:
            rejection = intree_rejection(pod_info.needs, facts, ignore_resources=by_claim)
        if facts is None or rejection is None:
            asked = pod_info.request.asks_gpu and (facts is None or empty_victims)
            if asked and preemption.rescuable(info):
                yield name, Victims((), 0)
        elif rejection.resolvable:
            victims = _dry_run(pod_info, facts, by_claim, cluster.residents.get(name, {}), budgets)
            if victims is not None:
                yield name, victims


def _has_devices(pod_info: PodInfo, info: NodeInfo, sizing: Sizing) -> bool:
    """Whether DRA has the devices that a pod asks of it. kube-scheduler's dry run takes no claim from the
    pods that it removes, so that it evicts no pod for a device."""
    units = tuple(ask for ask in pod_info.request.units if ask.by_claim or info.by_claim(ask.resource))
    return not units or DryRun(info, (), GpuRequest(units=units), sizing).fits(())


def _dry_run(
    pod_info: PodInfo,
    facts: NodeFacts,
    by_claim: frozenset[str],
    residents: Mapping[str, Resident],
    budgets: Sequence[Budget],
) -> Victims | None:
    """All pods of lower priority leave, and return one by one while the pod still fits: first those that
    would violate a budget, then the most important. None if it does not fit without all of them."""

    def fits(facts: NodeFacts) -> bool:
        return intree_rejection(pod_info.needs, facts, ignore_resources=by_claim) is None

    pods = (resident.pod for resident in residents.values())
    lower = most_important_first(pod for pod in pods if pod.priority < pod_info.request.priority)
    for pod in lower:
        facts = with_pods(facts, residents[pod.uid].amounts, -1)
    if not lower or not fits(facts):
        return None
    over = over_budget(budgets_of(lower, budgets), [budget.allowed for budget in budgets])
    gone = []
    for i in sorted(range(len(lower)), key=lambda i: (not over[i], i)):
        back = with_pods(facts, residents[lower[i].uid].amounts, 1)
        if fits(back):
            facts = back
        else:
            gone.append(i)
    return Victims(tuple(lower[i].uid for i in sorted(gone)), sum(over[i] for i in gone)) if gone else None


def _answered(proposals: dict[str, Victims], preemption: Preemption, cluster: WhatIf) -> dict[str, Victims]:
    """The extender's answer to the proposals: for each node the cheapest victims that make room there."""
    candidates = {
        name: preemption.candidate(cluster.infos[name], proposal.uids, proposal.violations)
        for name, proposal in proposals.items()
    }
    for candidate in by_cost(candidates)[:_SEARCHED]:
        candidate.search()
    found = {name: candidate.victims for name, candidate in candidates.items()}
    return {name: victims for name, victims in found.items() if victims is not None and victims.uids}


def _price(name: str, victims: Victims, cluster: WhatIf) -> tuple[float, ...]:
    """kube-scheduler's order: the least cost, then the latest start of the pods of the highest priority."""
    residents = cluster.residents.get(name, {})
    pods = [residents[uid].pod for uid in victims.uids]
    cost = cost_of(victims, pods)
    started = [pod.started_at for pod in pods if pod.priority == cost[1]]
    return *cost, -min(float("inf") if at is None else at for at in started)
