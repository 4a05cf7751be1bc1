"""Preemption while the extender sees pods late, as with a busy API server or one that has just started.

Several pods of one priority preempt on one node at the same time. No place is made twice: the number of
evicted pods is that of the places that the bound pods needed, and every pod that fits is bound soon after the
extender is up to date.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import Installation, running_installation
from tests.e2e.priorities import there
from tests.e2e.shares.share_workload import HALF, ROOM_MIB, ShareWorkload, running_share_installation
from tests.e2e.workload import MIG_HALF
from tests.kube_objects import SHARE

BY_SCHEDULER, BY_EXTENDER = "kube-scheduler binds", "the extender binds"
LAGS_S = (0.0, 3.0, 10.0)
# From the end of the lag.
BOUND_S = 60.0
GRACE_S = 2
WHOLE = {"nvidia.com/gpu": "1"}
MIG = {MIG_HALF: "1"}
HALF_SHARE = {SHARE: str(HALF)}
GPU_SHARE = {SHARE: str(ROOM_MIB)}


@dataclass(frozen=True, slots=True)
class Case:
    """Nodes with `holders` each, which leave no room, and pods that preempt. `frees` is how many pods make a
    place.
    """

    name: str
    held: Json
    asked: Json
    preemptors: int
    nodes: int = 1
    holders: int = 2
    frees: int = 1

    @property
    def fit(self) -> int:
        """The number of pods that find a place."""
        return min(self.preemptors, self.nodes * self.holders // self.frees)


WHOLE_2 = Case("whole-2", WHOLE, WHOLE, 2)
WHOLE_3 = Case("whole-3", WHOLE, WHOLE, 3)
WHOLE_4 = Case("whole-4", WHOLE, WHOLE, 4, nodes=2)
MIG_2 = Case("mig-2", MIG, MIG, 2)
MIG_3 = Case("mig-3", MIG, MIG, 3, nodes=2)
SHARE_2 = Case("share-2", HALF_SHARE, HALF_SHARE, 2, holders=4)
SHARE_4 = Case("share-4", HALF_SHARE, HALF_SHARE, 4, holders=4)
GPU_2 = Case("gpu-2", HALF_SHARE, GPU_SHARE, 2, holders=4, frees=2)
GPU_3 = Case("gpu-3", HALF_SHARE, GPU_SHARE, 3, holders=4, frees=2)


@pytest.fixture(scope="module")
def lagging(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """One that may see the API server late."""
    running = running_installation if request.param == BY_SCHEDULER else running_share_installation
    with running(tmp_path_factory.mktemp("lag"), delayed=True) as installation:
        yield installation


class Round:
    """All cases side by side, each on nodes of its own."""

    def __init__(self, workload: ShareWorkload) -> None:
        self.workload = workload
        self._critical = workload.add_priority_class("critical", 1000)
        self._held_at = [workload.add_priority_class(f"low-{value}", value) for value in (10, 0)]
        self._holders: dict[str, set[str]] = {}

    def occupy(self, *cases: Case) -> None:
        """Add the nodes of the cases, and the pods that hold them."""
        nodes = {f"{case.name}-{i}": case for case in cases for i in range(case.nodes)}
        for stem, case in nodes.items():
            self._add(stem, case)
        self.workload.publish()
        before = self.workload.installation.generations()
        for stem, case in nodes.items():
            pods = [
                self._pod(case, case.held, self._held_at[i % 2], stem, terminationGracePeriodSeconds=GRACE_S)
                for i in range(case.holders)
            ]
            self._holders.setdefault(case.name, set()).update(self.workload.create_all(pods))
        self.workload.await_running(*set().union(*self._holders.values()))
        self.workload.installation.await_inventory(None, before)

    def preempt(self, *cases: Case) -> dict[str, set[str]]:
        """Create the pods that preempt; their names by case."""
        pods = {
            case.name: [self._pod(case, case.asked, self._critical) for _ in range(case.preemptors)]
            for case in cases
        }
        self.workload.create_all([pod for each in pods.values() for pod in each])
        return {case: {pod["metadata"]["name"] for pod in each} for case, each in pods.items()}

    def evicted(self, case: Case) -> int:
        """The number of pods of the case's nodes that are gone or leaving."""
        return len(self._holders[case.name] - there(self.workload))

    def leaving(self) -> bool:
        """Whether pods are being deleted."""
        return any("deletionTimestamp" in pod["metadata"] for pod in self.workload.all_pods())

    def bound(self, names: set[str]) -> int:
        """How many of the pods have a node."""
        return len(names.intersection(self.workload.bound()))

    def _add(self, stem: str, case: Case) -> None:
        labels = {"lag": case.name}
        if case.held == WHOLE:
            self.workload.add_whole(stem, case.holders, labels=labels)
        elif case.held == MIG:
            self.workload.add_mig(stem, labels=labels)
        else:
            self.workload.add_shared(stem, case.holders // 2, labels=labels)

    def _pod(self, case: Case, limits: Json, priority: str, stem: str = "", **spec: Any) -> Json:
        node = {"kubernetes.io/hostname": self.workload.name(stem)} if stem else {}
        selector = {"lag": case.name, **node}
        return self.workload.pod(limits, priorityClassName=priority, nodeSelector=selector, **spec)


def together(binder: str, *cases: Case) -> list[Any]:
    """All cases side by side, at each lag."""
    return [pytest.param(binder, cases, lag_s, id=f"all-{lag_s:g}s, {binder}") for lag_s in LAGS_S]


def alone(binder: str, *cases: Case) -> list[Any]:
    """Each case alone: no pod of another case leaves and wakes those that wait."""
    return [pytest.param(binder, (case,), LAGS_S[1], id=f"{case.name}, {binder}") for case in cases]


@pytest.mark.parametrize(
    ("lagging", "cases", "lag_s"),
    [
        *alone(BY_SCHEDULER, WHOLE_2, MIG_2),
        *together(BY_SCHEDULER, WHOLE_3, WHOLE_4, MIG_3),
        *alone(BY_EXTENDER, GPU_2),
        *together(BY_EXTENDER, WHOLE_4, MIG_3, SHARE_2, SHARE_4, GPU_3),
    ],
    indirect=["lagging"],
)
def test_no_place_is_made_twice(lagging: Installation, cases: Sequence[Case], lag_s: float) -> None:
    delay = lagging.cluster.delay
    assert delay is not None
    with ShareWorkload(lagging) as workload:
        round_ = Round(workload)
        round_.occupy(*cases)
        delay.seconds = lag_s
        try:
            preemptors = round_.preempt(*cases)
            for case in cases:
                eventually(
                    lambda case=case: round_.evicted(case) >= case.fit * case.frees,  # type: ignore[misc]
                    f"{case.name}: every pod that fits has a place made",
                    60.0 + lag_s,
                )
            eventually(lambda: not round_.leaving(), "the evicted pods have left")
            # The extenders see it so much later.
            time.sleep(lag_s)
        finally:
            delay.seconds = 0.0
        # Every pod that fits is bound, and no pod is evicted late, either.
        lagging.await_rest(sum(case.preemptors - case.fit for case in cases), BOUND_S)
        assert {case.name: (round_.bound(preemptors[case.name]), round_.evicted(case)) for case in cases} == {
            case.name: (case.fit, case.fit * case.frees) for case in cases
        }
