"""Answers preempt: which of kube-scheduler's candidates help, and who is to leave them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from cachetools import TTLCache

from scheduler_ext.core.disruption import Budget
from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node import NodeInfo
from scheduler_ext.core.placement import Sizing
from scheduler_ext.core.preempt import Preemption
from scheduler_ext.core.quantity import QuantityError
from scheduler_ext.core.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.core.victim_candidate import Candidate, Victims
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.proposals import Admissible, admissible
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import may_preempt, other_requests, pod_priority, pod_request, pod_uid
from scheduler_ext.wire.preempt import PreemptionArgs, decode_preemption, encode_victims

# kube-scheduler looks at a hundred candidates or a tenth of those there are, whichever is more.
_RESCUABLE = 100
_RESCUABLE_PART = 10
# What filter spends on the question whether preemption could help, at most.
_RESCUE_S = 0.25
# Of the time for an answer to preempt, what is left for telling it when looking for cheaper victims ends.
_RESERVED = 0.1
# Of so many pods, and for so long, it is known what was answered of them before kube-scheduler's own words on
# that arrive: whose nominated node filter refused, and whom preempt has named.
_REMEMBERED = 1024
_BEHIND_S = 5.0


class Preemptor:
    """Finds victims on the latest snapshot. ``budgets`` are the PodDisruptionBudgets as they are now."""

    def __init__(
        self,
        sizing: Sizing,
        snapshot: Callable[[], Snapshot | None],
        budgets: Callable[[], Sequence[Budget]] = tuple,
    ) -> None:
        self._sizing = sizing
        self._snapshot = snapshot
        self.budgets = budgets
        self._lock = Lock()
        self._refused: TTLCache[tuple[str, str], bool] = TTLCache(_REMEMBERED, _BEHIND_S)
        self._named: TTLCache[str, Mapping[str, Victims]] = TTLCache(_REMEMBERED, _BEHIND_S)

    def preempt(self, body: bytes, deadline: float) -> Answer:
        """The reply to preempt. Past the deadline (monotonic) what was found until then; RequestError 503
        when that is nothing. Raises RequestError (400) naming the field."""
        began = time.monotonic()
        args = decode_preemption(body)
        snapshot = self._snapshot()
        if snapshot is None:
            raise RequestError(503, "no inventory yet; try again")
        preemption = self._preemption(args.pod)
        chosen: dict[str, Victims] = {}
        if preemption is not None and not self._waits(args, preemption, snapshot):
            uid, priority = pod_uid(args.pod), pod_priority(args.pod)
            proposals = admissible(args, snapshot, uid, priority, self._sizing.resources)
            candidates = self._candidates(preemption, proposals, snapshot, deadline)
            _search(candidates, deadline - _RESERVED * (deadline - began))
            told = 0
            for name, candidate in candidates.items():
                if time.monotonic() > deadline:
                    break
                told += 1
                if (victims := candidate.victims) is not None:
                    chosen[name] = victims
            if not chosen and told < len(proposals):
                # To kube-scheduler an empty answer means that nobody helps: it would ask no more.
                raise RequestError(503, "deadline exceeded; the server is overloaded")
            with self._lock:
                self._named[uid] = chosen
        return Answer(encode_victims(chosen), len(args.proposals), len(chosen))

    @staticmethod
    def _candidates(
        preemption: Preemption, proposals: Mapping[str, Admissible], snapshot: Snapshot, deadline: float
    ) -> dict[str, Candidate]:
        """Every node with victims that are good enough, before any is looked at more closely; those first
        that kube-scheduler would take."""
        candidates: dict[str, Candidate] = {}
        for name in sorted(proposals, key=lambda name: proposals[name].price):
            if time.monotonic() > deadline:
                break
            proposal = proposals[name]
            candidates[name] = preemption.candidate(
                proposal.info, proposal.uids, proposal.violations, proposal.staying
            )
        return candidates

    def refused_nominated(self, uid: str, node: str) -> None:
        """Filter has refused a pod on the node that it is nominated to."""
        with self._lock:
            self._refused[uid, node] = True

    def _waits(self, args: PreemptionArgs, preemption: Preemption, snapshot: Snapshot) -> bool:
        """Whether a pod's place is on its way already, so that nobody else need leave.

        kube-scheduler takes it that an unresolvable refusal of the nominated node is for good
        (PodEligibleToPreemptOthers), and would empty one node after the other for as long as the last victim
        on the first takes to leave. Where its own filters refuse that node for good, it has not asked filter
        about it, nor does it propose it: then nobody waits for it.

        kube-scheduler may know of the victims' end before we know of its beginning. So those count as leaving
        whom preempt has just named there; and where the node would take the pod by now though filter has just
        refused it, kube-scheduler is told so and asks again.
        """
        pod = args.pod
        name = pod.status.nominated_node_name if pod.status is not None else None
        info = _known(name, snapshot) if name else None
        if name is None or info is None:
            return False
        uid = pod_uid(pod)
        with self._lock:
            refused = (uid, name) in self._refused
            named = self._named.get(uid, {}).get(name)
        if not refused and named is None and name not in args.proposals:
            return False
        if preemption.awaits(info, named.uids if named is not None else ()):
            return True
        return refused and preemption.fits(info)

    def rescuable(self, pod: kube.Pod, names: Sequence[str], snapshot: Snapshot) -> list[str]:
        """Of nodes that filter refuses, those that would take the pod if pods of lower priority left; as many
        as kube-scheduler would look at, and as can be told in a moment."""
        preemption = self._preemption(pod)
        if preemption is None:
            return []
        found: list[str] = []
        most = max(_RESCUABLE, len(names) // _RESCUABLE_PART)
        end = time.monotonic() + _RESCUE_S
        for name in names:
            node = snapshot.nodes.get(name)
            if node is not None and preemption.rescuable(node.info):
                found.append(name)
            if len(found) == most or time.monotonic() > end:
                break
        return found

    def _preemption(self, pod: kube.Pod) -> Preemption | None:
        """How a pod looks for victims; None for one that may not, or that cannot be read."""
        resources = self._sizing.resources
        if not may_preempt(pod):
            return None
        try:
            request = pod_request(pod, resources)
            others = other_requests(pod.spec or kube.PodSpec(), resources)
        except QuantityError as error:
            raise RequestError(400, f"Pod.spec: {error}") from None
        if isinstance(request, InvalidRequest):
            return None
        assert isinstance(request, GpuRequest)
        return Preemption(
            request,
            pod_uid(pod),
            others,
            self.budgets(),
            self._sizing.policy,
            resources,
            self._sizing.headroom_percent,
        )


def _search(candidates: Mapping[str, Candidate], end: float) -> None:
    """Find cheaper victims on one node after the other, the best first, for kube-scheduler takes one only."""
    costs = [(candidate.cost, name) for name, candidate in candidates.items()]
    order = [name for cost, name in sorted((cost, name) for cost, name in costs if cost is not None)]
    # Where not even all pods together suffice, fewer may: they would free GPUs that are in the way.
    order += [name for cost, name in costs if cost is None]
    for name in order:
        if time.monotonic() > end:
            return
        candidates[name].search()


def _known(name: str, snapshot: Snapshot) -> NodeInfo | None:
    node = snapshot.nodes.get(name)
    return node.info if node is not None else None
