"""Who is to leave a node so that a pod of higher priority fits: the cheapest set of pods that suffices.

Whether one suffices is asked of the filters themselves, so that filter accepts what preempt has accepted.
What is not ours to see, kube-scheduler counts: of every other resource, as much is freed as by its proposal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import merge

from scheduler_ext.core.allocate import MAX_SEARCH_STEPS
from scheduler_ext.core.departures import Departures, Gone, without
from scheduler_ext.core.disruption import Budget, budgets_of, most_important_first
from scheduler_ext.core.node import BoundPod, NodeInfo
from scheduler_ext.core.node_likeness import likeness
from scheduler_ext.core.nominated import seen_by
from scheduler_ext.core.other_resources import Freed
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.core.victim_kinds import focuses
from scheduler_ext.core.victim_search import NO_PRIORITY, Cost, Need, Pricing, Steps, cheapest_first

# Sets of pods that one node may be asked about before kube-scheduler's own way is gone.
EVALUATIONS = 64
# Sets begun per set asked about: beginning one costs a tenth.
_STEPS_PER_EVALUATION = 12
# So many sets are looked at together, at first and at most.
_TOGETHER = (1, 16)


@dataclass(frozen=True, slots=True)
class Victims:
    """Who is to leave a node: uids, the most important first, never none; and how many violate a budget."""

    uids: tuple[str, ...]
    violations: int


class Preemption:
    """One pod that looks for victims, on any number of nodes.

    ``uid`` is the pod's; ``other_requests`` what it asks that is no GPU's, by resource. ``evaluations``
    bounds how many sets of pods are tried per node before the search gives way to reprieving one by one.
    """

    def __init__(
        self,
        request: GpuRequest,
        uid: str,
        other_requests: Mapping[str, Fraction],
        budgets: Sequence[Budget],
        policy: Policy,
        resources: ResourceNames,
        headroom_percent: int,
        evaluations: int = EVALUATIONS,
    ) -> None:
        self._request = request
        self._uid = uid
        self._other_requests = other_requests
        self._budgets = budgets
        self._policy = policy
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._evaluations = evaluations
        # For all nodes together: a pod of many shares could else be placed anew thousands of times. Where
        # these are used up, what is not placed at once counts as not fitting, as in filter.
        self._steps = [MAX_SEARCH_STEPS]
        # By what tells nodes apart: victims by their place among the node's pods, and violations.
        self._answers: dict[Hashable, tuple[list[int], int] | None] = {}

    def victims(self, info: NodeInfo, named: Sequence[str] = (), counted: int = 0) -> Victims | None:
        """The cheapest pods whose departure makes the request fit on a node, None where none do.

        ``named`` are the uids that kube-scheduler proposes, the most important first, and ``counted`` the
        violations it counts for them. Of those, pods that are not known here (they hold no GPU) stay.
        """
        named = list(dict.fromkeys(named))
        info = seen_by(info, self._uid, self._request.priority)
        pods = most_important_first(info.pods)
        places = {pod.uid: i for i, pod in enumerate(pods)}
        unknown = [uid for uid in named if uid not in places]
        alike = likeness(info, pods, budgets_of(pods, self._budgets), named, self._request)
        if alike is None:
            return self._victims(info, named, unknown, counted)
        uids = [*(pod.uid for pod in pods), *unknown]
        key = (alike, counted if unknown else 0)
        if key not in self._answers:
            victims = self._victims(info, named, unknown, counted)
            found = None
            if victims is not None:
                found = [uids.index(uid) for uid in victims.uids], victims.violations
            self._answers[key] = found
        known = self._answers[key]
        return None if known is None else Victims(tuple(uids[i] for i in known[0]), known[1])

    def _victims(
        self, info: NodeInfo, named: Sequence[str], unknown: Sequence[str], counted: int
    ) -> Victims | None:
        lower = self._lower(info)
        leaving = tuple(pod for pod in lower if pod.terminating)
        known = {pod.uid: pod for pod in info.pods}
        freed = Freed([known[uid] for uid in named if uid in known], len(unknown))
        case = self._case(
            without(info, leaving), [pod for pod in lower if not pod.terminating], freed, leaving
        )
        proposed = tuple(i for i, pod in enumerate(case.pods) if pod.uid in set(named))
        gone = case.cheapest(proposed)
        if gone is None:
            return None
        stay = [pod for pod in leaving if pod.uid in set(named)]
        evicted = [case.pods[i] for i in gone]
        if not (evicted or stay or unknown):
            waiting = self._case(info, leaving, freed, ())
            # Where none would be left to name, those that the pod waits for.
            stay = [leaving[i] for i in waiting.reprieved(tuple(range(len(leaving)))) or ()]
            if not stay:
                return None
        unseen = max(0, counted - sum(case.pricing.over(proposed))) if unknown else 0
        return Victims(
            _in_order(most_important_first([*evicted, *stay]), unknown, named, known),
            sum(case.pricing.over(gone)) + unseen,
        )

    def rescuable(self, info: NodeInfo) -> bool:
        """Whether a node that filter refuses would take the pod if pods of lower priority left."""
        seen = seen_by(info, self._uid, self._request.priority)
        lower = self._lower(seen)
        if not lower:
            return False
        empty = self._case(without(seen, lower), [], Freed([], 0), ()).departures
        if empty.fits(()):
            return not self._case(seen, [], Freed([], 0), ()).departures.fits(())
        # All at once may free too much: GPUs that do not meet the pod's wishes, one that is cordoned.
        return _may_free_too_much(self._request, empty) and self.victims(info) is not None

    def _lower(self, info: NodeInfo) -> list[BoundPod]:
        """The pods that may have to leave, the most important first. One that is only assumed may not: its
        binding may still fail, and what it would free with it."""
        return most_important_first(
            pod
            for pod in info.pods
            if pod.holds and pod.uid and pod.priority < self._request.priority and pod.uid not in info.assumed
        )

    def _case(
        self, info: NodeInfo, pods: Sequence[BoundPod], freed: Freed, leaving: Sequence[BoundPod]
    ) -> _Case:
        departures = Departures(
            info,
            pods,
            self._request,
            self._policy,
            self._resources,
            self._headroom_percent,
            self._steps,
        )
        needs = [*freed.needs(self._other_requests, pods, leaving), *self._gpu_needs(departures)]
        return _Case(departures, needs, Pricing(pods, self._budgets), self._request, self._evaluations)

    def _gpu_needs(self, departures: Departures) -> Iterator[Need]:
        """What kube-scheduler counts of ours, per node. The filters say the rest."""
        shares = self._request.shares
        asked = {ask.resource: ask.count for ask in self._request.units}
        if shares is not None:
            asked[self._resources.share] = shares.total_mib
            unplaced = [int(relief.unplaced) for relief in departures.reliefs]
            yield Need(len(departures.held.unplaced), unplaced)
        allocatable = departures.info.allocatable
        if allocatable is not None:
            for name, count in asked.items():
                free = allocatable.get(name, 0) - departures.held.requested[name]
                gains = [relief.requested.get(name, 0) for relief in departures.reliefs]
                yield Need(count - free, gains)


class _Case:
    """One node with the pods that may leave it, and what they must free."""

    def __init__(
        self,
        departures: Departures,
        needs: Sequence[Need],
        pricing: Pricing,
        request: GpuRequest,
        evaluations: int,
    ) -> None:
        self.departures = departures
        self.pods = departures.pods
        self.pricing = pricing
        self._needs = needs
        self._request = request
        self._evaluations = evaluations

    def suffices(self, gone: Gone) -> bool:
        """Whether the request fits when these leave."""
        return all(need.met_by(gone) for need in self._needs) and self.departures.fits(gone)

    def cheapest(self, proposed: Gone) -> Gone | None:
        """The cheapest that suffice; those proposed where nothing is cheaper; None where nothing suffices."""
        known = proposed if proposed and self.suffices(proposed) else None
        steps = Steps(self._evaluations * _STEPS_PER_EVALUATION)
        bound = self.pricing.cost(known) if known is not None else None
        found = self._search(bound, steps)
        if not steps.exhausted:
            return known if found is None else found
        # What was found may not be the cheapest, nor the least.
        starts = [start for start in (known, found, tuple(range(len(self.pods)))) if start is not None]
        sets = [gone for start in starts if (gone := self.reprieved(start)) is not None]
        return min(sets, key=self.pricing.cost, default=None)

    def reprieved(self, gone: Gone) -> Gone | None:
        """Of pods that suffice those that remain when one after the other is spared, as kube-scheduler does:
        who violates a budget first, then the most important; None where these do not suffice."""
        if not self.suffices(gone):
            return None
        over = self.pricing.over(gone)
        order = tuple(i for _, i in sorted(zip((not each for each in over), gone, strict=True)))
        fewer = self._spared(gone, order)
        # Again, for who could not be spared while another had left may be now.
        while fewer != gone:
            gone = fewer
            for i in order:
                fewer = self._spared(fewer, (i,))
        return gone

    def _spared(self, gone: Gone, order: Gone) -> Gone:
        """What remains when those are spared in that order; many can be, so they are tried together first."""
        fewer = tuple(i for i in gone if i not in order)
        if len(fewer) == len(gone) or self.suffices(fewer):
            return fewer
        if len(order) == 1:
            return gone
        half = len(order) // 2
        return self._spared(self._spared(gone, order[:half]), order[half:])

    def _search(self, below: Cost | None, steps: Steps) -> Gone | None:
        sets = merge(
            *(
                cheapest_first(focus.kinds, [*focus.needs, *self._needs], self.pricing, below, steps)
                for focus in focuses(self.departures, self.pricing, self._needs, self._request)
            )
        )
        together, most = _TOGETHER
        batch: list[Gone] = []
        for _, gone in sets:
            batch.append(gone)
            if len(batch) < together:
                continue
            if (found := self.departures.first_fit(batch)) is not None:
                return found
            batch, together = [], min(most, 2 * together)
            if self.departures.evaluations >= self._evaluations:
                steps.left = -1
                return None
        return self.departures.first_fit(batch)


def _in_order(
    pods: Sequence[BoundPod], unknown: Sequence[str], named: Sequence[str], known: Mapping[str, BoundPod]
) -> tuple[str, ...]:
    """The most important first, because kube-scheduler takes the first for that. An unknown pod is at least
    as important as those that kube-scheduler named after it."""
    rows = [(pod.priority, pod.uid) for pod in pods]
    for uid in reversed(unknown):
        after = [known[each].priority for each in named[named.index(uid) :] if each in known]
        floor = max(after, default=NO_PRIORITY - 1)
        place = next((i for i, (priority, _) in enumerate(rows) if priority <= floor), len(rows))
        rows.insert(place, (floor, uid))
    return tuple(uid for _, uid in rows)


def _may_free_too_much(request: GpuRequest, empty: Departures) -> bool:
    """Whether the request may fit with some pods still there though it does not without them."""
    report = empty.info.report
    cordoned = report is not None and any(device.cordoned for device in report.devices)
    wishes = (
        request.models or request.min_memory_mib or request.min_free_mib or request.min_compute_capability
    )
    # GPUs that become free may be those that the device plugin is then taken to pick, instead of others.
    picked = bool(request.units) or any(empty.held.unknown.values())
    return cordoned or (picked and (bool(wishes) or request.shares is not None))
