"""Whom kube-scheduler would evict for a pod that fits nowhere, asking preempt as it does live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler_ext.core.intree import NodeFacts, intree_rejection
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, most_important_first, over_budget
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.explain.intree_nodes import with_pods
from scheduler_ext.whatif.whatif import Asker, Resident, WhatIf
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import may_preempt, other_requests

# kube-scheduler looks at a hundred candidates or a tenth of the nodes, whichever is more.
_CANDIDATES = 100
_CANDIDATES_PART = 10
# Candidates on which cheaper victims are looked for; the cheapest ones by what is known at once.
_SEARCHED = 100
# What kube-scheduler adds to each priority in a sum, so that fewer pods come before a lower sum.
_ABOVE_ANY_PRIORITY = 2**31


@dataclass(frozen=True, slots=True)
class Eviction:
    """The pods that leave a node for another, by uid, the most important first."""

    node: str
    uids: tuple[str, ...]


def find_eviction(
    asker: Asker, cluster: WhatIf, budgets: Sequence[Budget], *, empty_victims: bool
) -> Eviction | None:
    """Who leaves which node so that a pod fits there; None where nobody of lower priority can help, or where
    kube-scheduler would not ask (``empty_victims`` as in the configuration)."""
    if not may_preempt(asker.pod):
        return None
    preemption = _preemption(asker, cluster, budgets)
    proposals: dict[str, Victims] = {}
    most = max(_CANDIDATES, len(cluster.names) // _CANDIDATES_PART)
    for name, proposal in _proposals(asker, cluster, budgets, preemption, empty_victims):
        proposals[name] = proposal
        if len(proposals) == most:
            break
    chosen = _answered(proposals, preemption, cluster) if asker.request.asks_gpu else proposals
    order = sorted(chosen, key=lambda name: (_price(name, chosen[name], cluster), name))
    for name in order:
        if cluster.fits_without(asker, name, chosen[name].uids):
            return Eviction(name, chosen[name].uids)
    return None


def _preemption(asker: Asker, cluster: WhatIf, budgets: Sequence[Budget]) -> Preemption:
    sizing = cluster.sizing
    others = other_requests(asker.pod.spec or kube.PodSpec(), sizing.resources)
    return Preemption(
        asker.request,
        asker.uid,
        others,
        budgets,
        sizing.policy,
        sizing.resources,
        sizing.headroom_percent,
    )


def _proposals(
    asker: Asker, cluster: WhatIf, budgets: Sequence[Budget], preemption: Preemption, empty_victims: bool
) -> Iterator[tuple[str, Victims]]:
    """What kube-scheduler finds by its own filters, which count GPUs, node by node.

    Without a Node object nothing is known that it would count, so there it is taken to leave all to us.
    """
    counted = cluster.in_tree.refused(asker.needs, with_gpus=True)
    for name in sorted(cluster.names):
        facts, rejection = cluster.in_tree.facts(name), counted.get(name)
        if facts is None or rejection is None:
            asked = asker.request.asks_gpu and (facts is None or empty_victims)
            if asked and preemption.rescuable(cluster.info(name)):
                yield name, Victims((), 0)
        elif rejection.resolvable:
            victims = _dry_run(asker, facts, cluster.residents(name), budgets)
            if victims is not None:
                yield name, victims


def _dry_run(
    asker: Asker, facts: NodeFacts, residents: Sequence[Resident], budgets: Sequence[Budget]
) -> Victims | None:
    """All pods of lower priority leave, and come back one by one while the pod still fits: those first that
    would violate a budget, then the most important. None where it does not fit without all of them."""
    by_uid = {resident.pod.uid: resident for resident in residents}
    lower = most_important_first(
        resident.pod for resident in residents if resident.pod.priority < asker.request.priority
    )
    for pod in lower:
        facts = with_pods(facts, by_uid[pod.uid].amounts, -1)
    if not lower or intree_rejection(asker.needs, facts, ignore_resources=frozenset()) is not None:
        return None
    over = over_budget(budgets_of(lower, budgets), [budget.allowed for budget in budgets])
    gone = set()
    for i in sorted(range(len(lower)), key=lambda i: (not over[i], i)):
        back = with_pods(facts, by_uid[lower[i].uid].amounts, 1)
        if intree_rejection(asker.needs, back, ignore_resources=frozenset()) is None:
            facts = back
        else:
            gone.add(i)
    return Victims(tuple(lower[i].uid for i in sorted(gone)), sum(over[i] for i in gone)) if gone else None


def _answered(proposals: dict[str, Victims], preemption: Preemption, cluster: WhatIf) -> dict[str, Victims]:
    """What the extender makes of the proposals: for each node the cheapest victims that make room there."""
    candidates = {
        name: preemption.candidate(cluster.info(name), proposal.uids, proposal.violations)
        for name, proposal in proposals.items()
    }
    costs = {name: candidate.cost for name, candidate in candidates.items()}
    known = sorted((cost, name) for name, cost in costs.items() if cost is not None)
    unknown = [name for name, cost in costs.items() if cost is None]
    for name in [*(name for _, name in known), *unknown][:_SEARCHED]:
        candidates[name].search()
    return {
        name: victims
        for name, candidate in candidates.items()
        if (victims := candidate.victims) is not None and victims.uids
    }


def _price(name: str, victims: Victims, cluster: WhatIf) -> tuple[float, ...]:
    """kube-scheduler takes the node with the fewest violated budgets, then the lowest highest priority, the
    least sum, the fewest pods, and last the latest start of those of the highest."""
    by_uid = {resident.pod.uid: resident.pod for resident in cluster.residents(name)}
    pods = [by_uid[uid] for uid in victims.uids]
    highest = max(pod.priority for pod in pods)
    started = [pod.started_at for pod in pods if pod.priority == highest]
    first = min(float("inf") if at is None else at for at in started)
    total = sum(pod.priority + _ABOVE_ANY_PRIORITY for pod in pods)
    return victims.violations, highest, total, len(pods), -first
