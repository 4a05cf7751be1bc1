"""Possible futures of a queue: who starts when, if the ends of the others are known."""

from __future__ import annotations

import pytest

from scheduler_ext.features.gangs.queue.replay import NEVER, Arrival, Basis, Moment, Queue
from scheduler_ext.features.gangs.queue.room import RunningPod, Waiter
from scheduler_ext.features.gangs.queue.run_times import RunKind

KIND = RunKind("ns", "", None)
BOTH = frozenset({"a", "b"})


def holds(node: str, gpus: int) -> RunningPod:
    return RunningPod(node, (gpus,), KIND, 0.0)


def asks(*gpus: int, within: frozenset[str] = BOTH, **more: object) -> Waiter:
    return Waiter(tuple((each,) for each in gpus), within, KIND, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("free", "holders", "waiters", "expected"),
    [
        pytest.param((1, 0), [], [asks(1)], [0], id="what fits starts now"),
        pytest.param((0, 0), [("a", 1, 30), ("b", 1, 20)], [asks(1)], [20], id="the first end decides"),
        pytest.param(
            (0, 0), [("a", 1, 30), ("a", 1, 50)], [asks(2)], [50], id="a large pod waits for several"
        ),
        pytest.param((0, 0), [("a", 1, 30), ("b", 1, 20)], [asks(2)], [NEVER], id="on one node"),
        pytest.param((0, 0), [("a", 1, 30)], [asks(1, within=frozenset("b"))], [NEVER], id="of its nodes"),
        pytest.param(
            (0, 0), [("a", 1, 30), ("b", 1, 40)], [asks(1), asks(1)], [30, 40], id="in the queue's order"
        ),
        pytest.param(
            (0, 0), [("a", 2, 30)], [asks(4), asks(1)], [NEVER, 30], id="small pods pass large ones"
        ),
        pytest.param(
            (0, 0), [("a", 1, 30)], [asks(1), asks(1)], [30, 130], id="a pod that started ends later"
        ),
        pytest.param((1, 1), [], [asks(1, 1)], [0], id="a gang starts on several nodes"),
        pytest.param((1, 0), [("b", 1, 20)], [asks(1, 1)], [20], id="a gang starts together"),
        pytest.param(
            (1, 0), [("b", 1, 20)], [asks(1, 1), asks(1)], [100, 0], id="and keeps no room of itself"
        ),
        pytest.param(
            (1, 0), [("b", 1, 20)], [asks(1, 1, kept=BOTH), asks(1)], [20, 120], id="unless the plan keeps it"
        ),
        pytest.param(
            (2, 0), [], [asks(1, places=("a",)), asks(2)], [0, 100], id="a planned pod has its place"
        ),
        pytest.param(
            (1, 0), [("a", 1, 30)], [asks(1, refused=True)], [30], id="a refused pod waits for a leaving one"
        ),
        pytest.param((1, 1), [], [asks(1, refused=True)], [NEVER], id="which amounts do not replace"),
        pytest.param(
            (1, 1),
            [("a", 1, 30)],
            [asks(1, within=frozenset("b"), refused=True)],
            [NEVER],
            id="nor the end of one on another node",
        ),
        pytest.param(
            (1, 0), [("a", 1, 30)], [asks(1, refused=True), asks(1)], [30, 0], id="others pass a refused pod"
        ),
        pytest.param((1, 1), [("b", 1, 20)], [asks(1, 1, refused=True)], [20], id="a refused gang waits too"),
    ],
)
def test_starts(
    free: tuple[int, int], holders: list[tuple[str, int, float]], waiters: list[Waiter], expected: list[float]
) -> None:
    held = [holds(node, gpus) for node, gpus, _ in holders]
    queue = Queue({"a": (free[0],), "b": (free[1],)}, held, waiters)
    # Holders on nodes that no pod waits for are left out.
    ends = [Moment(at_s) for node, _, at_s in holders if node in queue.nodes]
    starts = queue.starts(ends, [Moment(100)] * len(waiters))
    assert [start.at_s for start in starts] == expected


ON_A = asks(1, within=frozenset("a"))
URGENT = asks(1, within=frozenset("a"), priority=5)


@pytest.mark.parametrize(
    ("free", "ends_s", "waiter", "at_s", "arrival", "expected"),
    [
        pytest.param(
            1, [20], asks(2, within=frozenset("a")), 10, ON_A, 110, id="a small one takes free room"
        ),
        pytest.param(0, [20, 30], ON_A, 10, ON_A, 20, id="one like it comes after it"),
        pytest.param(0, [20, 30], ON_A, 10, URGENT, 30, id="a higher priority before"),
        pytest.param(0, [20, 30], ON_A, 25, URGENT, 20, id="unless it comes too late"),
    ],
)
def test_pods_that_arrive(
    free: int, ends_s: list[float], waiter: Waiter, at_s: float, arrival: Waiter, expected: float
) -> None:
    queue = Queue({"a": (free,)}, [holds("a", 1) for _ in ends_s], [waiter], [arrival])
    coming = [Arrival(at_s, arrival, Moment(100))]
    (start,) = queue.starts([Moment(each) for each in ends_s], [Moment(100)], coming)
    assert start.at_s == expected


def test_a_start_after_a_stated_end_is_a_stated_one() -> None:
    queue = Queue({"a": (0,)}, [holds("a", 1)], [ON_A, ON_A])
    first, second = queue.starts([Moment(20, Basis.STATED)], [Moment(5), Moment(5)])
    assert first == Moment(20, Basis.STATED)
    assert second == Moment(25, Basis.STATED)
