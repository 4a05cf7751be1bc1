"""Which pods are to leave a node so that a pod of higher priority fits: the cheapest set that suffices. The
filters themselves say whether a set suffices, so that filter accepts what preempt has accepted.
kube-scheduler counts the other resources: of each of them as much is freed as by its own proposal."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.node.placed import with_planned
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, most_important_first
from scheduler_ext.core.preemption.dry_run import DryRun, without
from scheduler_ext.core.preemption.node_likeness import likeness
from scheduler_ext.core.preemption.victim_candidate import Candidate, Case, Choice, Proposed, Victims
from scheduler_ext.core.preemption.victim_search import Need, Pricing, gpu_needs, other_needs
from scheduler_ext.core.request.request import GpuRequest

# Sets of pods that are evaluated on one node before the search falls back to kube-scheduler's own way.
EVALUATIONS = 64
_ZERO = Fraction(0)
_Amounts = Mapping[str, Fraction]


@dataclass(eq=False)
class Preemption:
    """One pod that looks for victims, on any number of nodes. `uid` is the pod's; `other_requests` are
    its requests of resources that are no GPU's. `evaluations` bounds how many sets of pods are tried per
    node before the search gives way to reprieving one by one. `idle` returns the uids of the pods on a node
    that go first among otherwise equal ones."""

    request: GpuRequest
    uid: str
    other_requests: _Amounts
    budgets: Sequence[Budget]
    sizing: Sizing
    evaluations: int = EVALUATIONS
    idle: Callable[[NodeInfo], Collection[str]] = lambda _: frozenset()
    # For all nodes together, since a pod of many shares could otherwise be placed thousands of times. Once
    # these are used up, a share that is not placed at once counts as not fitting, as in filter.
    _steps: list[int] = field(default_factory=lambda: [MAX_SEARCH_STEPS])
    # By the values that distinguish nodes.
    _cases: dict[Hashable, Case] = field(default_factory=dict)
    _rescuable: dict[Hashable, bool] = field(default_factory=dict)

    def victims(
        self, info: NodeInfo, named: Sequence[str] = (), counted: int = 0, staying: Sequence[_Amounts] = ()
    ) -> Victims | None:
        """The cheapest pods whose departure makes the request fit on a node; None if there are none."""
        candidate = self.candidate(info, named, counted, staying)
        candidate.search()
        return candidate.victims

    def candidate(
        self, info: NodeInfo, named: Sequence[str] = (), counted: int = 0, staying: Sequence[_Amounts] = ()
    ) -> Candidate:
        """A node with pods that suffice and are known at once, if there are any. `named` are the uids
        that kube-scheduler proposes, the most important first, and `counted` the violations it counts for
        them. Those that are unknown here (they hold no GPU) stay. `staying` are the requests, by resource,
        of other proposed pods that must not leave."""
        named = list(dict.fromkeys(named))
        info = self._seen(info)
        idle = self.idle(info)
        pods = most_important_first(info.pods, idle)
        known = {pod.uid: pod for pod in pods}
        unknown = [uid for uid in named if uid not in known]
        uids = [*(pod.uid for pod in pods), *unknown]
        proposed = Proposed(named, unknown, counted, known, uids)
        alike = likeness(info, pods, budgets_of(pods, self.budgets), named, self.request)
        if alike is None:
            return Candidate(self._case(info, proposed, staying, idle), uids)
        lazy = tuple(pod.uid in idle for pod in pods)
        key = (alike, lazy, counted if unknown else 0, tuple(frozenset(each.items()) for each in staying))
        if key not in self._cases:
            self._cases[key] = self._case(info, proposed, staying, idle)
        return Candidate(self._cases[key], uids)

    def fits(self, info: NodeInfo) -> bool:
        return self._fits(self._seen(info))

    def awaited(self, info: NodeInfo, evicted: Collection[str] = ()) -> tuple[str, ...]:
        """The uids of the leaving pods of lower priority where the node takes the pod once they have left and
        not before; empty otherwise. `evicted` are leaving although the watch does not show it yet."""
        seen = self._seen(info)
        leaving = [pod for pod in self._lower(seen, evicted) if pod.terminating or pod.uid in evicted]
        waits = leaving and self._fits(without(seen, leaving)) and not self._fits(seen)
        return tuple(pod.uid for pod in leaving) if waits else ()

    def rescuable(self, info: NodeInfo) -> bool:
        """Whether a node that filter refuses would take the pod if pods of lower priority left."""
        seen = self._seen(info)
        pods = most_important_first(seen.pods)
        alike = likeness(seen, pods, [()] * len(pods), (), self.request)
        if alike is None:
            return self._is_rescuable(seen)
        if alike not in self._rescuable:
            self._rescuable[alike] = self._is_rescuable(seen)
        return self._rescuable[alike]

    def _is_rescuable(self, seen: NodeInfo) -> bool:
        lower = self._lower(seen)
        if not lower:
            return False
        empty = self._dry_run(without(seen, lower), [])
        if empty.fits(()):
            return not self._fits(seen)
        # All departures at once may free too much: GPUs that do not meet the pod's constraints, or a
        # cordoned GPU.
        return _may_free_too_much(self.request, empty) and self.victims(seen) is not None

    def _lower(self, info: NodeInfo, named: Collection[str] = ()) -> list[BoundPod]:
        """The pods that may have to leave, the most important first; an assumed pod if kube-scheduler names
        it and thus knows it there. A pod for which two extenders have chosen different GPUs stays."""
        here = Counter(pod.uid for pod in info.pods)
        staying = {uid for uid in info.assumed if uid not in named or here[uid] > 1}
        return most_important_first(
            pod
            for pod in info.pods
            if pod.holds and pod.uid and pod.priority < self.request.priority and pod.uid not in staying
        )

    def _seen(self, info: NodeInfo) -> NodeInfo:
        seen = with_nominated_pods(info, self.uid, self.request.priority)
        return with_planned(seen, self.sizing.resources)

    def _fits(self, seen: NodeInfo) -> bool:
        return self._dry_run(seen, []).fits(())

    def _dry_run(self, info: NodeInfo, pods: Sequence[BoundPod]) -> DryRun:
        return DryRun(info, pods, self.request, self.sizing, self._steps)

    def _case(
        self, info: NodeInfo, proposed: Proposed, staying: Sequence[_Amounts], idle: Collection[str]
    ) -> Case:
        lower = most_important_first(self._lower(info, proposed.named), idle)
        leaving = [pod for pod in lower if pod.terminating]
        remaining = [pod for pod in lower if not pod.terminating]
        theirs = [proposed.known[uid] for uid in proposed.named if uid in proposed.known]
        unknown = len(proposed.unknown)

        def choice(info: NodeInfo, pods: Sequence[BoundPod], leaving: Sequence[BoundPod]) -> Choice:
            dry_run = self._dry_run(info, pods)
            # A pod that is gone has freed its resources already, whether it is named or not.
            gone = [*leaving, *(pod for pod in theirs if not pod.holds)]
            needs = [
                *self._other_needs(pods, gone, [*(pod.other_requests for pod in theirs), *staying]),
                # Every pod takes one of the pods that a node may have.
                Need(min(1, len(theirs) + unknown) - len(gone) - unknown, [1] * len(pods)),
                *gpu_needs(dry_run),
            ]
            return Choice(dry_run, needs, Pricing(pods, self.budgets, idle), self.evaluations)

        now = choice(without(info, leaving), remaining, leaving)
        return Case(now, proposed, leaving, lambda: choice(info, leaving, ()))

    def _other_needs(
        self, pods: Sequence[BoundPod], gone: Sequence[BoundPod], proposed: Sequence[_Amounts]
    ) -> Iterator[Need]:
        """For each other resource: the amount that the proposal frees, up to the requested amount."""
        asked = {}
        for name, much in self.other_requests.items():
            if name != "pods":
                freed = sum((_amount(each, name) for each in proposed), _ZERO)
                asked[name] = min(freed, much)
        free = {name: sum((_amount(pod.other_requests, name) for pod in gone), _ZERO) for name in asked}
        yield from other_needs(asked, free, [pod.other_requests for pod in pods])


def _amount(requests: _Amounts, name: str) -> Fraction:
    return max(_ZERO, requests.get(name, _ZERO))


def _may_free_too_much(request: GpuRequest, empty: DryRun) -> bool:
    """Whether the request may fit beside some of the pods though it does not fit without all of them."""
    cordoned = any(device.cordoned for device in empty.info.devices)
    constraints = (
        request.models or request.min_memory_mib or request.min_free_mib or request.min_compute_capability
    )
    # The device plugin may then pick GPUs that became free instead of others.
    picked = bool(request.units) or any(empty.held.unknown.values())
    return cordoned or (picked and (bool(constraints) or request.shares is not None))
