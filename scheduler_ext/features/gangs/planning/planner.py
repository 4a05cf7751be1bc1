"""The planner of single pods: a pod that kube-scheduler found no node for, though one has room, is nominated
there, because kube-scheduler does not examine all nodes. The planner remembers the places that it has given
and follows what becomes of them.

    refused ── place found ──► planned ── written on the pod ──► nominated ── kube-scheduler ──► bound
       ▲                          │ conflict, failure                │ misfit, expired
       └── backing off ◄──────────┴──────────────────────────────────┘"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.features.gangs.planning.given_places import Given, GivenPlace, PlanCluster, Step
from scheduler_ext.features.gangs.planning.outcomes import BACKING_OFF, Outcome, Pauses
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod

# The pods of one step, so that other turns are not kept waiting.
_BATCH = 32
# A pod that kube-scheduler has come to is bound within this time, or tried again.
_BINDING_S = 5.0
# Nothing is heard if kube-scheduler's own filters refuse a nominated pod. For one with features that are not
# checked here that is likely, so others wait for its place no longer than this.
_UNCHECKED_S = 5.0
# Kinds of pods of which none fitted are tried again in rounds: at the earliest after this time, or after so
# many times as long as the last round took.
_AGAIN_S, _PAUSE = 0.25, 4.0
# After this time a nomination without a place is withdrawn, unless the pod gets another one, and again later.
_STALE_S, _AGAIN_STALE_S = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class _Round:
    """A try to place all pods, on a cluster of this version; the next one begins at `due`, once it is
    over."""

    began: float
    version: Hashable
    due: float | None = None


class Planner:
    """One thread at a time; times are monotonic."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._given: dict[str, Given] = {}
        self._pauses = Pauses()
        # When kube-scheduler came to the pods that are being bound.
        self._asked: dict[str, float] = {}
        # Kinds of pods of which none fits, with the counts of refusals, as found in the present round.
        self._refused: dict[object, Counter[str]] = {}
        self._round: _Round | None = None
        self._stale_since: dict[str, float] = {}
        self._outcomes: Counter[Outcome] = Counter()

    @property
    def given(self) -> Mapping[str, str]:
        """The node of each pod that has a place, by uid."""
        return {uid: given.node for uid, given in self._given.items()}

    def state_of(self, ask: WaitingPod, now: float) -> State:
        """How a waiting pod stands."""
        if ask.invalid is not None:
            return State.INVALID
        if ask.gated:
            return State.GATED
        if ask.not_modelled:
            return State.NOT_MODELLED
        if (given := self._given.get(ask.uid)) is not None:
            return State.NOMINATED if given.written else State.PLANNED
        if ask.is_foreign:
            return State.NOMINATED_ELSEWHERE
        return State.BACKING_OFF if self._pauses.waits(ask.uid, now) else State.WAITING

    def reason_of(self, ask: WaitingPod, state: State) -> str:
        """Why a pod has no place, where the state alone does not say that."""
        if state is State.NOT_MODELLED:
            return f"it asks {', '.join(ask.not_modelled)}"
        if state is State.BACKING_OFF:
            return self._pauses.reason(ask.uid)
        return (ask.invalid or "") if state is State.INVALID else ""

    def refusals_of(self, ask: WaitingPod) -> Mapping[str, int]:
        """The number of nodes that refused a pod, by reason."""
        return self._refused.get(ask.kind, {})

    def place_of(self, uid: str) -> tuple[str, float] | None:
        """The node that keeps a place for a pod, and until when."""
        given = self._given.get(uid)
        return None if given is None else (given.node, given.until)

    def places_below(self, priority: int) -> list[tuple[WaitingPod, str]]:
        """The pods of lower priority that have a place, and its node, the first in their order first; without
        those that kube-scheduler has come to, because they are about to be bound."""
        found = [
            (given.ask, given.node)
            for uid, given in self._given.items()
            if given.ask.priority < priority and uid not in self._asked
        ]
        return sorted(found, key=lambda each: each[0].rank)

    def devices_of(self, uid: str) -> Mapping[str, tuple[str, ...]]:
        """The GPU of each share of a pod that has a place, by container."""
        given = self._given.get(uid)
        return {} if given is None else given.devices

    def take_outcomes(self) -> Counter[Outcome]:
        """What became of nominations since the last call."""
        outcomes, self._outcomes = self._outcomes, Counter()
        return outcomes

    def ended(self, uid: str, outcome: Outcome, now: float) -> None:
        """The place of a pod is not kept any more."""
        if self._given.pop(uid, None) is None:
            return
        self._outcomes[outcome] += 1
        if outcome in BACKING_OFF:
            self._pauses.failed(uid, outcome, now)

    def asked(self, now: float, uids: Collection[str]) -> None:
        """kube-scheduler has come to these pods and got a node for each: they are about to be bound."""
        self._asked = {uid: at for uid, at in self._asked.items() if now < at + _BINDING_S}
        self._asked |= dict.fromkeys(uids, now)
        for uid in uids:
            if (given := self._given.get(uid)) is not None:
                given.tried = True

    def untried(self, now: float) -> list[str]:
        """The pods with unchecked features that kube-scheduler has not placed for a while: it seems to refuse
        their nodes."""
        return [
            uid
            for uid, given in self._given.items()
            if given.ask.unchecked
            and given.written_at is not None
            and not given.tried
            and now >= given.written_at + _UNCHECKED_S
        ]

    def forget(self) -> None:
        """Another planner has taken over."""
        self._given.clear()
        self._refused.clear()

    def follow(
        self,
        now: float,
        asks: Mapping[str, WaitingPod],
        kept: Mapping[str, KeptPlace],
        bound: Mapping[str, str | None],
        binding: Collection[str] = (),
    ) -> None:
        """Compare the given places with the cluster. `asks` are the waiting pods and `kept` the places in the
        ledger, by uid; `bound` has the node of each given pod that waits no more, None if it is gone;
        `binding` are pods that are being bound."""
        for uid, given in list(self._given.items()):
            if uid not in asks:
                node = bound.get(uid)
                outcome = Outcome.BOUND if node == given.node else Outcome.ELSEWHERE
                self.ended(uid, Outcome.DELETED if node is None else outcome, now)
            elif (place := kept.get(uid)) is not None and place.node == given.node:
                if place.written and not given.written:
                    given.written_at = now
                given.ask = asks[uid]
            elif uid not in binding:
                self.ended(uid, self._lost(given, asks[uid], now), now)
        self._pauses.keep(asks)
        for uid, place in kept.items():
            if uid not in self._given and uid in asks:
                # From before this planner was active, or of a former process.
                written_at = now if place.written else None
                self._given[uid] = Given(asks[uid], place.node, place.until, written_at, place.pod.devices)

    def _lost(self, given: Given, ask: WaitingPod, now: float) -> Outcome:
        if ask.is_foreign:
            return Outcome.CONFLICT
        return Outcome.EXPIRED if now >= given.until else Outcome.MISFIT

    def stale(self, now: float, asks: Iterable[WaitingPod]) -> list[WaitingPod]:
        """The pods with a nomination of a planner for a place that is not kept, for a while: kube-scheduler
        would keep it."""
        found = {
            ask.uid: ask
            for ask in asks
            if ask.planned is not None and ask.nominated == ask.planned.node and ask.uid not in self._given
        }
        self._stale_since = {uid: self._stale_since.get(uid, now) for uid in found}
        due = [uid for uid, since in self._stale_since.items() if now >= since + _STALE_S]
        # Written again, should that have had no effect.
        self._stale_since |= dict.fromkeys(due, now + _AGAIN_STALE_S)
        return [found[uid] for uid in due]

    def step(
        self, now: float, asks: Sequence[WaitingPod], version: Hashable, make: Callable[[], PlanCluster]
    ) -> Step:
        """Places for the next pods without one; `asks` are in the order of `rank`. `make` makes the cluster,
        with the places that are kept; it is called if there is something to decide. `version` differs once
        pods that fitted nowhere may fit."""
        batch = self._next(asks, now)
        if not batch:
            if not self._begins_round(now, version):
                return Step()
            self._refused.clear()
            batch = self._next(asks, now)
        if not batch:
            return Step()
        if self._round is None:
            self._round = _Round(now, version)
        cluster = make()
        nominate = []
        for ask in batch:
            best = None if ask.kind in self._refused else cluster.best(ask)
            if best is None:
                if ask.kind not in self._refused:
                    self._refused[ask.kind] = cluster.refusals(ask)
                continue
            cluster.put(ask, best.node)
            pod = cluster.planned_on(best.node, ask.uid) or ask.pod
            self._given[ask.uid] = Given(ask, best.node, now + self._ttl_s, devices=pod.devices)
            nominate.append(GivenPlace(ask, pod, best.node))
        return Step(nominate=nominate, more=True)

    def waits(self, asks: Iterable[WaitingPod], now: float) -> bool:
        """Whether some of these pods have not been tried since places were free."""
        return any(self._tried_now(asks, now))

    def _tried_now(self, asks: Iterable[WaitingPod], now: float) -> Iterator[WaitingPod]:
        """The pods without a place that are to get one."""
        return (
            ask
            for ask in asks
            if ask.was_tried
            and ask.kind not in self._refused
            and ask.uid not in self._asked
            and self.state_of(ask, now) is State.WAITING
        )

    def next_look(self, now: float) -> float | None:
        """When a step is due though nothing changes; None if never."""
        ends = [self._pauses.next_end(now), self._round.due if self._round is not None else None]
        return min((each for each in ends if each is not None and each > now), default=None)

    def _begins_round(self, now: float, version: Hashable) -> bool:
        """Whether all pods are to be tried again. A round ends when no pod is left that was not tried."""
        last = self._round
        if last is None:
            return False
        if last.due is None:
            due = now + max(_AGAIN_S, _PAUSE * (now - last.began))
            self._round = _Round(last.began, last.version, due)
            return False
        if now < last.due or version == last.version or not self._refused:
            return False
        self._round = _Round(now, version)
        return True

    def _next(self, asks: Sequence[WaitingPod], now: float) -> list[WaitingPod]:
        """The first pods that are to get a place."""
        return list(islice(self._tried_now(asks, now), _BATCH))
