"""One step of planning, from the cluster's state to actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.request.gang_request import NODE_POOL, OnDeadline
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState
from scheduler_ext.features.gangs.planning.gang_deadline import DeadlinePolicy
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, Single
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, Scene, step
from scheduler_ext.features.gangs.planning.gang_words import sentence
from scheduler_ext.features.gangs.planning.plan import State
from tests.examples import examples
from tests.features.gangs.planning.memory_cluster import (
    ALL,
    ZONE,
    Ask,
    Host,
    MemoryCluster,
    gang,
    member,
    request_of,
    running,
    team,
    topology,
)

BOUND, WAITING, GATED = MemberState.BOUND, MemberState.WAITING, MemberState.GATED
TWO = {"n1": Host(8), "n2": Host(8)}
NOW = 100.0
POLICY = GangPolicy(DeadlinePolicy(60.0), ALL, starting_s=0.0)
PREEMPTING = replace(POLICY, preempts=True)
Pods = Sequence[tuple[Running, int]]


def decide(
    gangs: Sequence[Gang[Ask]],
    singles: Sequence[Single[Ask]] = (),
    pods: Pods = (),
    hosts: dict[str, Host] = TWO,
    policy: GangPolicy = POLICY,
    now: float = NOW,
) -> Decisions[Ask]:
    cluster = MemoryCluster(hosts, pods)
    scene = Scene(cluster, [pod for pod, _ in pods], topology(hosts), refusals=cluster.refusals)
    return step(now, gangs, singles, scene, policy)


def states(found: Decisions[Ask]) -> dict[str, State]:
    return {(each.gang.key.name if each.gang else each.uid or ""): each.state for each in found.verdicts}


def words(found: Decisions[Ask]) -> list[str]:
    return [sentence(each, request_of) for each in found.verdicts if each.gang]


def test_a_gang_that_fits_gets_places_and_then_loses_its_gates() -> None:
    found = decide([gang(*team(2, 8))])
    assert {(each.uid, each.node, each.deadline) for each in found.nominate} == {
        ("m0", "n1", 160.0),
        ("m1", "n2", 160.0),
    }
    assert found.lift == [("m0", "m1")]
    assert words(found) == ["all 2 members have places"]


@pytest.mark.parametrize(
    ("whole", "pods", "state", "expected"),
    [
        pytest.param(
            gang(*team(5), size=8), [], State.ASSEMBLING, "5 of 8 pods exist", id="pods are missing"
        ),
        pytest.param(
            gang(*team(8, 1, model="H100")),
            [running("a", "n1", 8, ends=500.0), running("b", "n2", 5, ends=300.0)],
            State.RESERVED,
            "3 of 8 members fit; 5 × H100 short; places are kept on 1 node, free once 1 pod left",
            id="places are short until a pod ends",
        ),
        pytest.param(
            gang(*team(2, 8)),
            [running("a", "n1", 8), running("b", "n2", 8, ends=300.0)],
            State.RESERVED,
            "0 of 2 members fit; 16 × nvidia.com/gpu short; places are kept on 2 nodes, free once 2 pods "
            "left; the time is unknown, because some of these pods state no max-duration",
            id="no time is known for pods that do not state their end",
        ),
        pytest.param(
            gang(*team(3, 8)),
            [],
            State.UNSCHEDULABLE,
            "2 of 3 members fit; 8 × nvidia.com/gpu short; the gang would not fit if all other pods with "
            "GPUs left",
            id="the cluster is too small",
        ),
        pytest.param(
            gang(*team(2), required_topology=NODE_POOL),
            [],
            State.UNSCHEDULABLE,
            "no node that could take a member is in a node pool, as the gang requires; "
            "correct its required topology, or label the nodes",
            id="no node is in a pool",
        ),
    ],
)
def test_a_gang_that_waits_says_what_is_missing(
    whole: Gang[Ask], pods: Pods, state: State, expected: str
) -> None:
    found = decide([whole], pods=pods)
    assert (found.nominate, found.lift) == ([], [])
    assert list(states(found).values()) == [state]
    assert words(found) == [expected]


def test_a_nearest_miss_names_the_zone_where_most_members_fit() -> None:
    hosts = {"a1": Host(8, zone="a"), "b1": Host(4, zone="b")}
    found = decide([gang(*team(3, 4), required_topology=ZONE)], hosts=hosts)
    assert words(found)[0].startswith("2 of 3 members fit in zone=a; 4 × nvidia.com/gpu short")


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(
            [member("x", state=BOUND, node="a1"), member("y", state=WAITING, node="b1", created_at=90.0)],
            id="one member runs",
        ),
        pytest.param(
            [member("x", state=WAITING, node="a1", binding=True), member("y", state=WAITING, node="b1")],
            id="one member is being bound",
        ),
        pytest.param([member("x", node="c1"), member("y", node="c1")], id="the node has lost its label"),
    ],
)
def test_nominations_in_two_zones_are_not_kept_where_one_is_required(members: list[Member[Ask]]) -> None:
    hosts = {"a1": Host(2, zone="a"), "b1": Host(2, zone="b"), "c1": Host(2)}
    found = decide([gang(*members, required_topology=ZONE)], hosts=hosts)
    nodes = {each.node for each in found.nominate} | {
        each.node for each in members if each.state is BOUND or each.binding
    }
    assert len({hosts[node or ""].zone for node in nodes} - {""}) == 1
    assert "c1" not in nodes


def test_a_member_that_is_being_bound_holds_its_room_and_the_others_keep_theirs() -> None:
    """Its Binding may still fail, so the gang has not started yet."""
    moving = member("x", 8, WAITING, node="n1", deadline=160.0, binding=True)
    others = [
        member("y", 8, WAITING, node="n2", deadline=160.0),
        member("z", 1, BOUND, node="n3", deadline=160.0),
    ]
    found = decide([gang(moving, *others)], pods=[running("x", "n1", 8)], hosts=TWO | {"n3": Host(1)})
    assert [(each.uid, each.node) for each in found.nominate] == [("y", "n2")]
    assert (found.withdraw, found.settle, found.evict) == ([], [], [])
    assert states(found) == {"train": State.PLANNED}
    found = decide([gang(moving, others[1])], pods=[running("x", "n1", 8)])
    assert (found.withdraw, found.settle) == ([], [])


def test_smaller_pods_do_not_take_the_places_of_a_gang() -> None:
    pods = [running("a", "n1", 8, ends=200.0), running("b", "n2", 4, ends=300.0)]
    small = [
        Single("young", Ask(2), created_at=50.0),
        Single("short", Ask(2), created_at=51.0, max_duration_s=150.0),
        Single("urgent", Ask(2), priority=9, created_at=52.0),
    ]
    found = decide([gang(*team(2, 8))], small, pods)
    assert states(found) == {
        "urgent": State.PLANNED,
        "train": State.RESERVED,
        "young": State.BEHIND,
        "short": State.BEHIND,  # the gang waits for `urgent`, too, which states no end
    }
    assert states(decide([gang(*team(2, 8))], small[:2], pods)) == {
        "train": State.RESERVED,
        "young": State.BEHIND,
        "short": State.PLANNED,
    }


def test_one_gang_of_a_part_keeps_places_and_the_next_one_waits_behind_it() -> None:
    hosts = {"h": Host(8), "a": Host(8, "A100")}
    pods = [running("x", "h", 8), running("y", "a", 8)]

    def one(name: str, model: str, created: float) -> Gang[Ask]:
        return gang(*team(2, 4, f"{name}-", model=model, created_at=created), name=name)

    found = decide(
        [one("first", "H100", 1.0), one("next", "H100", 2.0), one("other", "A100", 3.0)], [], pods, hosts
    )
    assert states(found) == {"first": State.RESERVED, "next": State.BEHIND, "other": State.RESERVED}
    assert words(found)[1].endswith("behind gang default/first, for which places are kept")


@pytest.mark.parametrize(
    ("on_deadline", "expected"),
    [
        pytest.param(
            OnDeadline.HOLD, State.UNSCHEDULABLE, id="one that may hold them for ever is not waited for"
        ),
        pytest.param(OnDeadline.EVICT, State.RESERVED, id="one that is evicted when it is late is"),
    ],
)
def test_two_gangs_do_not_wait_for_each_other(on_deadline: OnDeadline, expected: State) -> None:
    """The first needs the GPUs of a gang that has lost a pod, which needs others to go on."""
    there = member("h-0", 4, state=BOUND, node="n1", created_at=50.0)
    back = member("h-1", 4, state=GATED, created_at=90.0)
    partial = gang(there, back, name="partial", size=2, on_deadline=on_deadline)
    pods = [running("h-0", "n1", 4, gang=partial.key)]
    found = decide([gang(*team(2, 8, created_at=1.0)), partial], [], pods)
    assert states(found)["train"] is expected
    assert (states(found)["partial"] is State.PLANNED) == (expected is State.UNSCHEDULABLE)


def test_a_gang_evicts_once_and_then_keeps_its_places_from_everyone() -> None:
    pods = [running("a", "n1", 8), running("b", "n2", 8)]
    important = gang(*team(2, 4, priority=10))
    found = decide([important], [], pods, policy=PREEMPTING)
    assert [each.uid for each in found.evict] == ["b"]
    assert found.nominate == []
    leaving = [pods[0], (replace(pods[1][0], leaving=True), 8)]
    again = decide([important], [Single("low", Ask(1))], leaving, policy=PREEMPTING)
    assert (again.evict, states(again)) == ([], {"train": State.RESERVED, "low": State.WAITING})
    gone = decide([important], [], pods[:1], policy=PREEMPTING)
    assert states(gone) == {"train": State.PLANNED}


def test_no_pod_takes_a_place_from_which_another_was_evicted() -> None:
    pods = [running("a", "n1", 6), running("b", "n2", 6)]
    important = gang(*team(2, 8, priority=10))
    found = decide([important], [Single("low", Ask(1))], pods, policy=PREEMPTING)
    assert states(found) == {"train": State.EVICTING, "low": State.BEHIND}


def test_a_gang_whose_members_never_preempt_evicts_nobody() -> None:
    polite = gang(*team(2, 4, priority=10, preempts=False))
    pods = [running("a", "n1", 8), running("b", "n2", 8)]
    assert decide([polite], [], pods, policy=PREEMPTING).evict == []


def test_a_victim_takes_all_of_its_gang_along_also_members_that_only_wait() -> None:
    mate = gang(
        member("x0", 8, BOUND, node="n1", deadline=130.0),
        member("x1", 2, WAITING, node="n2", deadline=130.0),
        member("x2", 2, GATED, node="n2", deadline=130.0),
        name="mate",
    )
    pods = [running("x0", "n1", 8, gang=mate.key), running("b", "n2", 4, priority=10)]
    found = decide([mate, gang(*team(1, 8, priority=10), size=1)], [], pods, policy=PREEMPTING)
    assert {each.uid for each in found.evict} == {"x0", "x1"}
    assert (found.nominate, found.lift, found.withdraw) == ([], [], ["x2"])


BEGUN = gang(
    member("m0", 8, BOUND, node="n1", deadline=150.0),
    member("m1", 4, WAITING, node="n2", deadline=150.0),
    member("m2", 4, GATED, node="n2", deadline=150.0),
)


def test_a_member_whose_node_died_is_planned_again_and_no_gate_goes_before_all_have_places() -> None:
    pods = [running("m0", "n1", 8, gang=BEGUN.key), running("x", "n3", 2, ends=200.0)]
    hosts = {"n1": Host(8), "n3": Host(6)}
    found = decide([BEGUN], [], pods, hosts)
    assert (found.nominate, found.lift) == ([], [])
    assert set(found.withdraw) == {"m1", "m2"}
    assert states(found) == {"train": State.UNSCHEDULABLE}
    found = decide([BEGUN], [], pods, {**hosts, "n4": Host(4)})
    assert {(each.uid, each.node) for each in found.nominate} == {("m1", "n3"), ("m2", "n4")}
    assert found.lift == [("m2",)]


def test_a_gang_that_is_late_is_evicted_whole_but_for_pods_behind_gates() -> None:
    found = decide([BEGUN], [], [running("m0", "n1", 8, gang=BEGUN.key)], now=150.0)
    assert [(each.uid, each.overdue) for each in found.evict] == [("m0", True), ("m1", True)]
    assert found.withdraw == ["m2"]
    assert words(found) == [
        "1 of 3 members run, and the deadline has passed: the gang is evicted whole; "
        "kube-scheduler did not come to a member in time"
    ]


@pytest.mark.parametrize(
    ("refused", "state"),
    [
        pytest.param(False, State.EVICTING, id="as long as it is not known whether that gang leaves"),
        pytest.param(True, State.RESERVED, id="nor after its eviction was refused"),
    ],
)
def test_no_pod_is_evicted_beside_a_late_gang_that_may_stay(refused: bool, state: State) -> None:
    late = gang(
        member("x0", 8, BOUND, node="n1", deadline=90.0, priority=20),
        member("x1", 8, WAITING, deadline=90.0, priority=20),
        name="late",
    )
    pods = [running("x0", "n1", 8, gang=late.key, priority=20), running("low", "n2", 8)]
    scene = Scene(MemoryCluster(TWO, pods), [pod for pod, _ in pods], topology(TWO))
    scene = replace(scene, refused=(late.key,) if refused else ())
    found = step(NOW, [late, gang(*team(2, 8, priority=10))], [], scene, PREEMPTING)
    assert {each.uid for each in found.evict} == {"x0", "x1"}
    assert states(found)["train"] is state


def test_a_gang_that_runs_whole_loses_its_deadline() -> None:
    members = [member(f"m{i}", 8, BOUND, node=f"n{i + 1}", deadline=150.0) for i in range(2)]
    found = decide([gang(*members)], [], [running("m0", "n1", 8), running("m1", "n2", 8)])
    assert found.settle == ["m0", "m1"]


def test_a_stated_end_that_passed_is_no_end() -> None:
    pods = [running("a", "n1", 8, ends=90.0), running("b", "n2", 8, ends=90.0)]
    found = decide([gang(*team(2, 8))], [], pods)
    assert found.reservations[0].starts_at is None


def test_a_nomination_that_still_holds_stays() -> None:
    kept = gang(member("m0", 2, node="n2"), member("m1", 2, node="n1"))
    found = decide([kept], [Single("s", Ask(1), node="n2")])
    assert {each.uid: each.node for each in found.nominate} == {"m0": "n2", "m1": "n1", "s": "n2"}
    assert found.withdraw == []


@st.composite
def _waiting_gangs(draw: st.DrawFn) -> list[Gang[Ask]]:
    """Gangs to which nothing was promised: some of their pods have no gates, and some run."""
    gangs = []
    for number in range(draw(st.integers(1, 4))):
        priority, created_at = draw(st.integers(-1, 1)), float(number)
        states = draw(st.lists(st.sampled_from((BOUND, WAITING, GATED)), min_size=1, max_size=3))
        gpus = draw(st.integers(1, 4))
        members = [
            member(
                f"g{number}-{i}",
                gpus,
                state,
                priority=priority,
                created_at=created_at,
                node="n1" if state is BOUND else draw(st.sampled_from((None, "n1", "n2"))),
                max_duration_s=draw(st.sampled_from((None, 50.0))),
            )
            for i, state in enumerate(states)
        ]
        more: dict[str, Any] = {"on_deadline": draw(st.sampled_from((None, *OnDeadline))), "deadline_s": 9e9}
        size = len(members) + draw(st.integers(0, 2))
        gangs.append(gang(*members, name=f"g{number}", size=size, **more))
    return gangs


@given(
    _waiting_gangs(),
    st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 1)), max_size=4),
    st.lists(st.integers(1, 4), max_size=3),
)
@examples(100, 5000)
def test_a_gang_takes_nothing_from_what_comes_before_it(
    gangs: list[Gang[Ask]], alone: list[tuple[int, int]], there: list[int]
) -> None:
    """By priority and age, whatever its pods say and whichever of them run: all that comes before a gang gets
    the same places as if the pods of the gang that wait did not exist."""
    singles = [Single(f"s{i}", Ask(gpus), each, i + 0.5) for i, (gpus, each) in enumerate(alone)]
    pods = [running(f"r{i}", "n2", gpus) for i, gpus in enumerate(there)]
    bound = [
        running(each.uid, "n1", each.ask.gpus, gang=whole.key, priority=whole.priority)
        for whole in gangs
        for each in whole.bound
    ]
    hosts = {"n1": Host(8 + sum(gpus for _, gpus in bound)), "n2": Host(12)}

    def given_to(some: Sequence[Gang[Ask]]) -> dict[str, str]:
        return {each.uid: each.node for each in decide(some, singles, [*pods, *bound], hosts).nominate}

    whole = gangs[-1]
    before = {each.uid for each in singles if (-each.priority, each.created_at) < whole.turn}
    before |= {each.uid for other in gangs if other.turn < whole.turn for each in other.members}
    with_it, without_it = given_to(gangs), given_to(gangs[:-1])
    assert {uid: with_it.get(uid) for uid in before} == {uid: without_it.get(uid) for uid in before}
