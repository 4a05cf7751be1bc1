"""Kubernetes' own groups of pods, with the feature gate GenericWorkload.

kube-scheduler tries all pods of a group in one cycle, and asks filter for each without a word about the pods
that it has just assumed. No GPU is promised twice, and each group is placed or waits for a reason;
docs/reference/version-skew.md has the limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.binaries import chosen_minor, release_number
from tests.e2e.cluster.features import WORKLOADS
from tests.e2e.installation import Installation, filter_calls
from tests.e2e.priorities import holders, there
from tests.e2e.shares.share_workload import ROOM_MIB, ShareWorkload, running_share_installation

pytestmark = pytest.mark.skipif(
    release_number(chosen_minor()) < (1, 37), reason="PodGroups are beta from 1.37"
)

ONE = {"nvidia.com/gpu": "1"}
# Changes of pods and nodes wake a group a few times; a loop would try it hundreds of times.
FEW_ATTEMPTS = 8
# kube-scheduler's back-off ends at 10 s.
PLACED_S = 45.0


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_share_installation(tmp_path_factory.mktemp("gated"), features=WORKLOADS) as installation:
        yield installation


@pytest.fixture
def workload(gated: Installation) -> Iterator[ShareWorkload]:
    with ShareWorkload(gated) as workload:
        yield workload


def group(workload: ShareWorkload, name: str, pods: int, **spec: object) -> Json:
    """A PodGroup that needs all its pods at once; the fields of a pod that belongs to it."""
    policy = {"gang": {"minCount": pods}}
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{workload.namespace}/podgroups"
    workload.api.create(path, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}})
    return {"schedulingGroup": {"podGroupName": name}}


def bound(workload: ShareWorkload, names: Sequence[str]) -> Counter[str]:
    """The number of these pods on each node."""
    nodes = [pod["spec"].get("nodeName") for pod in workload.all_pods() if pod["metadata"]["name"] in names]
    return Counter(node for node in nodes if node)


def await_all(workload: ShareWorkload, names: Sequence[str]) -> None:
    eventually(lambda: bound(workload, names).total() == len(names), "the group has its nodes", PLACED_S)


def assert_waits_quietly(workload: ShareWorkload, names: Sequence[str], calls: Callable[[], float]) -> None:
    """No pod of the group is bound, each says why, and kube-scheduler does not try again and again."""
    for name in names:
        eventually(lambda each=name: workload.unscheduled(each), f"{name} says why it waits")  # type: ignore[misc]

    def tries() -> float:
        return workload.installation.scheduler_metric("scheduler_pending_pods", queue="active")

    tried = calls()
    eventually(lambda: calls() >= tried + len(names), "kube-scheduler has tried it again")
    eventually(lambda: not tries(), "it waits for the next time")
    assert not bound(workload, names)
    assert {workload.unscheduled(name)["reason"] for name in names} == {"Unschedulable"}
    assert calls() < FEW_ATTEMPTS * len(names)


def test_a_group_waits_for_its_last_gpu(workload: ShareWorkload) -> None:
    """Although four of its five pods would fit."""
    for i in range(2):
        workload.add_whole(f"a100-{i}", 2)
    workload.publish()
    mine = group(workload, "five", 5)
    calls = filter_calls(workload.installation)
    names = workload.create_all([workload.pod(ONE, **mine) for _ in range(5)])
    assert_waits_quietly(workload, names, calls)
    workload.add_whole("a100-new", 1)
    workload.publish()
    await_all(workload, names)
    assert sorted(bound(workload, names).values()) == [1, 2, 2], "each GPU once"


def test_a_group_of_shares_that_only_the_sum_has_room_for_is_bound_in_part(workload: ShareWorkload) -> None:
    """Documented: each share fits for itself, and bind refuses the last. No GPU has more than it can hold."""
    node = workload.add_shared("shared", 2)
    workload.publish()
    mine = group(workload, "three", 3)
    names = workload.create_all([workload.share(ROOM_MIB * 6 // 10, **mine) for _ in range(3)])
    eventually(lambda: bound(workload, names) == {node: 2}, "two shares are bound", PLACED_S)
    (last,) = (name for name in names if "nodeName" not in workload.get(name)["spec"])
    calls = filter_calls(workload.installation)
    assert_waits_quietly(workload, [last], calls)
    assert set(workload.pods_by_gpu().values()) == {1}
    workload.add_shared("new", 1)
    workload.publish()
    await_all(workload, names)
    assert set(workload.pods_by_gpu().values()) == {1}


def test_a_group_evicts_no_pod_and_waits(workload: ShareWorkload) -> None:
    """kube-scheduler removes the victims in its snapshot only, and filter knows them on the node.

    It does evict while the extender has not seen the victims yet.
    """
    low, high = workload.add_priority_class("low", 10), workload.add_priority_class("high", 1000)
    node = workload.add_whole("full", 2)
    workload.publish()
    held = holders(workload, node, ONE, 2, low)
    mine = group(workload, "two", 2, priorityClassName=high)
    calls = filter_calls(workload.installation)
    names = workload.create_all([workload.pod(ONE, priorityClassName=high, **mine) for _ in range(2)])
    assert_waits_quietly(workload, names, calls)
    assert held < there(workload)
    for name in held:
        workload.remove(name)
    await_all(workload, names)
