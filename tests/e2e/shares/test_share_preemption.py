"""Shares of high priority get their place from shares of lower priority: on one GPU, and none in vain."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import filter_calls
from tests.e2e.priorities import Classes, there
from tests.e2e.shares.share_workload import HALF, ROOM_MIB, ShareWorkload

GRACE_S = 6


@pytest.fixture
def workload(share_workload: ShareWorkload) -> ShareWorkload:
    return share_workload


def placed(workload: ShareWorkload, mib: int, priority: str, **spec: Any) -> tuple[str, str]:
    """A pod with one share that runs, as every extender knows: its name, and its GPU."""
    before = workload.installation.generations()
    name = workload.create(workload.share(mib, priorityClassName=priority, **spec))
    workload.await_node(name)
    workload.await_running(name)
    workload.installation.await_inventory(None, before)
    return name, workload.devices(name)["main"]


def test_shares_leave_one_gpu(workload: ShareWorkload) -> None:
    """By the node's sum any two would suffice."""
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    low = dict(placed(workload, HALF, classes.low) for _ in range(4))
    _, device = placed(workload, ROOM_MIB - 1000, classes.critical)
    left = low.keys() - there(workload)
    assert [low[each] for each in left] == [device, device]


def test_no_pod_is_evicted_where_the_sum_suffices_and_no_gpu_does(workload: ShareWorkload) -> None:
    """kube-scheduler sees no shortage, so its preemption does not begin: documented, and quiet."""
    classes = Classes(workload)
    workload.add_shared("shared", 2)
    workload.publish()
    low = dict(placed(workload, 50000, classes.low) for _ in range(2))
    assert len(set(low.values())) == 2
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(40000, priorityClassName=classes.critical))
    workload.await_event(name, "FailedScheduling")
    workload.installation.await_rest(1)
    assert there(workload) == {*low, name}
    assert calls() < 5
    pod = workload.get(name)
    assert "nodeName" not in pod["spec"]
    assert not pod["status"].get("nominatedNodeName")


def test_a_share_keeps_its_gpu_while_its_holder_leaves(workload: ShareWorkload) -> None:
    """The sum would suffice for the pod that arrives meanwhile; the GPU belongs to another."""
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
    workload.installation.await_rest(1)
    assert "nodeName" not in workload.get(late)["spec"]


def on(node: str) -> Json:
    """Fields of a pod that goes to that node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def test_no_other_pod_is_evicted_while_the_last_victim_is_still_leaving(
    workload: ShareWorkload,
) -> None:
    """With the first one gone the node's sum suffices: kube-scheduler asks, is refused, and looks further."""
    classes = Classes(workload)
    first, second = workload.add_shared("first", 2), workload.add_shared("second", 1)
    workload.publish()
    placed(workload, 50000, classes.critical, **on(first))
    quick, device = placed(workload, 40000, classes.low, terminationGracePeriodSeconds=2, **on(first))
    slow, beside = placed(workload, 30000, classes.low, terminationGracePeriodSeconds=15, **on(first))
    assert device == beside
    middle, _ = placed(workload, 40000, classes.middle, **on(second))
    calls = filter_calls(workload.installation)
    name = workload.create(workload.share(60000, priorityClassName=classes.critical))
    eventually(lambda: not {quick, slow} & there(workload), "both leave")
    assert workload.await_node(name) == first
    assert workload.devices(name) == {"main": device}
    assert middle in there(workload)
    # Each change wakes it once; the wait takes a quarter of a minute.
    assert calls() < 20
