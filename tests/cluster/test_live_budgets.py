"""A running extender counts the cluster's PodDisruptionBudgets for victims."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.api_paths import BUDGETS
from tests.cluster.api.api_paths import PODS
from tests.cluster.following import eventually
from tests.cluster.living import WHOLE, Living
from tests.extender.preempting import preempt, uids
from tests.kube_objects import gpu, pod

pytestmark = pytest.mark.usefixtures("impatient")


def test_a_budget_keeps_its_pod_where_another_would_do(living: Living) -> None:
    store = living.server.store
    for name, priority in (("low", 1), ("high", 5)):
        held = pod(name, {WHOLE: "1"}, on="a", priority=priority)
        held["metadata"]["labels"] = {"app": name}
        store.put(PODS, held)
    living.report("a", gpu(0, "GPU-0"), gpu(1, "GPU-1"))
    living.start()
    urgent = pod("urgent", {WHOLE: "1"}, priority=100)

    def leaves() -> list[str]:
        # Without its memory of the last answer: a named place stays the pod's.
        living.extender.places.forget("uid-urgent")
        return preempt(living.extender, urgent, {"a": uids("low")}).get("a", [])

    eventually(lambda: leaves() == ["low"])
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "low", "namespace": "default", "uid": "uid-budget"},
        "spec": {"selector": {"matchLabels": {"app": "low"}}},
        "status": {"disruptionsAllowed": 0},
    }
    store.put(BUDGETS, budget)
    eventually(lambda: leaves() == ["high"])
