"""A pod of high priority gets its place from pods of lower priority, on the real kube-scheduler.

The smallest sufficient set is evicted, and no pod in vain: whole GPUs and MIG. Shares are in
shares/test_share_preemption.py, pods that no eviction would help in test_unschedulable.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.priorities import Classes, await_running, holders, there
from tests.e2e.workload import MIG_HALF, Workload
from tests.kube_objects import ANNOTATION

ONE = {"nvidia.com/gpu": "1"}
H100 = {f"{ANNOTATION}model": "H100"}
GRACE_S = 6
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


def mig_node(workload: Workload, stem: str) -> str:
    """A node of one A100 in two halves."""
    return workload.add_mig(stem)


def gpu_node(workload: Workload, stem: str) -> str:
    """A node of two whole GPUs."""
    return workload.add_whole(stem, 2)


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
        self, workload: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        classes = Classes(workload)
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
        self, workload: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        """Of two equal nodes, the one whose pods have no budget; and where it costs more."""
        classes = Classes(workload)
        guarded, other = add(workload, "guarded"), add(workload, "other")
        workload.publish()
        labels = {"app": "guarded"}
        # It allows nothing from the beginning, and the deciders know it long before the pods run.
        spec = {"minAvailable": 2, "selector": {"matchLabels": labels}}
        path = BUDGETS.format(workload.namespace)
        workload.api.create(path, {"metadata": {"name": "guarded"}, "spec": spec})
        kept = holders(workload, guarded, limits, 2, classes.low, labels=labels)
        holders(workload, other, limits, 2, classes.middle)

        def counted() -> bool:
            status = workload.api.get(f"{path}/guarded").get("status", {})
            return bool(status.get("currentHealthy") == 2 and status["disruptionsAllowed"] == 0)

        eventually(counted, "the budget knows its pods")
        name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
        assert workload.await_node(name) == other
        assert kept < there(workload)

    def test_a_place_is_kept_while_its_holder_leaves(
        self, workload: Workload, limits: Json, add: Callable[[Workload, str], str]
    ) -> None:
        """A pod of lower priority that arrives meanwhile does not get it."""
        classes = Classes(workload)
        node = add(workload, "full")
        workload.publish()
        holders(workload, node, limits, 1, classes.critical)
        (low,) = holders(workload, node, limits, 1, classes.low, terminationGracePeriodSeconds=GRACE_S)
        name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
        eventually(lambda: workload.get(name)["status"].get("nominatedNodeName"), "a place is on its way")
        eventually(lambda: low not in there(workload), "it leaves")
        late = workload.create(workload.pod(limits, priorityClassName=classes.middle))
        assert workload.await_node(name) == node
        workload.installation.await_rest(1)
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
