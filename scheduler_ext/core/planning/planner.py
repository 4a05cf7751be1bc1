"""The planner of single pods: which waiting pods are nominated to which nodes now. It remembers the places
that it has given and follows what becomes of them.

    waiting ── place found ──► planned ── written on the pod ──► nominated ── kube-scheduler ──► bound
       ▲                          │ conflict, failure                │ misfit, expired
       └── backing off ◄──────────┴──────────────────────────────────┘"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from math import inf

from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.planning.given_places import Given, GivenPlace, Step, TriedCluster, put_again
from scheduler_ext.core.planning.joint import choose
from scheduler_ext.core.planning.outcomes import BACKING_OFF, Outcome, Pauses
from scheduler_ext.core.planning.plan import State
from scheduler_ext.core.planning.waiting_pod import WaitingPod

# Pods that have a place and wait for kube-scheduler: no more than it comes to in a third of the time for
# which places are kept, within these limits. Nominations that it does not try in time would be in vain.
_LEAST_AHEAD, _MOST_AHEAD = 256, 512
_PART_OF_TTL = 3.0
# A pod that kube-scheduler has come to is bound within this time, or tried again.
_BINDING_S = 5.0
# kube-scheduler does not come to a pod that has waited for so long while it came to no other.
_QUIET_S = 1.0
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

    def __init__(self, batch: int, ttl_s: float) -> None:
        self._batch = batch
        self._ttl_s = ttl_s
        self._given: dict[str, Given] = {}
        self._pauses = Pauses()
        # When kube-scheduler came to the pods that are being bound, and to all of the last ones.
        self._asked: dict[str, float] = {}
        self._asked_at: deque[float] = deque(maxlen=_MOST_AHEAD)
        # Kinds of pods of which none fits, with the counts of refusals, as found in the present round.
        self._refused: dict[object, Counter[str]] = {}
        self._round: _Round | None = None
        self._stale_since: dict[str, float] = {}
        self._outcomes: Counter[Outcome] = Counter()
        self.runs_ahead = True
        """Whether pods get places before kube-scheduler comes to them. Otherwise only those do that it found
        no node for, and all once it comes to none."""
        # Since when kube-scheduler has come to no pod though pods wait that it has not tried.
        self._quiet_since: float | None = None

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
        given = self._given.pop(uid, None)
        if given is None or given.write_at is not None:
            return
        self._outcomes[outcome] += 1
        if outcome in BACKING_OFF:
            self._pauses.failed(uid, outcome, now)

    def asked(self, now: float, uids: Sequence[str], dropped: Collection[str] = ()) -> None:
        """kube-scheduler has come to these pods and got a node for each: they are about to be bound. Those
        whose write was `dropped` before it began are written if they still wait then."""
        for uid in uids:
            given = self._given.get(uid)
            if given is not None and uid in dropped:
                given.write_at = now + _BINDING_S
        if uids:
            self._quiet_since = None
        self._asked_at.extend([now] * len(uids))
        while self._asked_at and self._asked_at[0] < now - self._ttl_s / _PART_OF_TTL:
            self._asked_at.popleft()
        self._asked = {uid: at for uid, at in self._asked.items() if now < at + _BINDING_S}
        self._asked |= dict.fromkeys(uids, now)

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
                given.written = given.written or place.written
                given.ask = asks[uid]
            elif uid not in binding:
                self.ended(uid, self._lost(given, asks[uid], now), now)
        self._pauses.keep(asks)
        if not any(self._is_untried(ask) for ask in asks.values()):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        for uid, place in kept.items():
            if uid not in self._given and uid in asks:
                # From before this planner was active, or of a former process.
                self._given[uid] = Given(
                    asks[uid], place.node, place.until, place.written, None, place.pod.devices
                )

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
        self, now: float, asks: Sequence[WaitingPod], version: Hashable, make: Callable[[], TriedCluster]
    ) -> Step:
        """Places for the next pods without one; `asks` are in the order of `rank`. `make` makes the cluster,
        with the places that are kept; it is called if there is something to decide. `version` differs once
        pods that fitted nowhere may fit."""
        step = self._decide(now, asks, version, make)
        return replace(step, write=[*step.nominate, *self._due(now)])

    def _due(self, now: float) -> list[GivenPlace]:
        """The places of pods that kube-scheduler came to, and that still wait."""
        due = [each for each in self._given.values() if each.write_at is not None and now >= each.write_at]
        for given in due:
            given.write_at = None
        return [GivenPlace(each.ask, replace(each.ask.pod, devices=each.devices), each.node) for each in due]

    def _decide(
        self, now: float, asks: Sequence[WaitingPod], version: Hashable, make: Callable[[], TriedCluster]
    ) -> Step:
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
        found = self._choose(batch, cluster)
        withdrawn: list[str] = []
        if len(found) < len(batch):
            more, withdrawn = self._instead_of_lower(batch, found, cluster)
            found |= more
        for uid in withdrawn:
            self.ended(uid, Outcome.WITHDRAWN, now)
        nominate = []
        for ask in batch:
            node = found.get(ask.uid)
            if node is None:
                self._refused.setdefault(ask.kind, cluster.refusals(ask))
                continue
            pod = cluster.planned_on(node, ask.uid) or ask.pod
            self._given[ask.uid] = Given(ask, node, now + self._ttl_s, devices=pod.devices)
            nominate.append(GivenPlace(ask, pod, node, races=not ask.was_tried))
        return Step(withdrawn, nominate, more=True)

    def waits(self, asks: Iterable[WaitingPod], now: float) -> bool:
        """Whether some of these pods have not been tried since places were free."""
        return any(self._tried_now(asks, now))

    def _tried_now(self, asks: Iterable[WaitingPod], now: float) -> Iterator[WaitingPod]:
        """The pods without a place that are to get one."""
        all_of_them = self.runs_ahead or self._is_quiet(now)
        return (
            ask
            for ask in asks
            if (all_of_them or ask.was_tried)
            and ask.kind not in self._refused
            and ask.uid not in self._asked
            and self.state_of(ask, now) is State.WAITING
        )

    def _is_untried(self, ask: WaitingPod) -> bool:
        return not (ask.was_tried or ask.gated or ask.uid in self._asked)

    def next_look(self, now: float) -> float | None:
        """When a step is due though nothing changes; None if never."""
        ends = [self._pauses.next_end(now), self._round.due if self._round is not None else None]
        ends += [given.write_at for given in self._given.values()]
        if not self.runs_ahead and self._quiet_since is not None:
            ends.append(self._quiet_since + _QUIET_S)
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
        """The first pods without a place, of one priority."""
        without = self._tried_now(asks, now)
        first = next(without, None)
        if first is None:
            return []
        room = min(self._batch, self._most_ahead - self._unasked(first.priority))
        alike = takewhile(lambda ask: ask.priority == first.priority, without)
        return [first, *islice(alike, room - 1)] if room > 0 else []

    def _is_quiet(self, now: float) -> bool:
        return self._quiet_since is not None and now >= self._quiet_since + _QUIET_S

    @property
    def has_time(self) -> bool:
        """Whether kube-scheduler does not come soon to a pod that is to have a place by then."""
        return not self.runs_ahead or self._unasked() >= self._most_ahead / 2

    def _unasked(self, priority: float = -inf) -> int:
        """The pods of this priority and above that have a place, and that kube-scheduler has not come to."""
        return sum(
            given.ask.priority >= priority and uid not in self._asked for uid, given in self._given.items()
        )

    @property
    def _most_ahead(self) -> int:
        return max(_LEAST_AHEAD, len(self._asked_at))

    @staticmethod
    def _choose(batch: Sequence[WaitingPod], cluster: TriedCluster) -> dict[str, str]:
        places = choose(batch, cluster)
        return {ask.uid: place.node for ask, place in zip(batch, places, strict=True) if place is not None}

    def _instead_of_lower(
        self, batch: Sequence[WaitingPod], found: Mapping[str, str], cluster: TriedCluster
    ) -> tuple[dict[str, str], list[str]]:
        """Places for the rest of a batch that pods of lower priority have, and the pods that lose theirs."""
        # Those that kube-scheduler has come to are about to be bound, or are being bound.
        lower = [
            given
            for uid, given in self._given.items()
            if given.ask.priority < batch[0].priority
            and uid not in self._asked
            and cluster.planned_on(given.node, uid) is not None
        ]
        if not lower:
            return {}, []
        mark = cluster.mark()
        before = {given.ask.uid: cluster.planned_on(given.node, given.ask.uid) for given in lower}
        for given in lower:
            cluster.take_back(given.ask, given.node)
        more = self._choose([ask for ask in batch if ask.uid not in found], cluster)
        if not more:
            cluster.rollback(mark)
            return {}, []
        lower.sort(key=lambda given: given.ask.rank)
        return more, [given.ask.uid for given in lower if not put_again(given, before, cluster)]
