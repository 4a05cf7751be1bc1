"""Preemption while the extender sees pods late, as with a busy API server or one that has just started.

Several pods of one priority preempt on one node at the same time. No place is made twice: the number of
evicted pods is that of the places that the bound pods needed, and every pod that fits is bound soon after the
extender is up to date.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.delay import Delay
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.installation import Installation
from tests.e2e.shares.share_workload import (
    HALF,
    ROOM_MIB,
    ShareWorkload,
    running_share_installation,
    share_workload_on,
)
from tests.e2e.workload import MIG_HALF, Workload
from tests.kube_objects import SHARE

# The time limit counts from the end of the lag. The tests mostly wait, so the two classes run side by side.

LAGS_S = (0.0, 3.0, 10.0)
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


@pytest.fixture(scope="class")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """kube-scheduler binds."""
    with running_cluster(tmp_path_factory.mktemp("lag"), delayed=True) as cluster:
        installation = Installation(cluster)
        installation.install("base")
        yield installation


@pytest.fixture(scope="class")
def binding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The extender binds."""
    with running_share_installation(tmp_path_factory.mktemp("lag-shares"), delayed=True) as installation:
        yield installation


class Round:
    """All cases side by side, each on nodes of its own."""

    def __init__(self, workload: Workload) -> None:
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
        for name in set().union(*self._holders.values()):
            eventually(
                lambda name=name: self.workload.get(name)["status"]["phase"] == "Running",  # type: ignore[misc]
                f"{name} runs",
            )
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
        pods = {
            pod["metadata"]["name"]
            for pod in self.workload.all_pods()
            if "deletionTimestamp" not in pod["metadata"]
        }
        return len(self._holders[case.name] - pods)

    def leaving(self) -> bool:
        """Whether pods are being deleted."""
        return any("deletionTimestamp" in pod["metadata"] for pod in self.workload.all_pods())

    def bound(self, names: set[str]) -> int:
        """How many of the pods have a node."""
        pods = self.workload.all_pods()
        return sum(pod["metadata"]["name"] in names and "nodeName" in pod["spec"] for pod in pods)

    def _add(self, stem: str, case: Case) -> None:
        labels = {"lag": case.name}
        if case.held == WHOLE:
            self.workload.add_whole(stem, case.holders, labels=labels)
        elif case.held == MIG:
            self.workload.add_mig(stem, labels=labels)
        else:
            assert isinstance(self.workload, ShareWorkload)
            self.workload.add_shared(stem, case.holders // 2, labels=labels)

    def _pod(self, case: Case, limits: Json, priority: str, stem: str = "", **spec: Any) -> Json:
        node = {"kubernetes.io/hostname": self.workload.name(stem)} if stem else {}
        selector: Mapping[str, str] = {"lag": case.name, **node}
        return self.workload.pod(limits, priorityClassName=priority, nodeSelector=selector, **spec)


def delay_of(installation: Installation) -> Delay:
    assert installation.delay is not None
    return installation.delay


def assert_no_place_is_made_twice(round_: Round, lag_s: float, *cases: Case) -> None:
    """Have the cases' pods preempt while the extenders see everything `lag_s` late."""
    delay = delay_of(round_.workload.installation)
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

    # No pod is evicted late, either.
    waiting = sum(case.preemptors - case.fit for case in cases)
    round_.workload.installation.await_rest(waiting, BOUND_S)
    bound = {case.name: round_.bound(preemptors[case.name]) for case in cases}
    evicted = {case.name: round_.evicted(case) for case in cases}
    assert bound == {case.name: case.fit for case in cases}
    assert evicted == {case.name: case.fit * case.frees for case in cases}


def together(*cases: Case) -> list[Any]:
    """All cases side by side, at each lag."""
    return [pytest.param(cases, lag_s, id=f"all-{lag_s:g}s") for lag_s in LAGS_S]


def alone(*cases: Case) -> list[Any]:
    """Each case alone: no pod of another case leaves and wakes those that wait."""
    return [pytest.param((case,), LAGS_S[1], id=case.name) for case in cases]


@pytest.mark.parametrize(("cases", "lag_s"), [*alone(WHOLE_2, MIG_2), *together(WHOLE_3, WHOLE_4, MIG_3)])
class TestWhereKubeSchedulerBinds:
    """Whole GPUs and MIG instances."""

    def test_no_place_is_made_twice(self, base: Installation, cases: Sequence[Case], lag_s: float) -> None:
        base.await_ready()
        workload = Workload(base)
        try:
            assert_no_place_is_made_twice(Round(workload), lag_s, *cases)
        finally:
            workload.close()


@pytest.mark.parametrize(
    ("cases", "lag_s"),
    [*alone(GPU_2), *together(WHOLE_4, MIG_3, SHARE_2, SHARE_4, GPU_3)],
)
class TestWhereTheExtenderBinds:
    """Shares too."""

    def test_no_place_is_made_twice(self, binding: Installation, cases: Sequence[Case], lag_s: float) -> None:
        binding.await_ready()
        with share_workload_on(binding) as workload:
            assert_no_place_is_made_twice(Round(workload), lag_s, *cases)
