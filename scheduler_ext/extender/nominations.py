"""Requests about a pod that has a place: its nomination, or a planned place that kube-scheduler has not seen
yet. They are decided on that node alone, and take no longer in a large cluster."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.generation import Generation
from scheduler_ext.extender.preemption_answers import PreemptionAnswers
from scheduler_ext.wire.extender_args import ExtenderArgs
from scheduler_ext.wire.pod.pod_identity import pod_priority, pod_uid

# Occurs in the bytes of every pod with a nomination and of few others, so that few pods are decoded.
NOMINATED = b'"nominatedNodeName"'
# More than a planner gives places at a time.
_REMEMBERED = 1024


class NominatedDecision(NamedTuple):
    """The decision about the only node that counts for a request, and its position among the names."""

    position: int
    decision: Decision


class Nominations:
    """Safe to use from several threads."""

    def __init__(self, answers: PreemptionAnswers, policy: SchedulingPolicy) -> None:
        self._planned: Mapping[str, str] = {}
        self._answers = answers
        self._policy = policy
        self._misfits: deque[str] = deque(maxlen=_REMEMBERED)

    def decide_nominated(
        self, args: ExtenderArgs, request: GpuRequest | InvalidRequest, generation: Generation
    ) -> NominatedDecision | None:
        """The decision on the nominated or planned place of a pod. None for any other pod, and where the
        place does not do and kube-scheduler has asked about other nodes, too."""
        if args.nodes is not None or not isinstance(request, GpuRequest):
            return None
        snapshot, nominated = generation.snapshot, _nominated_to(args)
        planned = None
        if self._planned or snapshot.planned:
            uid = pod_uid(args.pod)
            planned = self._planned.get(uid) or _given_to(uid, snapshot)
        node = nominated or planned
        if node is None or node not in snapshot.nodes:
            return None
        found = self._on(node, args, request, generation) if node in args.names else None
        if found is not None and found.decision.fits[found.decision.snapshot.state_at(node)]:
            return found
        if node == planned:
            self._misfits.append(pod_uid(args.pod))
        return found if nominated is not None else None

    def plan(self, nodes: Mapping[str, str]) -> None:
        """A planner of this process gives these pods places: the node of each, by its uid, which the snapshot
        may not show yet."""
        self._planned = nodes

    def take_misfits(self) -> list[str]:
        """The uids of the pods whose planned place did not do since the last call."""
        return [self._misfits.popleft() for _ in range(len(self._misfits))]

    def _on(
        self, node: str, args: ExtenderArgs, request: GpuRequest, generation: Generation
    ) -> NominatedDecision:
        info = self._answers.over(generation.snapshot.nodes[node].info)
        info = with_nominated_pods(info, pod_uid(args.pod), pod_priority(args.pod))
        decision = filter_nodes(request, generation.alone(node, info), self._policy)
        return NominatedDecision(args.names.index(node), decision)


def _given_to(uid: str, snapshot: Snapshot) -> str | None:
    """The node where a pod has a place; room that its gang still waits for is none."""
    node = snapshot.planned.node_of(uid)
    if node is None or node not in snapshot.nodes:
        return None
    planned = snapshot.nodes[node].info.planned
    return None if any(pod.uid == uid and pod.expected for pod in planned) else node


def _nominated_to(args: ExtenderArgs) -> str | None:
    """The node of a request that kube-scheduler makes first for a nominated pod: about this node alone."""
    if len(args.names) != 1 or NOMINATED not in args.raw_pod:
        return None
    status = args.pod.status
    return args.names[0] if status is not None and status.nominated_node_name == args.names[0] else None
