"""Answers preempt: which of kube-scheduler's candidates help, and which pods to evict there."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, takewhile
from threading import Lock
from typing import TypeVar

from cachetools import TTLCache

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.core.preemption.victim_candidate import Candidate, Victims
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.budgets import Budgets
from scheduler_ext.extender.preemption_answers import BEHIND_S, PreemptionAnswers, likeliest
from scheduler_ext.wire import kube
from scheduler_ext.wire.extender_args import PreemptionArgs, decode_preemption, encode_victims
from scheduler_ext.wire.planned_annotation import may_have_only_node, only_node
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import other_requests
from scheduler_ext.wire.pod.pod_identity import may_preempt, pod_priority, pod_uid
from scheduler_ext.wire.pod.pod_request import pod_request

T = TypeVar("T")

# kube-scheduler examines a hundred candidates or a tenth of all, whichever is more.
_RESCUABLE = 100
_RESCUABLE_PART = 10
# The maximum time that filter spends on the question whether preemption could help.
_RESCUE_S = 0.25
# The part of an answer's time that is left for writing it when the search for cheaper victims ends.
_RESERVED = 0.1
# The number of remembered refusals by filter, each of one pod on a node where it has its place.
_REMEMBERED = 1024


class Advice:
    """What features say about victims; here, nothing."""

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        """The uids of the pods on a node that are evicted before others that are equal otherwise."""
        return ()

    def holds_back(self, uid: str) -> bool:
        """Whether nothing is evicted for a waiting pod, because it is about to get a place without it."""
        return False


class Preemptor:
    """Finds victims on the latest snapshot, with the advice of features."""

    def __init__(
        self,
        sizing: Sizing,
        snapshot: Callable[[], Snapshot | None],
        answers: PreemptionAnswers,
        budgets: Budgets,
        advice: Advice,
    ) -> None:
        self._sizing = sizing
        self._snapshot = snapshot
        self._budgets = budgets
        self._advice = advice
        self._lock = Lock()
        self._refused: TTLCache[tuple[str, str], bool] = TTLCache(_REMEMBERED, BEHIND_S)
        self._answers = answers

    def preempt(self, body: bytes, deadline: float) -> Answer:
        """The reply to preempt. Past the deadline (monotonic) the results so far; RequestError 503 if there
        are none. Raises RequestError (400) naming the field."""
        began = time.monotonic()
        args = _in_place(decode_preemption(body))
        snapshot = self._snapshot()
        if snapshot is None:
            raise RequestError(503, "no inventory yet; try again")
        preemption = self._preemption(args.pod)
        if preemption is None:
            return Answer(encode_victims({}), len(args.proposals), 0)
        chosen = self._on_its_way(args, preemption, snapshot)
        if chosen is None and self._advice.holds_back(pod_uid(args.pod)):
            chosen = {}
        if chosen is None:
            pod = self._asking(args.pod, preemption)
            # Until this request is answered, the pod has no place.
            self._answers.forget(pod.uid)
            self._answers.disprove(pod, {name: each.uids for name, each in args.proposals.items()}, snapshot)
            chosen = likeliest(self._chosen(args, preemption, snapshot, pod, began, deadline), snapshot)
            self._answers.record(pod, _version(args.pod), chosen, snapshot)
        return Answer(encode_victims(chosen), len(args.proposals), len(chosen))

    def _chosen(
        self,
        args: PreemptionArgs,
        preemption: Preemption,
        snapshot: Snapshot,
        pod: BoundPod,
        began: float,
        deadline: float,
    ) -> dict[str, Victims]:
        """The victims on each node."""
        unsettled, nodes = self._answers.unsettled(snapshot), snapshot.nodes
        infos = {name: unsettled.get(name, nodes[name].info) for name in args.proposals if name in nodes}
        proposals = admissible(args, infos, snapshot, pod.uid, pod.priority, self._sizing.resources)
        # The best ones first, in case that time runs out.
        best_first = sorted(proposals.items(), key=lambda item: item[1].price)
        candidates = {
            name: preemption.candidate(each.info, each.uids, each.violations, each.staying)
            for name, each in _in_time(best_first, deadline)
        }
        for candidate in _in_time(by_cost(candidates), deadline - _RESERVED * (deadline - began)):
            candidate.search()
        examined = {name: each.victims for name, each in _in_time(candidates.items(), deadline)}
        chosen = {name: victims for name, victims in examined.items() if victims is not None}
        if not chosen and len(examined) < len(proposals):
            # kube-scheduler takes an empty answer to mean that no node helps, and would not ask again.
            raise RequestError(503, "deadline exceeded; the server is overloaded")
        return chosen

    def refused(self, pod: kube.Pod, nodes: Collection[str]) -> None:
        """Filter has refused a pod on these nodes, although it fits there by kube-scheduler's own filters.
        kube-scheduler may then remove the pod's nomination. If the pod waits for pods that only
        kube-scheduler knows to be gone, its place is kept."""
        uid, nominated = pod_uid(pod), _nominated_node(pod)
        self._observe(pod)
        answer = self._answers.of(uid)
        victims = answer.victims if answer is not None else {}
        mine = [name for name in _expected_on(victims, nominated) if name in nodes]
        with self._lock:
            self._refused.update(((uid, name), True) for name in mine)
        preemption, snapshot = self._preemption(pod) if mine else None, self._snapshot()
        if preemption is None or snapshot is None:
            return
        kept: dict[str, Victims] = {}
        for name in mine:
            if name not in snapshot.nodes:
                continue
            named = victims[name].uids if name in victims else ()
            awaited = preemption.awaited(self._answers.over(snapshot.nodes[name].info), named)
            if awaited:
                kept[name] = Victims(awaited, 0)
        if kept:
            self._answers.record(self._asking(pod, preemption), _version(pod), kept, snapshot, gone=True)

    def _on_its_way(
        self, args: PreemptionArgs, preemption: Preemption, snapshot: Snapshot
    ) -> dict[str, Victims] | None:
        """The answer for a pod whose place is being made already, so that no other pod needs to leave; None
        for any other pod.

        kube-scheduler takes an unresolvable refusal of the nominated node as permanent
        (PodEligibleToPreemptOthers), and would empty one node after the other while the last victim on the
        first is leaving. If its own filters refuse that node permanently, it has not asked filter about it
        and does not propose it; then no pod waits for it.

        kube-scheduler may know of the victims' end before this extender knows of its beginning, and asks
        before the pod itself shows its nomination. Therefore the last answer of preempt counts; and if the
        node would accept the pod now although filter has just refused it, kube-scheduler gets no victims and
        is nudged. Victims that kube-scheduler still proposes may not have been evicted, so they are answered
        again: an empty answer would leave the pod without any event that wakes it."""
        self._observe(args.pod)
        uid, nominated = pod_uid(args.pod), _nominated_node(args.pod)
        answer = self._answers.of(uid)
        victims = answer.victims if answer is not None else {}
        recent = answer is not None and self._answers.is_recent(answer)
        for name in _expected_on(victims, nominated):
            if name not in snapshot.nodes:
                continue
            with self._lock:
                refused = (uid, name) in self._refused
            named = victims.get(name)
            if not (refused or name in args.proposals or (named is not None and recent)):
                continue
            info = self._answers.over(snapshot.nodes[name].info)
            awaited = preemption.awaited(info, named.uids if named is not None else ())
            if awaited or (refused and preemption.fits(info)):
                if named is None or name not in args.proposals:
                    return {}
                return _named_again(args, victims, snapshot)
        return None

    def _observe(self, pod: kube.Pod) -> None:
        """Read kube-scheduler's nomination of the pod from a request."""
        self._answers.observe_pod(pod_uid(pod), _nominated_node(pod), _version(pod))

    def _asking(self, pod: kube.Pod, preemption: Preemption) -> BoundPod:
        """A pod with its constraints, in the form in which it is known where it is nominated."""
        return replace(bound_pod(pod, self._sizing.resources), request=preemption.request)

    def rescuable(self, pod: kube.Pod, names: Sequence[str], snapshot: Snapshot) -> list[str]:
        """The nodes refused by filter that would accept the pod if pods of lower priority left; as many as
        kube-scheduler would examine, and as fit into a moment."""
        preemption = self._preemption(pod)
        if preemption is None:
            return []
        in_time = _in_time(names, time.monotonic() + _RESCUE_S)
        there = ((name, snapshot.nodes[name]) for name in in_time if name in snapshot.nodes)
        found = (name for name, node in there if preemption.rescuable(node.info))
        return list(islice(found, max(_RESCUABLE, len(names) // _RESCUABLE_PART)))

    def _preemption(self, pod: kube.Pod) -> Preemption | None:
        """The pod's search for victims; None for a pod that may not preempt or is unreadable."""
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
        budgets, first = self._budgets.all(), self._advice.goes_first
        return Preemption(request, pod_uid(pod), others, budgets, self._sizing, idle=first)


def _in_time(items: Iterable[T], deadline: float) -> Iterator[T]:
    """The items until the deadline passes."""
    return takewhile(lambda _: time.monotonic() <= deadline, items)


def by_cost(candidates: Mapping[str, Candidate]) -> list[Candidate]:
    """The order of a search for cheaper victims, the best node first, as kube-scheduler takes only one."""
    costs = [(candidate.cost, name) for name, candidate in candidates.items()]
    order = [name for cost, name in sorted((cost, name) for cost, name in costs if cost is not None)]
    # If not even all pods together suffice, fewer may: they would free GPUs that are in the way.
    order += [name for cost, name in costs if cost is None]
    return [candidates[name] for name in order]


def _expected_on(victims: Mapping[str, Victims], nominated: str | None) -> dict[str, None]:
    """The nodes on which a pod may get its place, in order."""
    return dict.fromkeys([*victims, *([nominated] if nominated else [])])


def _version(pod: kube.Pod) -> str:
    return (pod.metadata.resource_version if pod.metadata is not None else None) or ""


def _nominated_node(pod: kube.Pod) -> str | None:
    return (pod.status.nominated_node_name if pod.status is not None else None) or None


def _named_again(
    args: PreemptionArgs, victims: Mapping[str, Victims], snapshot: Snapshot
) -> dict[str, Victims]:
    """The named victims, by node, that kube-scheduler still proposes and that are not leaving; with several
    nodes, none if some victim is leaving, because kube-scheduler has then chosen that node."""
    again: dict[str, Victims] = {}
    for name, named in victims.items():
        if name not in args.proposals or name not in snapshot.nodes:
            continue
        leaving = {pod.uid for pod in snapshot.nodes[name].info.pods if pod.terminating}
        if len(victims) > 1 and not leaving.isdisjoint(named.uids):
            return {}
        uids = tuple(each for each in named.uids if each in args.proposals[name].uids and each not in leaving)
        if uids:
            again[name] = Victims(uids, named.violations)
    return again


@dataclass(frozen=True, slots=True)
class Admissible:
    """The proposal for one node: uids that exist as far as known, the most important first. `staying` are
    the holdings of proposed pods of no lower priority. `price` orders nodes roughly like kube-scheduler."""

    info: NodeInfo
    uids: tuple[str, ...]
    violations: int
    staying: tuple[Mapping[str, Fraction], ...]
    price: tuple[int, ...]


def _in_place(args: PreemptionArgs) -> PreemptionArgs:
    """The request for the place of a gang's member alone, where filter refuses every other node to it."""
    only = only_node(args.pod) if may_have_only_node(args.raw_pod) else None
    if only is None:
        return args
    return PreemptionArgs(
        args.raw_pod, {each: args.proposals[each] for each in args.proposals if each == only}
    )


def admissible(
    args: PreemptionArgs,
    infos: Mapping[str, NodeInfo],
    snapshot: Snapshot,
    uid: str,
    priority: int,
    resources: ResourceNames,
) -> dict[str, Admissible]:
    """The proposal for each of these nodes; `uid` and `priority` are of the pod that looks for a place.
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
        staying = tuple(other_requests(held_spec(pod), resources) for pod in high.values())
        found[name] = Admissible(info, uids, proposal.violations, staying, price)
    return found
