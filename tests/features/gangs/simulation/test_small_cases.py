"""Small clusters with an obvious right answer, for pods that start alone and for the planner."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from scheduler_ext.features.gangs.simulation.deadlocks import deadlocked
from scheduler_ext.features.gangs.simulation.jobs import ALONE, TOGETHER, Job
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.world import Cluster
from tests.features.gangs.simulation.stage import Stage
from tests.sim.small import cluster_of, share, whole

TWO_NODES = cluster_of((64_000, 4, "A100"), (64_000, 4, "T4"))


def two_gangs(start: str, patience: float = 1e9) -> tuple[Stage, Job, Job]:
    """Two gangs that each need both nodes: the first arrives while a pod uses a GPU of the second node, and
    that pod ends."""
    stage = Stage(TWO_NODES, start, patience=patience)
    pod = stage.arrive(whole(1, models=("T4",)))
    large = stage.arrive(whole(4), whole(4), at=1.0)
    small = stage.arrive(*[whole(2)] * 4, at=2.0)
    stage.end(pod, at=3.0)
    return stage, large, small


class TestTwoGangsThatNeedTheSameNodes:
    def test_wait_for_each_other_if_their_pods_start_alone(self) -> None:
        stage, large, small = two_gangs(ALONE)
        assert stage.running([large, small]) == [False, False]
        assert (stage.held(large), stage.held(small)) == (1, 2)
        assert deadlocked(stage.floor, stage.places) == {large, small}
        assert stage.floor.partial_milli == 8000

    def test_run_one_after_the_other_by_the_planner(self) -> None:
        stage, large, small = two_gangs(TOGETHER)
        assert stage.running([large, small]) == [True, False]
        assert stage.held(small) == 0
        assert stage.end(large, at=4.0).started == [small]

    def test_begin_again_after_their_patience(self) -> None:
        stage, large, small = two_gangs(ALONE, patience=5.0)
        assert stage.scheduler.expires == 6.0
        # The first one leaves; the second one has its place now, and starts.
        assert stage.scheduler.expire(6.0).started == [small]
        assert (stage.scheduler.given_up, stage.scheduler.deadlocked) == (1, 1)
        assert stage.running([large, small]) == [False, True]
        assert stage.scheduler.expires == float("inf")
        assert stage.end(small, at=7.0).started == [large]


@pytest.mark.parametrize(
    ("waits_for", "expected"),
    [
        pytest.param(True, set(), id="a gang that waits for a running pod is in none"),
        pytest.param(False, {1}, id="a gang alone that can never start is in one"),
    ],
)
def test_deadlocks_of_one_gang(waits_for: bool, expected: set[int]) -> None:
    stage = Stage(TWO_NODES, ALONE)
    if waits_for:
        stage.arrive(whole(4))
    # The cluster has room for two of them.
    gang = stage.arrive(*[whole(4)] * (2 if waits_for else 3))
    assert stage.held(gang) == (1 if waits_for else 2)
    assert {job.number for job in deadlocked(stage.floor, stage.places)} == expected
    assert stage.held(gang) == (1 if waits_for else 2)


def test_a_gang_that_waits_for_one_in_a_deadlock_only_is_in_it_too() -> None:
    stage, large, small = two_gangs(ALONE)
    assert stage.held(stage.arrive(whole(1), whole(4), at=4.0)) == 0
    third = stage.arrive(share(500), whole(4), at=5.0)
    assert stage.held(third) == 0
    assert deadlocked(stage.floor, stage.places) == {large, small}


def test_a_gang_that_waits_for_one_that_will_start_is_in_no_deadlock() -> None:
    nodes = cluster_of((64_000, 4, "A100"), (64_000, 4, "T4"), (64_000, 4, "H100"))
    stage = Stage(nodes, ALONE)
    stage.arrive(whole(1, models=("T4",)))
    stage.arrive(whole(1, models=("H100",)))
    # It waits for the second one, which waits for a pod that runs.
    first = stage.arrive(whole(4, models=("A100",)), whole(4, models=("T4",)), at=1.0)
    second = stage.arrive(whole(2, models=("T4",)), whole(4, models=("H100",)), at=2.0)
    assert (stage.held(first), stage.held(second)) == (1, 1)
    assert deadlocked(stage.floor, stage.places) == set()


def test_of_equal_pods_the_second_may_see_the_node_that_the_first_missed() -> None:
    nodes = cluster_of((64_000, 1, "A100"), (64_000, 1, "T4"), (64_000, 1, "T4"))
    with patch.object(Sampling, "least", 1):
        stage = Stage(nodes, ALONE, settings=Settings(ties="first", sampled_percent=1))
    gang = stage.arrive(*[whole(1, models=("T4",))] * 2)
    assert stage.held(gang) == 1
    stage.scheduler.retry(1.0)
    assert stage.running([gang]) == [True]


class TestASmallPodBesideAReservation:
    """Two nodes of two GPUs. A pod that runs until 10 is in the way of a gang that needs both nodes."""

    CLUSTER: Cluster = cluster_of((64_000, 2, "A100"), (64_000, 2, "T4"))

    def staged(self, start: str, *, ends: float | None = 10.0) -> tuple[Stage, Job, Job]:
        stage = Stage(self.CLUSTER, start)
        running = stage.arrive(whole(1, models=("T4",)), stated=ends)
        gang = stage.arrive(whole(2), whole(2), at=1.0)
        return stage, running, gang

    @pytest.mark.parametrize(
        ("ends", "stated", "starts"),
        [
            pytest.param(10.0, None, False, id="it waits if it states no duration"),
            pytest.param(10.0, 9.0, False, id="it waits if it would run longer than the pod in the way"),
            pytest.param(10.0, 8.0, True, id="it starts if it ends by the time that the gang starts"),
            pytest.param(None, 1.0, False, id="it waits if the time of the gang is unknown"),
        ],
    )
    def test_by_the_planner(self, ends: float | None, stated: float | None, starts: bool) -> None:
        stage, running, gang = self.staged(TOGETHER, ends=ends)
        assert stage.held(gang) == 0
        small = stage.arrive(whole(1), at=2.0, stated=stated)
        assert stage.running([small]) == [starts]
        if not starts:
            assert stage.end(running, at=10.0).started == [gang]

    def test_of_equal_pods_the_short_one_may_start(self) -> None:
        stage = Stage(self.CLUSTER, TOGETHER)
        stage.arrive(whole(1, models=("T4",)), stated=10.0)
        ending = stage.arrive(whole(1, models=("T4",)), stated=10.0)
        stage.arrive(whole(2), whole(2), at=1.0)
        long, short = (
            stage.arrive(whole(1, models=("T4",)), at=2.0, stated=stated) for stated in (20.0, 5.0)
        )
        assert stage.running([long, short]) == [False, False]
        assert stage.end(ending, at=3.0).started == [short]

    def test_room_that_the_gang_leaves_is_free_for_all(self) -> None:
        stage = Stage(cluster_of((64_000, 2, "A100"), (64_000, 3, "T4")), TOGETHER)
        stage.arrive(whole(1, models=("A100",)))
        gang = stage.arrive(whole(2), whole(2), at=1.0)
        assert stage.held(gang) == 0
        small = stage.arrive(whole(1, models=("T4",)), at=2.0)
        assert stage.running([small]) == [True]
        other = stage.arrive(whole(1, models=("T4",)), at=3.0)
        assert stage.running([other]) == [False]


class TestPriorities:
    @pytest.mark.parametrize("start", [ALONE, TOGETHER])
    def test_an_important_gang_evicts_whole_jobs(self, start: str) -> None:
        stage = Stage(TWO_NODES, start, preempts=True)
        low = stage.arrive(*[whole(2)] * 4)
        assert stage.running([low]) == [True]
        high = stage.arrive(whole(4, models=("A100",)), at=1.0, priority=1)
        assert stage.running([low, high]) == [False, True]
        # Pods that start alone hold what is left to them.
        assert stage.held(low) == (2 if start == ALONE else 0)
        assert stage.end(high, at=2.0).started == [low]

    def test_the_planner_evicts_for_a_whole_gang_only(self) -> None:
        stage = Stage(TWO_NODES, TOGETHER, preempts=True)
        low = stage.arrive(whole(4, models=("A100",)))
        same = stage.arrive(whole(4, models=("T4",)), priority=1)
        high = stage.arrive(whole(4), whole(4), at=1.0, priority=1)
        assert stage.running([low, same, high]) == [True, True, False]

    def test_the_most_important_comes_first(self) -> None:
        stage = Stage(TWO_NODES, TOGETHER)
        running = stage.arrive(whole(4), whole(4))
        first = stage.arrive(whole(4), whole(4), at=1.0)
        important = stage.arrive(whole(4), whole(4), at=2.0, priority=1)
        stage.end(running, at=3.0)
        assert stage.running([first, important]) == [False, True]
