"""The turns of gangs and of pods alone in one step of the planner: gangs that it has started first, then all
by priority and age."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence

from scheduler_ext.features.gangs.planning.backfilled_cluster import BackfilledCluster
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, Single
from scheduler_ext.features.gangs.planning.gang_step import GangStep
from scheduler_ext.features.gangs.planning.given_places import Step
from scheduler_ext.features.gangs.planning.outcomes import Outcome
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.planner import Planner
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod

# Batches of pods alone in one step. What is left comes with the next step.
_MOST = 8


class GangTurns:
    """One step. `asks` are the pods alone, in their order; those that have places already are held."""

    def __init__(
        self,
        planning: GangStep[WaitingPod],
        planner: Planner,
        asks: Sequence[WaitingPod],
        cluster: PlannedCluster,
        duration_s: Callable[[str], float | None],
        now: float,
        version: Hashable,
    ) -> None:
        self._planning = planning
        self._planner = planner
        self._asks = asks
        self._now = now
        self._version = version
        self._duration_s = duration_s
        self._cluster = BackfilledCluster(cluster, planning.backfill, duration_s)
        self._left = _MOST
        # The first pods, of which none is left to be tried.
        self._tried = 0
        self.steps: list[Step] = []

    def take(self, gangs: Sequence[Gang[WaitingPod]]) -> Decisions[WaitingPod]:
        """Decide about all gangs, and about the pods that come before the last of them."""
        by_uid = {ask.uid: ask for ask in self._asks}
        for uid, node in self._planner.given.items():
            if uid in by_uid:
                self._hold(by_uid[uid], node)
        self._planning.begin(gangs)
        in_turn = True
        for gang in self._planning.waiting:
            in_turn = in_turn and self._planning.in_turn and self._place_before(gang)
            if in_turn:
                self._make_room(gang)
                self._planning.start(gang)
            else:
                # What comes first is still to be tried, and nothing that comes later may go before.
                self._planning.postpone(gang)
        if in_turn and self._planning.in_turn:
            self._place(self._asks)
        return self._planning.decisions()

    def _make_room(self, gang: Gang[WaitingPod]) -> None:
        """Pods alone of lower priority lose the places with which the gang would not fit."""
        held = [
            (ask, node)
            for ask, node in self._planner.places_below(gang.priority)
            if self._cluster.planned_on(node, ask.uid) is not None
        ]
        lost = self._planning.in_the_way(gang, held)
        for ask, node in lost:
            self._planning.release(ask.uid, ask, node)
            self._planner.ended(ask.uid, Outcome.WITHDRAWN, self._now)
        if lost:
            self.steps.append(Step(withdraw=[ask.uid for ask, _ in lost], more=True))

    def _place_before(self, gang: Gang[WaitingPod]) -> bool:
        """Places for the pods that come before a gang; whether none of them is left to be tried."""
        end = len(before(self._asks, gang.turn))
        asks = self._asks[self._tried : end]
        if self._tried and not self._planner.waits(asks, self._now):
            self._tried = end
            return True
        in_turn = self._place(asks)
        self._tried = end if in_turn else self._tried
        return in_turn

    def _place(self, asks: Sequence[WaitingPod]) -> bool:
        while self._left > 0:
            step = self._planner.step(self._now, asks, self._version, lambda: self._cluster)
            if step.more:
                self.steps.append(step)
            if not step.more:
                break
            self._left -= 1
            for given in step.nominate:
                self._hold(given.ask, given.node)
        return not self._planner.waits(asks, self._now)

    def _hold(self, ask: WaitingPod, node: str) -> None:
        created_at, length = ask.pod.created_at or 0.0, self._duration_s(ask.uid)
        single = Single(ask.uid, ask, ask.priority, created_at, max_duration_s=length)
        self._planning.hold(single, node)


def before(asks: Sequence[WaitingPod], turn: tuple[int, float]) -> Sequence[WaitingPod]:
    """The pods alone that come before a gang's turn; `asks` are in their order."""
    return asks[: bisect_left(asks, turn, key=lambda ask: ask.rank[:2])]
