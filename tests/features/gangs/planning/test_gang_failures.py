"""What follows from a start of a gang that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, Refusal
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions
from scheduler_ext.features.gangs.planning.gang_failures import GangFailure, failure
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, Scene, step
from scheduler_ext.features.gangs.planning.gang_words import sentence
from tests.features.gangs.planning.memory_cluster import (
    Ask,
    Host,
    MemoryCluster,
    gang,
    member,
    request_of,
    running,
    team,
)

BOUND, WAITING, GATED = MemberState.BOUND, MemberState.WAITING, MemberState.GATED
TWO = {"n1": Host(2), "n2": Host(2)}
NO = Refusal("pod m1: 0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules")
ERROR = Refusal("pod m1: connection refused", is_error=True)


def late(refusal: Refusal | None, deadline: float = 100.0, node: str = "n2") -> Gang[Ask]:
    first = member("m0", 1, BOUND, node="n1", deadline=deadline)
    return gang(first, member("m1", 1, WAITING, node=node, deadline=deadline, refusal=refusal))


def failed(refusal: Refusal | None, *, fits: bool = True, times: int = 1) -> GangFailure:
    """After so many failures of one cause, each ten seconds after the last."""
    before = None
    for number in range(times):
        now = 100.0 + 10 * number
        before = failure(late(refusal, now), now, before, now, lambda _: fits)
    assert before is not None
    return before


@pytest.mark.parametrize(
    ("found", "nodes", "left_out_s", "why"),
    [
        pytest.param(failed(NO), {"n2"}, 300.0, f"on n2, {NO.text}", id="kube-scheduler refused the node"),
        pytest.param(failed(NO, times=3), {"n2"}, 1200.0, f"on n2, {NO.text}", id="for the third time"),
        pytest.param(failed(NO, times=99), {"n2"}, 3600.0, f"on n2, {NO.text}", id="an hour at most"),
        pytest.param(failed(NO, fits=False), set(), 300.0, f"on n2, {NO.text}", id="the node is full anyway"),
        pytest.param(failed(ERROR), {"n2"}, 8.0, f"on n2, {ERROR.text}", id="an error ends with its cause"),
        pytest.param(
            failed(ERROR, times=3), {"n2"}, 128.0, f"on n2, {ERROR.text}", id="one that comes again does not"
        ),
        pytest.param(
            failed(None),
            set(),
            None,
            "kube-scheduler did not come to a member in time",
            id="no node is to blame",
        ),
    ],
)
def test_a_failure_has_a_cause_and_leaves_out_the_nodes_that_would_fail_again(
    found: GangFailure, nodes: set[str], left_out_s: float | None, why: str
) -> None:
    assert (set(found.nodes), found.why) == (nodes, why)
    if left_out_s is not None:
        assert found.until == 100.0 + 10 * (found.count - 1) + left_out_s


@pytest.mark.parametrize(
    ("refusal", "fits", "now", "nodes", "until"),
    [
        pytest.param(NO, True, 110.0, {"n2", "n3"}, 710.0, id="after a failure on another node"),
        pytest.param(ERROR, True, 110.0, {"n2", "n3"}, 400.0, id="after an error there"),
        pytest.param(NO, False, 110.0, {"n2"}, 400.0, id="after one for which no further node is left out"),
        pytest.param(None, True, 110.0, {"n2"}, 400.0, id="after one for which no node is to blame"),
        pytest.param(NO, True, 400.0, {"n3"}, 1000.0, id="not once its time is over"),
    ],
)
def test_a_node_is_still_left_out(
    refusal: Refusal | None, fits: bool, now: float, nodes: set[str], until: float
) -> None:
    """n2, since a failure at 100 s until 400 s."""
    found = failure(late(refusal, now, "n3"), now, failed(NO), now, lambda _: fits)
    assert (set(found.nodes), found.until) == (nodes, until)


def test_a_failure_counts_once() -> None:
    first = failed(NO)
    assert failure(late(NO), 100.0, first, 101.0, lambda _: True) is first


def decide(whole: Gang[Ask], now: float, before: Decisions[Ask], hosts: dict[str, Host]) -> Decisions[Ask]:
    pods: list[tuple[Running, int]] = [
        running(each.uid, each.node or "", 1, gang=whole.key) for each in whole.bound
    ]
    scene = Scene(MemoryCluster(hosts, pods), [pod for pod, _ in pods], {}, failures=before.failures)
    return step(now, [whole], [], scene, GangPolicy(starting_s=0.0))


def words(found: Decisions[Ask]) -> list[str]:
    return [sentence(each, request_of) for each in found.verdicts]


AGAIN: list[Member[Ask]] = team(2)


def test_a_gang_starts_on_other_nodes_after_kube_scheduler_refused_one() -> None:
    gave_up = decide(late(NO), 100.0, Decisions(), TWO)
    assert {each.uid for each in gave_up.evict} == {"m0", "m1"}
    assert words(gave_up)[0].endswith(f"the gang is evicted whole; on n2, {NO.text}")
    again = decide(gang(*AGAIN), 101.0, gave_up, TWO)
    assert {each.node for each in again.nominate} == {"n1"}


def test_a_gang_is_not_started_again_on_the_only_nodes_that_kube_scheduler_refuses() -> None:
    """Until the pause is over; `why` has the cause."""
    wide = gang(*team(4))
    gave_up = decide(late(NO), 100.0, Decisions(), TWO)
    found = decide(wide, 101.0, gave_up, TWO)
    assert found.nominate == []
    (text,) = words(found)
    assert f"the last start failed: on n2, {NO.text}; 1 node left out until 00:06 UTC: n2" in text
    assert len(decide(wide, 401.0, found, TWO).nominate) == 4


def test_a_gang_that_runs_whole_has_no_failure_any_more() -> None:
    gave_up = decide(late(NO), 100.0, Decisions(), TWO)
    runs = gang(*(replace(each, state=BOUND, node="n1") for each in AGAIN))
    assert decide(runs, 120.0, gave_up, TWO).failures == {}
