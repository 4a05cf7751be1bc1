"""A pod of high priority gets its place from pods of lower priority, on the real kube-scheduler.

The smallest sufficient set is evicted, and no pod in vain: whole GPUs and MIG. Shares are in
shares/test_share_preemption.py, pods that no eviction would help in test_unschedulable.py.
"""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.priorities import Classes, holders, there
from tests.e2e.workload import MIG_HALF, Workload

ONE = {"nvidia.com/gpu": "1"}
GRACE_S = 6


@pytest.mark.parametrize("mig", [False, True], ids=["whole GPUs", "MIG instances"])
def test_one_of_the_lowest_priority_leaves(workload: Workload, mig: bool) -> None:
    classes = Classes(workload)
    limits = {MIG_HALF: "1"} if mig else ONE
    cheap, dear = (
        workload.add_mig(stem) if mig else workload.add_whole(stem, 2) for stem in ("cheap", "dear")
    )
    workload.publish()
    low = holders(workload, cheap, limits, 2, classes.low)
    middle = holders(workload, dear, limits, 2, classes.middle)
    name = workload.create(workload.pod(limits, priorityClassName=classes.critical))
    assert workload.await_node(name) == cheap
    workload.await_running(name)
    assert middle < there(workload)
    assert len(low & there(workload)) == 1


def test_a_budget_is_kept_where_another_node_would_do(workload: Workload) -> None:
    """Of two equal nodes, the one whose pods have no budget; and where it costs more."""
    classes = Classes(workload)
    guarded, other = workload.add_whole("guarded", 2), workload.add_whole("other", 2)
    workload.publish()
    labels = {"app": "guarded"}
    # It allows nothing from the beginning, and the deciders know it long before the pods run.
    path = f"/apis/policy/v1/namespaces/{workload.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 2, "selector": {"matchLabels": labels}}
    workload.api.create(path, {"metadata": {"name": "guarded"}, "spec": spec})
    kept = holders(workload, guarded, ONE, 2, classes.low, labels=labels)
    holders(workload, other, ONE, 2, classes.middle)

    def counted() -> bool:
        status = workload.api.get(f"{path}/guarded").get("status", {})
        return bool(status.get("currentHealthy") == 2 and status["disruptionsAllowed"] == 0)

    eventually(counted, "the budget knows its pods")
    name = workload.create(workload.pod(ONE, priorityClassName=classes.critical))
    assert workload.await_node(name) == other
    assert kept < there(workload)


def test_a_place_is_kept_while_its_holder_leaves(workload: Workload) -> None:
    """A pod of lower priority that arrives meanwhile does not get it."""
    classes = Classes(workload)
    node = workload.add_whole("full", 2)
    workload.publish()
    holders(workload, node, ONE, 1, classes.critical)
    (low,) = holders(workload, node, ONE, 1, classes.low, terminationGracePeriodSeconds=GRACE_S)
    name = workload.create(workload.pod(ONE, priorityClassName=classes.critical))
    eventually(lambda: workload.get(name)["status"].get("nominatedNodeName"), "a place is on its way")
    eventually(lambda: low not in there(workload), "it leaves")
    late = workload.create(workload.pod(ONE, priorityClassName=classes.middle))
    assert workload.await_node(name) == node
    workload.installation.await_rest(1)
    assert "nodeName" not in workload.get(late)["spec"]
