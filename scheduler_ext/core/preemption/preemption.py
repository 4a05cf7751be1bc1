"""Who is to leave a node so that a pod of higher priority fits: the cheapest set of pods that suffices.

Whether one suffices is asked of the filters themselves, so that filter accepts what preempt has accepted.
What is not ours to see, kube-scheduler counts: of every other resource, as much is freed as by its proposal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction

from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import seen_by
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, most_important_first
from scheduler_ext.core.preemption.dry_run import DryRun, without
from scheduler_ext.core.preemption.node_likeness import likeness
from scheduler_ext.core.preemption.other_resources import Freed
from scheduler_ext.core.preemption.victim_candidate import Candidate, Case, Proposed, Victims
from scheduler_ext.core.preemption.victim_choice import Choice
from scheduler_ext.core.preemption.victim_search import Need, Pricing
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames

# Sets of pods that one node may be asked about before kube-scheduler's own way is gone.
EVALUATIONS = 64


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
        self._request = self.request = request
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
        # By what tells nodes apart.
        self._cases: dict[Hashable, Case] = {}
        self._rescuable: dict[Hashable, bool] = {}

    def victims(
        self,
        info: NodeInfo,
        named: Sequence[str] = (),
        counted: int = 0,
        staying: Sequence[Mapping[str, Fraction]] = (),
    ) -> Victims | None:
        """The cheapest pods whose departure makes the request fit on a node, None where none do."""
        candidate = self.candidate(info, named, counted, staying)
        candidate.search()
        return candidate.victims

    def candidate(
        self,
        info: NodeInfo,
        named: Sequence[str] = (),
        counted: int = 0,
        staying: Sequence[Mapping[str, Fraction]] = (),
    ) -> Candidate:
        """A node with those who suffice at once, where any do.

        ``named`` are the uids that kube-scheduler proposes, the most important first, and ``counted`` the
        violations it counts for them. Of those, pods that are not known here (they hold no GPU) stay.
        ``staying`` is what others that it proposes hold, by resource: those must not leave.
        """
        named = list(dict.fromkeys(named))
        info = seen_by(info, self._uid, self._request.priority)
        pods = most_important_first(info.pods)
        places = {pod.uid for pod in pods}
        unknown = [uid for uid in named if uid not in places]
        alike = likeness(info, pods, budgets_of(pods, self._budgets), named, self._request)
        uids = [*(pod.uid for pod in pods), *unknown]
        if alike is None:
            return Candidate(self._case(info, named, unknown, counted, staying, uids), uids)
        key = (alike, counted if unknown else 0, tuple(frozenset(each.items()) for each in staying))
        if key not in self._cases:
            self._cases[key] = self._case(info, named, unknown, counted, staying, uids)
        return Candidate(self._cases[key], uids)

    def fits(self, info: NodeInfo) -> bool:
        """Whether a node takes the pod as it is."""
        return self._fits(seen_by(info, self._uid, self._request.priority))

    def awaited(self, info: NodeInfo, evicted: Collection[str] = ()) -> tuple[str, ...]:
        """The uids of those of lower priority that leave a node already, where it takes the pod when they
        have left and not yet before; else none. ``evicted`` are uids of some that leave though the
        watch does not show it yet."""
        seen = seen_by(info, self._uid, self._request.priority)
        leaving = [pod for pod in self._lower(seen, evicted) if pod.terminating or pod.uid in evicted]
        waits = leaving and self._fits(without(seen, leaving)) and not self._fits(seen)
        return tuple(pod.uid for pod in leaving) if waits else ()

    def rescuable(self, info: NodeInfo) -> bool:
        """Whether a node that filter refuses would take the pod if pods of lower priority left."""
        seen = seen_by(info, self._uid, self._request.priority)
        pods = most_important_first(seen.pods)
        alike = likeness(seen, pods, [()] * len(pods), (), self._request)
        if alike is None:
            return self._is_rescuable(seen)
        if alike not in self._rescuable:
            self._rescuable[alike] = self._is_rescuable(seen)
        return self._rescuable[alike]

    def _is_rescuable(self, seen: NodeInfo) -> bool:
        lower = self._lower(seen)
        if not lower:
            return False
        empty = self._departures(without(seen, lower), [])
        if empty.fits(()):
            return not self._fits(seen)
        # All at once may free too much: GPUs that do not meet the pod's wishes, one that is cordoned.
        return _may_free_too_much(self._request, empty) and self.victims(seen) is not None

    def _lower(self, info: NodeInfo, named: Collection[str] = ()) -> list[BoundPod]:
        """The pods that may have to leave, the most important first.

        One that is only assumed may if kube-scheduler names it, which then knows it there: whether its
        binding succeeds or fails, its place is free once it is deleted. That of which two extenders have
        chosen different GPUs counts twice, and stays.
        """
        here = Counter(pod.uid for pod in info.pods)
        staying = {uid for uid in info.assumed if uid not in named or here[uid] > 1}
        return most_important_first(
            pod
            for pod in info.pods
            if pod.holds and pod.uid and pod.priority < self._request.priority and pod.uid not in staying
        )

    def _fits(self, seen: NodeInfo) -> bool:
        return self._departures(seen, []).fits(())

    def _case(
        self,
        info: NodeInfo,
        named: Sequence[str],
        unknown: Sequence[str],
        counted: int,
        staying: Sequence[Mapping[str, Fraction]],
        uids: Sequence[str],
    ) -> Case:
        lower = self._lower(info, named)
        leaving = [pod for pod in lower if pod.terminating]
        known = {pod.uid: pod for pod in info.pods}
        freed = Freed([known[uid] for uid in named if uid in known], len(unknown), staying)
        proposed = Proposed(named, unknown, counted, known, leaving, uids)
        remaining = [pod for pod in lower if not pod.terminating]
        choice = self._choice(without(info, leaving), remaining, freed, leaving)
        return Case(choice, proposed, lambda: self._choice(info, leaving, freed, ()))

    def _choice(
        self, info: NodeInfo, pods: Sequence[BoundPod], freed: Freed, leaving: Sequence[BoundPod]
    ) -> Choice:
        departures = self._departures(info, pods)
        needs = [*freed.needs(self._other_requests, pods, leaving), *self._gpu_needs(departures)]
        return Choice(departures, needs, Pricing(pods, self._budgets), self._request, self._evaluations)

    def _departures(self, info: NodeInfo, pods: Sequence[BoundPod]) -> DryRun:
        return DryRun(
            info,
            pods,
            self._request,
            self._policy,
            self._resources,
            self._headroom_percent,
            self._steps,
        )

    def _gpu_needs(self, departures: DryRun) -> Iterator[Need]:
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


def _may_free_too_much(request: GpuRequest, empty: DryRun) -> bool:
    """Whether the request may fit with some pods still there though it does not without them."""
    report = empty.info.report
    cordoned = report is not None and any(device.cordoned for device in report.devices)
    wishes = (
        request.models or request.min_memory_mib or request.min_free_mib or request.min_compute_capability
    )
    # GPUs that become free may be those that the device plugin is then taken to pick, instead of others.
    picked = bool(request.units) or any(empty.held.unknown.values())
    return cordoned or (picked and (bool(wishes) or request.shares is not None))
