"""The planner gives places in kube-scheduler's order, follows what becomes of them, and is fair."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.features.gangs.planning.outcomes import Outcome
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.planner import Planner
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod, asked_gpus
from tests.core.asked import mig, share, whole
from tests.examples import examples
from tests.features.gangs.planning.planning_lab import PlanningLab, gpus_node, waiting

TTL_S = 30.0


@dataclass
class Run:
    """A planner on a cluster that does what it says."""

    lab: PlanningLab
    asks: dict[str, WaitingPod] = field(default_factory=dict)
    kept: dict[str, KeptPlace] = field(default_factory=dict)
    bound: dict[str, str | None] = field(default_factory=dict)
    planner: Planner = field(default_factory=lambda: Planner(TTL_S))
    now: float = 0.0
    more: bool = False
    version: int = 0

    def ask(self, *asks: WaitingPod) -> None:
        """These pods wait."""
        self.asks |= {ask.uid: ask for ask in asks}

    def step(self, *, written: bool = True) -> dict[str, str]:
        """One step; the node of each pod that got a place in it."""
        self.now += 0.1
        order = sorted(self.asks.values(), key=lambda ask: ask.rank)
        self.planner.follow(self.now, self.asks, self.kept, self.bound)
        step = self.planner.step(self.now, order, self.version, self._cluster)
        self.more = step.more
        for uid in step.withdraw:
            self.lose(uid)
        for each in step.nominate:
            place = KeptPlace(each.pod, each.node, self.now + TTL_S, written)
            self.keep(each.ask.uid, place)
        return {each.ask.uid: each.node for each in step.nominate}

    def plan(self) -> dict[str, str]:
        """Steps until nothing more is found; all places."""
        quiet = 0
        while quiet < 3:
            quiet = 0 if self.step() else quiet + (not self.more)
            self.now = self.planner.next_look(self.now) or self.now
        return {uid: place.node for uid, place in self.kept.items()}

    def bind(self, uid: str, node: str) -> None:
        """kube-scheduler has bound a pod."""
        ask = self.asks.pop(uid)
        self.lose(uid)
        self.bound[uid] = node
        info = self.lab.infos[node]
        self.lab.infos[node] = replace(info, pods=(*info.pods, ask.pod))
        self.lab.rooms.place(uid, node, ask.amounts)

    def state(self, uid: str) -> State:
        return self.planner.state_of(self.asks[uid], self.now)

    def keep(self, uid: str, place: KeptPlace) -> None:
        """The ledger keeps this place."""
        self.lose(uid)
        self.kept[uid] = place
        info = self.lab.infos[place.node]
        self.lab.infos[place.node] = replace(info, planned=(*info.planned, place.pod))

    def lose(self, uid: str) -> None:
        """The ledger keeps the place no longer."""
        self.version += 1
        before = self.kept.pop(uid, None)
        if before is not None:
            info = self.lab.infos[before.node]
            planned = tuple(pod for pod in info.planned if pod.uid != uid)
            self.lab.infos[before.node] = replace(info, planned=planned)

    def _cluster(self) -> PlannedCluster:
        cluster = self.lab.cluster()
        for uid, place in self.kept.items():
            cluster.hold(place, self.asks[uid].amounts)
        return cluster


def run(*gpus: int) -> Run:
    """Nodes a, b, ... of so many GPUs."""
    return Run(PlanningLab([gpus_node("abcdef"[i], count) for i, count in enumerate(gpus)]))


def test_pods_get_places_by_priority_then_by_age() -> None:
    found = run(2)
    found.ask(waiting("young", number=3), waiting("old", number=1), waiting("urgent", priority=9, number=9))
    assert found.plan().keys() == {"urgent", "old"}
    assert found.state("young") is State.WAITING
    assert found.planner.refusals_of(found.asks["young"]) == {"Insufficient nvidia.com/gpu per device": 1}


def test_a_place_is_planned_then_nominated_then_bound() -> None:
    found = run(1)
    found.ask(waiting("p"))
    assert found.step(written=False) == {"p": "a"}
    assert found.state("p") is State.PLANNED
    found.kept["p"] = found.kept["p"]._replace(written=True)
    found.step()
    assert found.state("p") is State.NOMINATED
    assert found.planner.place_of("p") == ("a", TTL_S + 0.1)
    found.bind("p", "a")
    found.step()
    assert found.planner.take_outcomes() == {Outcome.BOUND: 1}
    assert found.planner.take_outcomes() == {}


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({"gated": True}, State.GATED, id="a pod with gates"),
        pytest.param({"invalid": "bad"}, State.INVALID, id="an unreadable pod"),
        pytest.param({"not_modelled": ("claims",)}, State.NOT_MODELLED, id="a pod with unknown claims"),
        pytest.param({"nominated": "b"}, State.NOMINATED_ELSEWHERE, id="a pod that another one nominated"),
    ],
)
def test_pods_that_are_left_alone(fields: dict[str, object], state: State) -> None:
    found = run(4)
    ask = waiting("p", **fields)  # type: ignore[arg-type]
    found.ask(ask)
    assert found.plan() == {}
    assert found.state("p") is state
    reasons = {State.INVALID: "bad", State.NOT_MODELLED: "it asks claims"}
    assert found.planner.reason_of(ask, state) == reasons.get(state, "")


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param("lost", Outcome.MISFIT, id="kube-scheduler removed the nomination"),
        pytest.param("late", Outcome.EXPIRED, id="its time is over"),
        pytest.param("foreign", Outcome.CONFLICT, id="another component nominates the pod"),
        pytest.param("elsewhere", Outcome.ELSEWHERE, id="it is bound to another node"),
        pytest.param("deleted", Outcome.DELETED, id="it is deleted"),
    ],
)
def test_what_becomes_of_a_nomination(end: str, outcome: Outcome) -> None:
    found = run(1, 1)
    found.ask(waiting("p"))
    found.step()
    match end:
        case "elsewhere":
            found.bind("p", "b")
        case "deleted":
            del found.asks["p"]
            found.bound["p"] = None
        case _:
            found.lose("p")
            found.now += TTL_S if end == "late" else 0
            found.asks["p"] = waiting("p", nominated="b") if end == "foreign" else found.asks["p"]
    found.step()
    assert found.planner.take_outcomes() == {outcome: 1}


@pytest.mark.parametrize(
    ("fields", "later_s", "untried"),
    [
        pytest.param({}, 20.0, [], id="a pod that is checked here, while kube-scheduler is busy"),
        pytest.param({"unchecked": ("host ports",)}, 4.9, [], id="a pod with host ports, just written"),
        pytest.param({"unchecked": ("host ports",)}, 5.0, ["p"], id="a pod with host ports"),
    ],
)
def test_a_nomination_that_kube_scheduler_does_not_follow_ends_early(
    fields: dict[str, object], later_s: float, untried: list[str]
) -> None:
    found = run(1)
    found.ask(waiting("p", **fields))  # type: ignore[arg-type]
    assert found.step() == {"p": "a"}
    assert found.planner.untried(found.now + 60) == []  # not written yet
    found.step()
    written_at = found.planner._given["p"].written_at
    assert written_at is not None
    assert found.planner.untried(written_at + later_s) == untried
    found.planner.asked(found.now, ["p"])
    assert found.planner.untried(written_at + 60) == []


def test_a_pod_is_planned_again_ever_more_slowly() -> None:
    found = run(1)
    found.ask(waiting("p"))
    tried = []
    for _ in range(400):
        if found.step():
            tried.append(found.now)
            found.lose("p")
    gaps = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert found.state("p") is State.BACKING_OFF
    assert "refused the pod on its planned node" in found.planner.reason_of(
        found.asks["p"], State.BACKING_OFF
    )
    assert gaps == sorted(gaps)
    assert len(tried) == 5
    assert found.planner.next_look(found.now) is not None


def test_a_pod_that_is_being_bound_is_no_misfit() -> None:
    found = run(1)
    found.ask(waiting("p"))
    found.step()
    found.lose("p")
    found.planner.follow(found.now, found.asks, {}, {}, binding={"p"})
    assert found.planner.take_outcomes() == {}
    found.planner.follow(found.now, found.asks, {}, {})
    assert found.planner.take_outcomes() == {Outcome.MISFIT: 1}


def test_a_pod_that_is_being_bound_to_a_node_that_is_gone_harms_no_step() -> None:
    found = run(1)
    found.ask(waiting("low"))
    assert found.plan() == {"low": "a"}
    found.lose("low")
    found.lab.infos = {"b": gpus_node("b", 0)}
    found.lab.show("b")
    asks = {"low": found.asks["low"], "urgent": waiting("urgent", priority=5)}
    found.planner.follow(found.now, asks, {}, {}, binding={"low"})
    step = found.planner.step(found.now, [asks["urgent"], asks["low"]], "later", found.lab.cluster)
    assert not step.nominate


def test_a_planner_that_takes_over_goes_on_with_what_is_kept() -> None:
    found = run(1, 1)
    ask = waiting("p", nominated="b", planned=PlannedNode("b", 99.0))
    found.ask(ask, waiting("q"))
    found.keep("p", KeptPlace(ask.pod, "b", 20.0, written=True))
    assert found.plan() == {"p": "b", "q": "a"}
    assert found.planner.place_of("p") == ("b", 20.0)
    found.planner.forget()
    assert found.planner.given == {}


def test_a_nomination_without_a_place_is_withdrawn() -> None:
    found = run(1)
    ask = waiting("p", 2, nominated="a", planned=PlannedNode("a", 0.0))
    assert found.planner.stale(0.0, [ask]) == []
    assert found.planner.stale(0.6, [ask]) == [ask]
    assert found.planner.stale(0.7, [ask]) == []
    assert found.planner.stale(6.2, [ask]) == [ask]
    assert found.planner.stale(6.3, [replace(ask, nominated=None)]) == []


def test_pods_that_kube_scheduler_has_not_tried_get_no_place_and_keep_no_gang_waiting() -> None:
    found, untried, tried = run(8), waiting("p", was_tried=False), waiting("q")
    assert not found.planner.waits([untried], 0.0)
    assert found.planner.waits([untried, tried], 0.0)
    found.ask(untried, tried)
    assert found.plan().keys() == {"q"}
    assert found.state("p") is State.WAITING


def test_the_pauses_of_pods_that_are_gone_are_forgotten() -> None:
    found = run(8)
    found.ask(waiting("p"))
    found.step()
    found.lose("p")
    found.step()
    assert found.state("p") is State.BACKING_OFF
    asking = found.asks.pop("p")
    found.step()
    found.ask(asking)
    assert found.step().keys() == {"p"}


def test_a_pod_that_kube_scheduler_has_come_to_gets_no_place() -> None:
    found = run(8)
    found.ask(waiting("p0", number=0), waiting("p1", number=1))
    found.planner.asked(found.now, ["p0"])
    assert found.step().keys() == {"p1"}
    found.now += 5
    found.planner.asked(found.now, [])
    assert found.step().keys() == {"p0"}


_pods = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from((0, 0, 1, 5)), st.integers(1, 40), st.booleans()),
    max_size=12,
)
_gpus = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(_gpus, _pods)
@examples(25, 500)
def test_places_are_never_given_twice_and_none_is_left_that_would_do(
    gpus: list[int], pods: list[tuple[int, int, int, bool]]
) -> None:
    found = run(*gpus)
    asks = [
        waiting(f"p{i}", count, priority, cpu=cpu, number=i)
        for i, (count, priority, cpu, _) in enumerate(pods)
    ]
    for ask, (*_, later) in zip(asks, pods, strict=True):
        found.ask(ask)
        if later:
            found.step()
    plan = found.plan()
    for name, size in zip("abcdef", gpus, strict=False):
        here = [found.asks[uid] for uid, node in plan.items() if node == name]
        assert sum(ask.gpus for ask in here) <= size
        assert sum(ask.amounts["cpu"] for ask in here) <= 64_000
    for ask in asks:
        if ask.uid not in plan:
            assert not _fits_beside(found, ask, plan, gpus)


def _fits_beside(found: Run, ask: WaitingPod, plan: dict[str, str], gpus: Sequence[int]) -> bool:
    """Whether a pod would fit beside those that have places."""
    for name, size in zip("abcdef", gpus, strict=False):
        here = [found.asks[uid] for uid, node in plan.items() if node == name]
        free = size - sum(each.gpus for each in here)
        cpu = 64_000 - sum(each.amounts["cpu"] for each in here)
        if ask.gpus <= free and ask.amounts["cpu"] <= cpu:
            return True
    return False


def test_what_a_pod_asks_in_gpus() -> None:
    assert asked_gpus(whole(3)) == 3
    assert asked_gpus(mig("3g.40gb", 2)) == pytest.approx(6 / 7)
    assert asked_gpus(share(40_960)) == 0.5
