"""How the members of gangs stand, for those who read the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_ext.core.node.node import Wait
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.live.gang_assembly import Assembled
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_decisions import Verdict
from scheduler_ext.features.gangs.planning.gang_words import sentence
from scheduler_ext.features.gangs.planning.plan import Entry, State
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod

_UNREAD = "the object of its group is still to be read"
_NONE: Mapping[str, int] = {}


class _Stands(NamedTuple):
    """One member."""

    state: State
    reason: str
    gang: GangKey | None = None
    node: str = ""
    deadline: float | None = None
    refusals: Mapping[str, int] = _NONE


@dataclass(slots=True)
class _Since:
    state: State
    at: float


class GangEntries:
    """Written by the thread of the planner; read by any."""

    def __init__(self) -> None:
        self._stands: Mapping[str, _Stands] = {}
        self._since: dict[str, _Since] = {}
        self._gangs: Sequence[tuple[Gang[WaitingPod], State, str]] = ()

    def take(self, verdicts: Sequence[Verdict[WaitingPod]], found: Assembled[WaitingPod], at: float) -> None:
        """The outcome of a step, at a wall time."""
        stands: dict[str, _Stands] = {pod.uid: _Stands(State.INVALID, text) for pod, text in found.invalid}
        stands |= {pod.uid: _Stands(State.ASSEMBLING, _UNREAD) for pod in found.unread}
        gangs = []
        for verdict in verdicts:
            gang = verdict.gang
            if gang is None:
                continue
            reason = sentence(verdict, lambda ask: ask.request)
            gangs.append((gang, verdict.state, reason))
            for member in gang.members:
                if member.is_unbound:
                    stands[member.uid] = self._member(verdict, member.uid, gang, reason)
        self._stands, self._gangs = stands, gangs
        kept = {}
        for uid, each in stands.items():
            before = self._since.get(uid)
            same = before is not None and before.state is each.state
            kept[uid] = before if same and before is not None else _Since(each.state, at)
        self._since = kept

    @staticmethod
    def _member(verdict: Verdict[WaitingPod], uid: str, gang: Gang[WaitingPod], reason: str) -> _Stands:
        state, kept = verdict.state, verdict.reservation
        node = verdict.places.get(uid, "")
        member = next(each for each in gang.members if each.uid == uid)
        if state is State.PLANNED:
            if member.node is not None and member.node == node:
                state = State.NOMINATED
            return _Stands(state, "", gang.key, node, member.deadline)
        if kept is not None:
            node = kept.places.get(uid, node)
        return _Stands(state, reason, gang.key, node, member.deadline, verdict.refusals.get(uid, _NONE))

    def forget(self) -> None:
        """Another extender decides about gangs."""
        self._stands, self._gangs = {}, ()
        self._since = {}

    def gangs(self) -> Sequence[tuple[Gang[WaitingPod], State, str]]:
        """The gangs that wait, with their state and a sentence."""
        return self._gangs

    def gang_of(self, uid: str) -> GangKey | None:
        """The gang of a member that waits."""
        stands = self._stands.get(uid)
        return stands.gang if stands is not None else None

    def wait(self, uid: str) -> Wait | None:
        """What a member waits for; None for any other pod."""
        stands = self._stands.get(uid)
        if stands is None or not stands.reason:
            return None
        text = f"gang {stands.gang}: {stands.reason}" if stands.gang is not None else stands.reason
        return Wait(text, max(stands.refusals, key=stands.refusals.__getitem__, default=None))

    def entry(self, ask: WaitingPod, at: float) -> Entry:
        """How a member stands."""
        pod = ask.pod
        stands = self._stands.get(ask.uid) or _Stands(State.GATED if ask.gated else State.WAITING, "")
        if ask.is_foreign and not ask.gated:
            stands = _Stands(State.NOMINATED_ELSEWHERE, "", stands.gang, ask.nominated or "", stands.deadline)
        since = self._since.get(ask.uid)
        return Entry(
            pod.uid,
            pod.namespace,
            pod.name,
            stands.state,
            pod.priority,
            pod.created_at or 0.0,
            since.at if since is not None else at,
            node=stands.node,
            reason=stands.reason,
            refusals=stands.refusals,
            gang=stands.gang,
            deadline=stands.deadline,
        )
