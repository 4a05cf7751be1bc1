"""One step of planning for gangs and for the pods among them. It follows from what the cluster shows, so a
planner that takes over from another goes on where that one stopped: gates, nominations with deadlines and
bound members say how far each gang is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.gang_request import GangKey, OnDeadline
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.gangs.planning.draining import Draining, Running, Topology
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, rank
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping, KeepingBounds
from scheduler_ext.features.gangs.planning.gang_deadline import (
    DeadlinePolicy,
    Standing,
    deadline,
    given_up,
    standing,
)
from scheduler_ext.features.gangs.planning.gang_decisions import (
    Decisions,
    Evict,
    GangNomination,
    Single,
    Verdict,
)
from scheduler_ext.features.gangs.planning.gang_failures import GangFailure, failure
from scheduler_ext.features.gangs.planning.gang_fit import GangFit, GangMiss, fit
from scheduler_ext.features.gangs.planning.gang_reservation import (
    Backfill,
    GangReservation,
    not_taken,
    part_of,
    reserve,
)
from scheduler_ext.features.gangs.planning.gang_victims import Proposals, victims
from scheduler_ext.features.gangs.planning.plan import State

T = TypeVar("T")

NOTHING_KEPT: Mapping[GangKey, Keeping] = {}
# The members of a gang that leave when it is evicted. The others are behind gates still.
_LEAVING = (MemberState.BOUND, MemberState.WAITING)


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """How gangs are treated. `preempts`: they may evict pods of lower priority. `starting_s` is the longest
    time from a plan to the start of a pod. `bounds` are those of kept places."""

    deadlines: DeadlinePolicy = field(default_factory=DeadlinePolicy)
    bounds: KeepingBounds = field(default_factory=KeepingBounds)
    preempts: bool = False
    starting_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Scene(Generic[T]):
    """The cluster at one time: pods on nodes are on `cluster`, and so are nominations by others, but those of
    the planner are not. `running` are the pods on nodes that may be waited for or evicted. The evictions of
    late gangs in `refused` were refused a short time ago. `failures` are those of former steps. `refusals`
    counts nodes, of these or all, that refuse a pod now, by reason; None: not read."""

    cluster: Draining[T]
    running: Sequence[Running]
    topology: Topology
    budgets: Sequence[Budget] = ()
    proposals: Proposals[T] | None = None
    refused: Collection[GangKey] = ()
    failures: Mapping[GangKey, GangFailure] = field(default_factory=dict)
    refusals: Callable[[T, Collection[str] | None], Mapping[str, int]] | None = None


def step(
    now: float,
    gangs: Sequence[Gang[T]],
    singles: Sequence[Single[T]],
    scene: Scene[T],
    policy: GangPolicy,
    previous: Sequence[GangReservation[T]] = (),
    keeping: Mapping[GangKey, Keeping] = NOTHING_KEPT,
) -> Decisions[T]:
    """What to do now. Gangs that were started get their places first, then gangs and pods by priority and
    age. `previous` are the reservations of the last step, which keep their places where they can, and
    `keeping` says for how long. The cluster has all planned pods afterwards."""
    planning = GangStep(now, scene, policy, previous, keeping)
    planning.begin(gangs)
    waiting: list[Gang[T] | Single[T]] = [*planning.waiting, *singles]
    waiting.sort(key=lambda each: (-each.priority, each.created_at))
    for each in waiting:
        if isinstance(each, Single):
            planning.place(each)
        else:
            planning.start(each)
    return planning.decisions()


class GangStep(Generic[T]):
    """A step in parts, for a planner that places pods without a gang in its own way: `begin` first, then
    `start` for each gang of `waiting` in its turn among the pods, which take places that `backfill` allows
    and `hold` them."""

    def __init__(
        self,
        now: float,
        scene: Scene[T],
        policy: GangPolicy,
        previous: Sequence[GangReservation[T]] = (),
        keeping: Mapping[GangKey, Keeping] = NOTHING_KEPT,
        *,
        searches: bool = True,
        starts_first: bool = False,
    ) -> None:
        """Without `searches`, and with `starts_first` once gates go, the first gang that does not fit waits
        for a step that has time to find what it waits for, and so does what comes after it."""
        self._now = now
        self._scene = scene
        self._cluster = scene.cluster
        self._policy = policy
        self._previous = {each.key: each for each in previous}
        self._keeping = dict(keeping)
        self._searches = searches
        self._starts_first = starts_first
        self.in_turn = True
        """Whether what comes next may have places now."""
        self._failures = {key: each for key, each in scene.failures.items() if not each.is_over(now)}
        # A pod that runs longer than it said has no known end.
        self._running = [
            replace(pod, ends_at=None) if pod.ends_at is not None and pod.ends_at < now else pod
            for pod in scene.running
        ]
        self.backfill = Backfill(self._cluster, self._running, now, policy.starting_s)
        self.gangs: Sequence[Gang[T]] = ()
        self.waiting: Sequence[Gang[T]] = ()
        """The gangs that are still to have their turn, in their order."""
        self._by_key: dict[GangKey | None, Gang[T]] = {}
        self._singles: list[Single[T]] = []
        self._settle: list[str] = []
        self._evict: list[Evict] = []
        # The pods of late gangs that leave, unless the API server refuses that.
        self._unsure: set[str] = set()
        self._nominate: list[GangNomination] = []
        self._lift: list[tuple[str, ...]] = []
        self._verdicts: list[Verdict[T]] = []

    def begin(self, gangs: Sequence[Gang[T]]) -> None:
        """Deadlines of all gangs, and places for those that the planner has started: nothing that a pod says
        of itself puts a gang before pods of higher priority."""
        self.gangs = sorted(gangs, key=rank)
        self._by_key = {gang.key: gang for gang in self.gangs}
        begun = self._in_time([gang for gang in self.gangs if gang.has_begun])
        promised = [gang for gang in begun if gang.is_promised(self._now)]
        later = {gang.key for gang in begun if not gang.is_promised(self._now)}
        self.waiting = [gang for gang in self.gangs if not gang.has_begun or gang.key in later]
        kept = [(gang, self._keep(gang)) for gang in promised]
        for gang, places in kept:
            self._complete(gang, places)

    def _in_time(self, begun: list[Gang[T]]) -> list[Gang[T]]:
        """The gangs that still have to get places; those that are overdue are evicted."""
        policy = self._policy.deadlines
        overdue = given_up(begun, self._now, policy, self._reach)
        for gang in overdue:
            self._note_failure(gang)
            leaving = [member.uid for member in gang.members if member.state in _LEAVING]
            evicted = [Evict(uid, gang.key, overdue=True) for uid in leaving]
            if gang.key in self._scene.refused:
                self._evict += evicted
            else:
                self._leave(evicted)
                self._unsure.update(leaving)
            self._verdicts.append(Verdict(State.GIVEN_UP, gang))
        starting = []
        for gang in begun:
            if standing(gang, self._now, policy) is Standing.STARTED:
                self._settle += [member.uid for member in gang.bound if member.deadline is not None]
                self._failures.pop(gang.key, None)
            if gang not in overdue and gang.joining:
                starting.append(gang)
        return starting

    def _note_failure(self, gang: Gang[T]) -> None:
        """Remember why a gang did not start in time."""
        until = deadline(gang, self._policy.deadlines)
        assert until is not None

        def fits(member: Member[T]) -> bool:
            there = member.node in self._cluster.nodes
            return there and self._cluster.best(member.ask, (member.node or "",)) is not None

        before = self._failures.get(gang.key)
        self._failures[gang.key] = failure(gang, until, before, self._now, fits)

    def _left_out(self, gang: Gang[T]) -> frozenset[str]:
        """The nodes on which a start of a gang failed a short time ago."""
        last = self._failures.get(gang.key)
        return last.left_out(self._now) if last is not None else frozenset()

    def _open(self, gang: Gang[T]) -> frozenset[str] | None:
        """The nodes that a gang may use; None: all."""
        among = self.backfill.open_nodes(gang.priority, gang.max_duration_s)
        if not (left_out := self._left_out(gang)):
            return among
        return (frozenset(self._cluster.nodes) if among is None else among) - left_out

    def _reach(self, gang: Gang[T]) -> frozenset[str]:
        return part_of(gang, self._cluster) | gang.nodes

    def _leave(self, evicted: Sequence[Evict]) -> None:
        self._evict += evicted
        going = {each.uid for each in evicted}
        self._running = [replace(pod, leaving=True) if pod.uid in going else pod for pod in self._running]

    def _keep(self, gang: Gang[T]) -> dict[str, str]:
        """The places of members that their nominations still keep, put on the cluster."""
        places = {}
        for member, node in self._nominated(gang):
            if self._cluster.best(member.ask, (node,)) is not None:
                self._cluster.put(member.ask, node)
                places[member.uid] = node
        return places

    def _nominated(self, gang: Gang[T]) -> list[tuple[Member[T], str]]:
        """The joining members with a nomination, and its node. Where the gang requires one domain, some may
        in another: a nomination of a former step was not written, or the label of a node has changed."""
        nodes = self._cluster.nodes
        found = [(each, each.node) for each in gang.joining if each.node is not None and each.node in nodes]
        if gang.request.required_topology is None:
            return found
        values = self._scene.topology.get(gang.request.required_topology, {})
        domains = {values.get(node) for node in gang.nodes} - {None}
        if not domains:
            domains = {values.get(node) for _, node in found}
            if len(domains) > 1:
                return []
        return [(each, node) for each, node in found if node in values and values[node] in domains]

    def _complete(self, gang: Gang[T], places: dict[str, str]) -> None:
        """Places for the members of a gang that has begun. Its gates go once all have one."""
        until = deadline(gang, self._policy.deadlines)
        rest = gang.with_places(places)
        among = self._open(gang)
        found = self._fit(rest, among) if rest.joining else GangFit({})
        if isinstance(found, GangFit):
            places |= {uid: place.node for uid, place in found.places.items()}
            self._planned(gang, places)
        else:
            self._wait(rest, found)
        self._nominate_all(gang, places, until)

    def _fit(self, gang: Gang[T], among: Collection[str] | None) -> GangFit | GangMiss[T]:
        return fit(gang, self._cluster, self._scene.topology, among, about=self._scene.refusals)

    def start(self, gang: Gang[T]) -> None:
        """All members of a gang get places and lose their gates, or none does. The members of one that has
        begun have turns alike, and keep the places that they have."""
        if gang.has_begun:
            self._complete(gang, self._keep(gang))
            return
        if not self._is_ready(gang):
            return
        among = self._open(gang)
        mark = self._cluster.mark()
        places = self._keep(gang)
        kept_open = among is None or among.issuperset(places.values())
        if len(places) < len(gang.joining) or not kept_open:
            self._cluster.rollback(mark)
            found = self._fit(gang, among)
            if isinstance(found, GangMiss):
                self._wait(gang, found)
                return
            places = {uid: place.node for uid, place in found.places.items()}
        self._planned(gang, places)
        self._nominate_all(gang, places, self._policy.deadlines.start_by(gang, self._now))

    def in_the_way(self, gang: Gang[T], held: Sequence[tuple[T, str]]) -> list[tuple[T, str]]:
        """Which of these pods, that have been put on nodes and come after the gang, have to leave so that it
        starts; none if it fits beside them, or not even without them."""
        if not held or gang.problem is not None or gang.missing:
            return []
        cluster, topology = self._cluster, self._scene.topology
        among = self._open(gang)
        mark = cluster.mark()
        found = []
        if isinstance(fit(gang, cluster, topology, among), GangMiss):
            for ask, node in held:
                cluster.take_back(ask, node)
            if isinstance(fit(gang, cluster, topology, among), GangFit):
                for ask, node in held:
                    if cluster.best(ask, (node,)) is None:
                        found.append((ask, node))
                    else:
                        cluster.put(ask, node)
        cluster.rollback(mark)
        return found

    def release(self, uid: str, ask: T, node: str) -> None:
        """A pod that was held has lost its place."""
        self._cluster.take_back(ask, node)
        self._running = [pod for pod in self._running if pod.uid != uid]
        self.backfill.remove(uid, node)

    def postpone(self, gang: Gang[T]) -> None:
        """What comes before a gang is still to be tried: it does not start, and of its former places it keeps
        those that others did not get."""
        if not gang.has_begun and not self._is_ready(gang):
            return
        kept = self._still_kept(gang)
        places = self._keep(gang)
        self._verdicts.append(Verdict(State.IN_LINE, gang, places=places, reservation=kept))
        deadlines = self._policy.deadlines
        until = deadline(gang, deadlines) if gang.has_begun else deadlines.start_by(gang, self._now)
        self._nominate_all(gang, places, until)

    def _still_kept(self, gang: Gang[T]) -> GangReservation[T] | None:
        """What is left of the places of the last step, kept again."""
        kept = self._previous.get(gang.key)
        if kept is not None:
            kept = not_taken(gang, kept, self._cluster, self._running)
        if kept is not None and self._kept_since(kept, evicts=False).is_paused:
            kept = None
        if kept is not None:
            self.backfill.reservations.append(kept)
        return kept

    def _is_ready(self, gang: Gang[T]) -> bool:
        """Whether the gang can be planned at all."""
        if gang.problem is None and not gang.missing:
            return True
        state = State.ASSEMBLING if gang.problem is None else State.INVALID
        self._verdicts.append(Verdict(state, gang))
        return False

    def _planned(self, gang: Gang[T], places: dict[str, str]) -> None:
        """All members have places, so the gates go."""
        self._verdicts.append(Verdict(State.PLANNED, gang, places=places))
        gated = tuple(member.uid for member in gang.joining if member.state is MemberState.GATED)
        if gated:
            self._lift.append(gated)

    def _nominate_all(self, gang: Gang[T], places: dict[str, str], until: float | None) -> None:
        for each in gang.joining:
            if (node := places.get(each.uid)) is not None:
                self._nominate.append(GangNomination(each.uid, node, until))
                self.hold(each, node, gang.key)

    def hold(self, pod: Member[T] | Single[T], node: str, gang: GangKey | None = None) -> None:
        """A pod has been put on a node: later gangs wait for it as for one that runs."""
        ends_at = None
        if pod.max_duration_s is not None:
            ends_at = self._now + self._policy.starting_s + pod.max_duration_s
        stands_for = BoundPod(pod.uid, "", "", pod.priority, GpuRequest(priority=pod.priority))
        planned = Running(stands_for, node, ends_at, gang=gang, planned=pod.ask)
        self._running.append(planned)
        self.backfill.add(planned)

    def _wait(self, gang: Gang[T], miss: GangMiss[T]) -> None:
        """The gang does not fit: the first such gang of its part of the cluster makes room, or keeps it."""
        if not self._searches or (self._starts_first and self._lift):
            self.in_turn = False
            self._verdicts.append(Verdict(State.IN_LINE, gang, miss=miss, reservation=self._still_kept(gang)))
            return
        waits = Verdict(State.UNSCHEDULABLE, gang, miss=miss, refusals=miss.about_each(gang))
        part = part_of(gang, self._cluster) - self._left_out(gang)
        for other in self.backfill.reservations:
            if not other.part.isdisjoint(part):
                self._verdicts.append(replace(waits, state=State.BEHIND, behind=other.key))
                return
        evicted = len(self._evict)
        mine = self._preempt(gang, part)
        state = State.EVICTING
        if mine is None:
            state = State.RESERVED
            previous = self._previous.get(gang.key)
            mine = reserve(gang, self._cluster, self._ending(), self._scene.topology, part, previous)
        if mine is None:
            self._verdicts.append(waits)
            return
        staying = {pod.uid for pod in self._running if not pod.leaving}
        if (share := self._too_much(mine, part, staying)) is not None:
            too_much = share, self._policy.bounds.share
            self._verdicts.append(replace(waits, state=State.NOT_KEPT, too_much=too_much))
            return
        keeping = self._kept_since(mine, evicts=len(self._evict) > evicted)
        if keeping.again_at is not None:
            self._verdicts.append(replace(waits, state=State.NOT_KEPT, again_at=keeping.again_at))
            return
        if self._preempting(gang) and mine.awaited & staying:
            # Others are in the way, so pods that it would evict may come. If all that is awaited leaves, they
            # may not: the gang would evict such pods again and again.
            mine = replace(mine, evicts_below=gang.priority)
        mine = replace(mine, turn=None if gang.is_promised(self._now) else gang.turn)
        self.backfill.reservations.append(mine)
        self._verdicts.append(replace(waits, state=state, reservation=mine))

    def _ending(self) -> list[Running]:
        """The pods that may end. Those of a gang that holds its places until all its members have one do not:
        two gangs would wait for each other."""
        action = self._policy.deadlines.action
        begun = (gang for gang in self.gangs if gang.has_begun and gang.joining)
        holding = {gang.key for gang in begun if action(gang) is OnDeadline.HOLD}
        return [pod for pod in self._running if pod.leaving or pod.gang not in holding]

    def _too_much(
        self, kept: GangReservation[T], part: frozenset[str], staying: Collection[str]
    ) -> float | None:
        """The part of the GPUs that places would be, if it is above that which may wait for pods that stay
        longer, or for a time that is not known; None: they may be kept."""
        bounds = self._policy.bounds
        soon = kept.starts_at is not None and kept.starts_at <= self._now + bounds.longest_s
        if soon or kept.awaited.isdisjoint(staying):
            return None
        share = self._cluster.part_asked((each.ask for each in kept.members), part)
        return share if share > bounds.share else None

    def _kept_since(self, kept: GangReservation[T], *, evicts: bool) -> Keeping:
        """Since when places are kept for a gang, or when they are again. One that evicts pods now has an end
        again."""
        before = self._keeping.get(kept.key, Keeping(self._now))
        if before.is_paused and evicts:
            before = Keeping(self._now, before.failures)
        found = before.at(self._now, kept.starts_at, self._policy.bounds)
        self._keeping[kept.key] = found
        return found

    def _preempting(self, gang: Gang[T]) -> bool:
        return self._policy.preempts and gang.preempts

    def _preempt(self, gang: Gang[T], part: frozenset[str]) -> GangReservation[T] | None:
        """Victims after which the gang fits whole, and its places; None without any."""
        if not self._preempting(gang):
            return None
        scene = self._scene
        found = victims(
            gang, self._cluster, self._running, scene.topology, part, scene.budgets, scene.proposals
        )
        if found is None:
            return None
        nodes = set(found.places.values())
        going = {pod.uid for pod in self._running if pod.leaving} | {pod.uid for pod in found.victims}
        awaited = frozenset(pod.uid for pod in self._running if pod.uid in going and pod.node in nodes)
        # Where a late gang does not leave, the victims would leave in vain.
        if awaited.isdisjoint(self._unsure):
            self._leave(self._evictions(gang, found.victims))
        return GangReservation(gang.key, gang.joining, found.places, awaited, None, part)

    def _evictions(self, gang: Gang[T], victims: Sequence[Running]) -> list[Evict]:
        """The victims of a gang, with those members of their gangs that wait for a node."""
        evicted = [Evict(pod.uid, gang.key) for pod in victims]
        for key in dict.fromkeys(pod.gang for pod in victims):
            members = self._by_key[key].members if key in self._by_key else ()
            evicted += [Evict(each.uid, gang.key) for each in members if each.state is MemberState.WAITING]
        return evicted

    def place(self, single: Single[T]) -> None:
        """The place that a pod has already, or the best one that backfill allows."""
        self._singles.append(single)
        about = single.ask, single.priority, single.max_duration_s
        place = None
        if single.node is not None and single.node in self._cluster.nodes:
            place = self.backfill.place(*about, among=(single.node,))
        place = place or self.backfill.place(*about)
        if place is not None:
            self._cluster.put(single.ask, place.node)
            self.hold(single, place.node)
            self._nominate.append(GangNomination(single.uid, place.node))
            self._verdicts.append(Verdict(State.PLANNED, uid=single.uid, places={single.uid: place.node}))
            return
        kept = self.backfill.reservations and self._cluster.best(single.ask)
        behind = next((each.key for each in self.backfill.reservations if kept), None)
        state = State.WAITING if behind is None else State.BEHIND
        self._verdicts.append(Verdict(state, uid=single.uid, behind=behind))

    def decisions(self) -> Decisions[T]:
        """All that was decided. A gang that was evicted meanwhile gets no place."""
        gangs, singles = self.gangs, self._singles
        verdicts = [
            each
            if each.gang is None
            else replace(
                each, failure=self._failures.get(each.gang.key), left_out=sorted(self._left_out(each.gang))
            )
            for each in self._verdicts
        ]
        going = {each.uid for each in self._evict}
        undone = {gang.key for gang in gangs if any(each.uid in going for each in gang.members)}
        staying = {each.uid for gang in gangs if gang.key not in undone for each in gang.members}
        staying |= {each.uid for each in singles}
        waiting = {each.gang.key for each in self._verdicts if each.gang and each.state is not State.PLANNED}
        nominate = [each for each in self._nominate if each.uid in staying]
        planned = {each.uid for each in nominate} | going
        held = [(each.uid, each.node) for each in singles]
        unbound = [each for gang in gangs for each in gang.members if each.is_unbound]
        held += [(each.uid, each.node) for each in unbound if not each.binding]
        return Decisions(
            settle=self._settle,
            evict=self._evict,
            withdraw=[uid for uid, node in held if node is not None and uid not in planned],
            nominate=nominate,
            lift=[uids for uids in self._lift if staying.issuperset(uids)],
            reservations=self.backfill.reservations,
            verdicts=verdicts,
            keeping={key: each for key, each in self._keeping.items() if key in waiting},
            failures=self._failures,
        )
