"""A pod of high priority gets its place from pods of lower priority, on the real kube-scheduler.

The smallest sufficient set is evicted, and no pod in vain: whole GPUs and MIG in the base, shares where they
are bound. test_unschedulable.py has pods that no eviction would help.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import filter_calls
from tests.e2e.shares.share_workload import HALF, ROOM_MIB, ShareWorkload
from tests.e2e.workload import MIG_HALF, Workload
from tests.kube_objects import ANNOTATION

ONE = {"nvidia.com/gpu": "1"}
H100 = {f"{ANNOTATION}model": "H100"}
QUIET_S = 20.0
ROUNDS = 3
GRACE_S = 6
SETTLED_S = 2.0
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@dataclass
class Classes:
    """PriorityClasses of a test."""

    workload: Workload

    def __post_init__(self) -> None:
        add = self.workload.add_priority_class
        self.low = add("low", 10)
        self.middle = add("middle", 100)
        self.critical = add("critical", 1000)
        self.polite = add("polite", 1000, preemptionPolicy="Never")


def await_running(workload: Workload, names: Iterable[str]) -> None:
    """Wait until these pods run, because each of their changes wakes a waiting pod."""
    for name in names:
        eventually(lambda each=name: workload.get(each)["status"]["phase"] == "Running", f"{name} runs")  # type: ignore[misc]


def holders(workload: Workload, node: str, limits: Json, count: int, priority: str, **spec: Any) -> set[str]:
    """Pods that already hold a part of a node; their names."""
    made = workload.create_all(
        [workload.pod(limits, nodeName=node, priorityClassName=priority, **spec) for _ in range(count)]
    )
    await_running(workload, made)
    return set(made)


def there(workload: Workload) -> set[str]:
    """The names of the pods that stay."""
    return {
        pod["metadata"]["name"] for pod in workload.all_pods() if "deletionTimestamp" not in pod["metadata"]
    }


def assert_no_other_pod_is_evicted(
    workload: Workload, name: str, stay: set[str], calls: Callable[[], float]
) -> None:
    """The pod waits, and is not tried again and again; `calls` counts since before its creation."""
    workload.await_event(name, "FailedScheduling")
    time.sleep(QUIET_S)
    assert there(workload) == stay | {name}
    assert calls() < 5
    pod = workload.get(name)
    assert "nodeName" not in pod["spec"]
    assert not pod["status"].get("nominatedNodeName")


def mig_node(workload: Workload, stem: str) -> str:
    """A node of one A100 in two halves."""
    return workload.add_mig(stem)


def gpu_node(workload: Workload, stem: str) -> str:
    """A node of two whole GPUs."""
    return workload.add_whole(stem, 2)


@pytest.fixture(params=["workload", "share_workload"], ids=["kube-scheduler binds", "the extender binds"])
def either(request: pytest.FixtureRequest) -> Workload:
    """An extender that binds knows its bindings before any watch reports them."""
    workload: Workload = request.getfixturevalue(request.param)
    return workload


@pytest.mark.parametrize(
    ("limits", "add"),
    [
        pytest.param(ONE, gpu_node, id="of whole GPUs"),
        pytest.param({MIG_HALF: "1"}, mig_node, id="of MIG instances"),
    ],
)
class TestWhatADevicePluginPicks:
    """Whole GPUs and MIG instances."""

    def test_one_of_the_lowest_priority_leaves(
        self, either: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        workload, classes = either, Classes(either)
        cheap, dear = add(workload, "cheap"), add(workload, "dear")
        workload.publish()
        low = holders(workload, cheap, limits, 2, classes.low)
        middle = holders(workload, dear, limits, 2, classes.middle)
        name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
        assert workload.await_node(name) == cheap
        await_running(workload, [name])
        assert middle < there(workload)
        assert len(low & there(workload)) == 1

    def test_a_budget_is_kept_where_another_node_would_do(
        self, either: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        """Of two equal nodes, the one whose pods have no budget; and where it costs more."""
        workload, classes = either, Classes(either)
        guarded, other = add(workload, "guarded"), add(workload, "other")
        workload.publish()
        labels = {"app": "guarded"}
        kept = holders(workload, guarded, limits, 2, classes.low, labels=labels)
        holders(workload, other, limits, 2, classes.middle)
        path = BUDGETS.format(workload.namespace)
        spec = {"minAvailable": 2, "selector": {"matchLabels": labels}}
        workload.api.create(path, {"metadata": {"name": "guarded"}, "spec": spec})

        def counted() -> bool:
            status = workload.api.get(f"{path}/guarded").get("status", {})
            return bool(status.get("currentHealthy") == 2 and status["disruptionsAllowed"] == 0)

        eventually(counted, "the budget knows its pods")
        # The deciders see it a moment later.
        time.sleep(1.0)
        name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
        assert workload.await_node(name) == other
        assert kept < there(workload)

    def test_a_pod_that_may_not_preempt_waits(
        self, workload: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        classes = Classes(workload)
        node = add(workload, "full")
        workload.publish()
        low = holders(workload, node, limits, 2, classes.low)
        calls = filter_calls(workload.installation)
        name = workload.create(workload.pod(limits, priorityClassName=classes.polite))
        assert_no_other_pod_is_evicted(workload, name, low, calls)

    def test_a_place_is_kept_while_its_holder_leaves(
        self, either: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        """A pod of lower priority that arrives meanwhile does not get it."""
        workload, classes = either, Classes(either)
        node = add(workload, "full")
        workload.publish()
        holders(workload, node, limits, 1, classes.critical)
        (low,) = holders(workload, node, limits, 1, classes.low, terminationGracePeriodSeconds=GRACE_S)
        name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
        eventually(lambda: workload.get(name)["status"].get("nominatedNodeName"), "a place is on its way")
        eventually(lambda: low not in there(workload), "it leaves")
        late = workload.create(workload.pod(limits, priorityClassName=classes.middle))
        assert workload.await_node(name) == node
        time.sleep(SETTLED_S)
        assert "nodeName" not in workload.get(late)["spec"]


def test_victims_are_on_the_node_with_the_requested_model(workload: Workload) -> None:
    """Although cheaper ones are elsewhere."""
    classes = Classes(workload)
    wrong = workload.add_whole("a100", 1)
    right = workload.add_whole("h100", 1, "H100-80GB")
    workload.publish()
    low = holders(workload, wrong, ONE, 1, classes.low)
    middle = holders(workload, right, ONE, 1, classes.middle)
    name = workload.create(workload.pod(ONE, annotations=H100, priorityClassName=classes.critical))
    assert workload.await_node(name) == right
    assert low < there(workload)
    assert not middle & there(workload)


def placed(workload: ShareWorkload, mib: int, priority: str, **spec: Any) -> tuple[str, str]:
    """A pod with one share that runs: its name, and its GPU."""
    name = workload.create(workload.share(mib, priorityClassName=priority, **spec))
    workload.await_node(name)
    await_running(workload, [name])
    return name, workload.devices(name)["main"]


def test_shares_leave_one_gpu(share_workload: ShareWorkload) -> None:
    """By the node's sum any two would suffice."""
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    low = dict(placed(workload, HALF, classes.low) for _ in range(4))
    _, device = placed(workload, ROOM_MIB - 1000, classes.critical)
    left = low.keys() - there(workload)
    assert [low[each] for each in left] == [device, device]


def test_shares_of_lower_priority_leave_though_fewer_would_do(share_workload: ShareWorkload) -> None:
    """One GPU has one pod of middle priority, the other two of low."""
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    middle, _ = placed(workload, ROOM_MIB, classes.middle)
    low = dict(placed(workload, HALF, classes.low) for _ in range(2))
    name, device = placed(workload, ROOM_MIB, classes.critical)
    assert there(workload) == {middle, name}
    assert set(low.values()) == {device}


def test_a_share_that_may_not_preempt_waits(share_workload: ShareWorkload) -> None:
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 1)
    workload.publish()
    low, _ = placed(workload, ROOM_MIB, classes.low)
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(HALF, priorityClassName=classes.polite))
    assert_no_other_pod_is_evicted(workload, name, {low}, calls)


def test_no_pod_is_evicted_where_the_sum_suffices_and_no_gpu_does(share_workload: ShareWorkload) -> None:
    """kube-scheduler sees no shortage, so its preemption does not begin: documented, and quiet."""
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    low = dict(placed(workload, 50000, classes.low) for _ in range(2))
    assert len(set(low.values())) == 2
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(40000, priorityClassName=classes.critical))
    assert_no_other_pod_is_evicted(workload, name, set(low), calls)


def test_no_share_leaves_where_only_higher_ones_would_make_room(share_workload: ShareWorkload) -> None:
    """Each GPU has one that stays, so any other eviction is in vain."""
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    stay = {placed(workload, 40000, classes.critical)[0] for _ in range(2)}
    low = {placed(workload, 33000, classes.low)[0] for _ in range(2)}
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(60000, priorityClassName=classes.critical))
    assert_no_other_pod_is_evicted(workload, name, stay | low, calls)


def test_a_share_keeps_its_gpu_while_its_holder_leaves(share_workload: ShareWorkload) -> None:
    """The sum would suffice for the pod that arrives meanwhile; the GPU belongs to another."""
    workload = share_workload
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    low, device = placed(workload, 70000, classes.low, terminationGracePeriodSeconds=GRACE_S)
    placed(workload, 45000, classes.middle)
    name = workload.create(workload.share(45000, priorityClassName=classes.critical))
    eventually(lambda: workload.get(name)["status"].get("nominatedNodeName"), "a place is on its way")
    eventually(lambda: low not in there(workload), "it leaves")
    late = workload.create(workload.share(45000, priorityClassName=classes.middle))
    workload.await_event(late, "FailedScheduling")
    workload.await_node(name)
    assert workload.devices(name) == {"main": device}
    time.sleep(SETTLED_S)
    assert "nodeName" not in workload.get(late)["spec"]


def on(node: str) -> Json:
    """Fields of a pod that goes to that node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def test_no_other_pod_is_evicted_while_the_last_victim_is_still_leaving(
    share_workload: ShareWorkload,
) -> None:
    """With the first one gone the node's sum suffices: kube-scheduler asks, is refused, and looks further."""
    workload = share_workload
    classes = Classes(workload)
    first, second = workload.add_shared("first", 2), workload.add_shared("second", 1)
    workload.publish()
    placed(workload, 50000, classes.critical, **on(first))
    quick, device = placed(workload, 40000, classes.low, terminationGracePeriodSeconds=2, **on(first))
    slow, beside = placed(workload, 30000, classes.low, terminationGracePeriodSeconds=15, **on(first))
    assert device == beside
    middle, _ = placed(workload, 40000, classes.middle, **on(second))
    time.sleep(SETTLED_S)
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(60000, priorityClassName=classes.critical))
    eventually(lambda: not {quick, slow} & there(workload), "both leave")
    assert workload.await_node(name) == first
    assert workload.devices(name) == {"main": device}
    assert middle in there(workload)
    # Each change wakes it once; the wait takes a quarter of a minute.
    assert calls() < 20


@pytest.mark.parametrize("attempt", range(ROUNDS))
def test_no_other_pod_is_evicted_when_the_only_victim_is_gone(
    share_workload: ShareWorkload, attempt: int
) -> None:
    """kube-scheduler may see the end before the extender does, and asks at once."""
    workload = share_workload
    classes = Classes(workload)
    first, second = workload.add_shared("first", 1), workload.add_shared("second", 1)
    workload.publish()
    placed(workload, 60000, classes.low, terminationGracePeriodSeconds=1, **on(first))
    middle, _ = placed(workload, 60000, classes.middle, **on(second))
    # A pod that has just been bound is no victim before the extender has seen it.
    time.sleep(SETTLED_S)
    name = workload.create(workload.share(60000, priorityClassName=classes.critical))
    assert workload.await_node(name) == first, attempt
    assert middle in there(workload)
