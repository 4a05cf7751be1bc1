"""The latest answers of preempt: each keeps room for one pod, though the inventory does not show it yet.

    answered ──► a watch shows the pod's nomination, or that all victims leave ──► 5 s later, forgotten
      ├──► the pod is bound, gone, or nominated to another node than those of the answer ──► forgotten
      └──► a minute passes without news ──► forgotten

The watch lags behind kube-scheduler: seconds on a busy control plane, up to 38 s after a restart of the API
server. Until it shows a nomination, other pods would be given the same room, and its victims again."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from scheduler_ext.core.cycle.placement import Sizing, place_nominated
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.node.nominated import both_fit, nodes_with_nominated_pods, with_nomination
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.core.snapshot.snapshot import Snapshot

# A restart of the API server silences a watch for 38 s; later, an unused answer is not kept.
EXPIRES_S = 60.0
# The nomination and the end of the victims are written within this time.
BEHIND_S = 5.0
_REMEMBERED = 128
# Each filter checks all nodes of all answers, and of hundreds of equal nodes kube-scheduler takes one.
_NODES = 16


@dataclass(frozen=True, slots=True)
class PreemptionAnswer:
    """The answer for one pod: `victims` by node; kube-scheduler chose one of these nodes. As of the answer:
    `known` are the uids of the victims known there, `leaving` of those already leaving, `before` is the
    node that the pod was nominated to, and `version` its resourceVersion. Times are monotonic."""

    pod: BoundPod
    version: str
    victims: Mapping[str, Victims]
    known: frozenset[str]
    leaving: frozenset[str]
    before: str | None
    answered_at: float
    until: float


class PreemptionAnswers:
    """Safe to use from several threads; false while there are none."""

    def __init__(self, sizing: Sizing, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sizing = sizing
        self._monotonic = monotonic
        self._lock = Lock()
        # By uid; replaced and never changed, so that readers need no lock.
        self._answers: dict[str, PreemptionAnswer] = {}
        self._ended: set[str] = set()
        # Nodes with their answers, because every filter needs them: by name, with their sources.
        self._laid: dict[str, tuple[NodeInfo, tuple[int, ...], NodeInfo, tuple[PreemptionAnswer, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._answers)

    def record(
        self,
        pod: BoundPod,
        version: str,
        victims: Mapping[str, Victims],
        snapshot: Snapshot,
        *,
        gone: bool = False,
    ) -> None:
        """Preempt answers with these victims for a pod, in place of earlier ones. Only nodes that
        kube-scheduler can choose count. `gone`: kube-scheduler knows that these victims have left."""
        now = self._monotonic()
        likely = _chosen_from(victims, snapshot)
        nominated = (snapshot.nodes[name].info for name in snapshot.unsettled)
        before = next((info.name for info in nominated if pod.uid in _uids(info.nominated)), None)
        there = [other for name in likely for other in snapshot.nodes[name].info.pods]
        answer = PreemptionAnswer(
            pod,
            version,
            {name: victims[name] for name in likely},
            frozenset(_uids(there)),
            frozenset(_uids(other for other in there if other.terminating or gone)),
            before,
            now,
            now + EXPIRES_S,
        )
        with self._lock:
            self._put(pod.uid, answer if likely else None)

    def of(self, uid: str) -> PreemptionAnswer | None:
        """The answer for a pod, if it was given a short time ago."""
        self._expire()
        return self._answers.get(uid)

    def is_recent(self, answer: PreemptionAnswer) -> bool:
        """Whether an answer is so new that kube-scheduler may not have written the nomination yet."""
        return self._monotonic() < answer.answered_at + BEHIND_S

    def forget(self, uid: str) -> None:
        """Remove the answer for a pod."""
        with self._lock:
            self._put(uid, None)

    def over(self, info: NodeInfo) -> NodeInfo:
        """A node with the answers about it, as if the watch showed them; the same object without any."""
        self._expire()
        here = tuple(answer for answer in self._answers.values() if info.name in answer.victims)
        if not here:
            return info
        known = self._laid.get(info.name)
        if known is not None and known[0] is info and known[1] == tuple(map(id, here)):
            return known[2]
        seen = info
        for answer in here:
            seen = with_nomination(seen, answer.pod, answer.victims[info.name].uids)
        if any(pod.request.shares is not None for pod in seen.nominated):
            seen = place_nominated(seen, self._sizing)
        # Together with the answers, so that their ids stay unique.
        self._laid[info.name] = info, tuple(map(id, here)), seen, here
        return seen

    def unsettled(self, snapshot: Snapshot) -> dict[str, NodeInfo]:
        """The nodes that pods see differently, with the answers about them."""
        infos = {name: snapshot.nodes[name].info for name in snapshot.unsettled}
        for name in {name for answer in self._answers.values() for name in answer.victims}:
            if name in snapshot.nodes:
                infos[name] = self.over(snapshot.nodes[name].info)
        return infos

    def nodes_with_nominated_pods(self, snapshot: Snapshot, uid: str, priority: int) -> dict[str, NodeInfo]:
        """The nodes that a pod of that uid and priority sees differently, as it may count on them."""
        infos = self.unsettled(snapshot)
        for name in snapshot.planned.nodes_with_planned_pods(uid, priority):
            infos.setdefault(name, snapshot.nodes[name].info)
        return nodes_with_nominated_pods(infos.values(), uid, priority)

    def observe_pod(self, uid: str, nominated: str | None, version: str) -> None:
        """kube-scheduler sends a pod with its nomination."""
        with self._lock:
            if (answer := self._answers.get(uid)) is not None and nominated:
                self._follow_nomination(answer, nominated, _is_newer(version, answer.version))

    def disprove(self, asking: BoundPod, proposed: Mapping[str, Sequence[str]], snapshot: Snapshot) -> None:
        """If kube-scheduler may have chosen one of several nodes for a pod, remove those where it now
        proposes victims (uids by node) for another pod and sees no room for both."""
        for uid, answer in list(self._answers.items()):
            if len(answer.victims) == 1 or uid == asking.uid or answer.pod.priority < asking.priority:
                continue
            possible = {
                name: victims
                for name, victims in answer.victims.items()
                if name not in proposed
                or name not in snapshot.nodes
                or both_fit(
                    self._certain(snapshot.nodes[name].info),
                    answer.pod,
                    asking,
                    {*proposed[name], *victims.uids},
                    self._sizing.resources,
                )
            }
            with self._lock:
                if self._answers.get(uid) is answer:
                    # If no node is possible, kube-scheduler has chosen none: the answer had no effect.
                    self._put(uid, replace(answer, victims=possible) if possible else None)

    def _certain(self, info: NodeInfo) -> NodeInfo:
        """The node with those answers that are about no other node."""
        for answer in self._answers.values():
            if answer.victims.keys() == {info.name}:
                info = with_nomination(info, answer.pod, answer.victims[info.name].uids)
        return info

    def observe_nodes(self, infos: Iterable[NodeInfo]) -> None:
        """These nodes are published in their present state."""
        if not self._answers:
            return
        now = self._monotonic()
        with self._lock:
            for info in infos:
                for pod in info.nominated:
                    if (answer := self._answers.get(pod.uid)) is not None:
                        self._follow_nomination(answer, info.name, info.name != answer.before)
                for pod in info.pods:
                    if pod.uid in self._answers and pod.uid not in info.assumed:
                        self._put(pod.uid, None)
                for answer in list(self._answers.values()):
                    if info.name in answer.victims and _all_leave(answer, info):
                        self._shorten(answer, now)

    def follow(self, pending: Callable[[str], PendingPod | None], is_gone: Callable[[str], bool]) -> set[str]:
        """Compare answers with the known pods; returns the nodes of those that ended since the last call."""
        self._expire()
        now = self._monotonic()
        with self._lock:
            for uid, answer in list(self._answers.items()):
                known = pending(uid)
                if is_gone(uid):
                    self._put(uid, None)
                elif known is not None and _is_newer(known.resource_version, answer.version):
                    # kube-scheduler, or another client, wrote this after the answer.
                    self._shorten(answer, now)
            ended, self._ended = self._ended, set()
        return ended

    def _follow_nomination(self, answer: PreemptionAnswer, node: str, is_new: bool) -> None:
        """A pod is nominated to a node; `is_new`: since its answer."""
        uid, victims = answer.pod.uid, answer.victims.get(node)
        if victims is not None:
            if len(answer.victims) > 1:
                self._put(uid, replace(answer, victims={node: victims}))
        elif is_new:
            self._put(uid, None)

    def _shorten(self, answer: PreemptionAnswer, now: float) -> None:
        until = min(answer.until, now + BEHIND_S)
        if until != answer.until and self._answers.get(answer.pod.uid) is answer:
            self._put(answer.pod.uid, replace(answer, until=until))

    def _expire(self) -> None:
        if not self._answers:
            return
        now = self._monotonic()
        over = [uid for uid, answer in self._answers.items() if answer.until <= now]
        if over:
            with self._lock:
                for uid in over:
                    if (answer := self._answers.get(uid)) is not None and answer.until <= now:
                        self._put(uid, None)

    def _put(self, uid: str, answer: PreemptionAnswer | None) -> None:
        answers = dict(self._answers)
        before = answers.pop(uid, None)
        if before is not None:
            self._ended.update(before.victims if answer is None else before.victims.keys() - answer.victims)
        if answer is not None:
            answers[uid] = answer
            if len(answers) > _REMEMBERED:
                self._ended.update(answers.pop(next(iter(answers))).victims)
        self._answers = answers
        if not answers:
            self._laid = {}


def likeliest(victims: Mapping[str, Victims], snapshot: Snapshot) -> dict[str, Victims]:
    """The victims by node. Of many nodes, only the first that kube-scheduler may choose are kept, unless the
    priority of some victim is unknown here, as for pods without GPUs."""
    if len(victims) <= _NODES or not _are_known(victims, snapshot):
        return dict(victims)
    return {name: victims[name] for name in _chosen_from(victims, snapshot)[:_NODES]}


def _uids(pods: Iterable[BoundPod]) -> set[str]:
    return {pod.uid for pod in pods}


def _all_leave(answer: PreemptionAnswer, info: NodeInfo) -> bool:
    """Whether the node shows that all victims there are leaving; for victims that were leaving when they were
    named, that they are gone."""
    victims = answer.known.intersection(answer.victims[info.name].uids)
    here = (pod for pod in info.pods if pod.holds and pod.uid in victims)
    return bool(victims) and all(pod.terminating and pod.uid not in answer.leaving for pod in here)


def _chosen_from(victims: Mapping[str, Victims], snapshot: Snapshot) -> list[str]:
    """The nodes that are best in kube-scheduler's order; it takes one of them at random. All nodes, if the
    priority of some victim is unknown here."""
    if not _are_known(victims, snapshot):
        return list(victims)
    costs: dict[str, tuple[int, int, int, int]] = {}
    started: dict[str, list[float | None]] = {}
    for name, leaving in victims.items():
        here = {pod.uid: pod for pod in snapshot.nodes[name].info.pods}
        pods = [here[uid] for uid in leaving.uids]
        costs[name] = cost_of(leaving, pods)
        highest = costs[name][1]
        started[name] = [pod.started_at for pod in pods if pod.priority == highest]
    best = min(costs.values(), default=None)
    tied = [name for name, cost in costs.items() if cost == best]
    if any(None in started[name] for name in tied):
        # It may have started since.
        return tied
    firsts = {name: min(at for at in started[name] if at is not None) for name in tied}
    return [name for name in tied if firsts[name] == max(firsts.values())]


def cost_of(victims: Victims, pods: Sequence[BoundPod]) -> tuple[int, int, int, int]:
    """kube-scheduler's order of nodes to preempt on: the fewest violated budgets, then the lowest of the
    highest priorities, the least sum and the fewest pods."""
    # Each priority counts from the lowest possible one, so that fewer pods come before a lower sum.
    total = sum(pod.priority + 2**31 for pod in pods)
    return victims.violations, max(pod.priority for pod in pods), total, len(pods)


def _are_known(victims: Mapping[str, Victims], snapshot: Snapshot) -> bool:
    return all(
        _uids(snapshot.nodes[name].info.pods) >= set(leaving.uids) for name, leaving in victims.items()
    )


def _is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is later than another, if both are numbers."""
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)
