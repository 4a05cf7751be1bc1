"""The Eviction API: which pod is meant, and what a refusal means."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.transport import RefusedError
from scheduler_ext.cluster.evictions import eviction_body, is_held_by_budget


@pytest.mark.parametrize(
    ("version", "preconditions"),
    [
        pytest.param(None, {"uid": "u"}, id="the pod at any version"),
        pytest.param("7", {"uid": "u", "resourceVersion": "7"}, id="the pod at one version"),
    ],
)
def test_no_other_pod_of_the_name_is_evicted(version: str | None, preconditions: dict[str, str]) -> None:
    assert eviction_body("ml", "p", "u", version)["deleteOptions"] == {"preconditions": preconditions}


@pytest.mark.parametrize(
    ("status", "message", "held"),
    [
        pytest.param(429, "Cannot evict pod as it would violate the budget.", True, id="one budget"),
        pytest.param(500, "This pod has more than one PodDisruptionBudget.", True, id="several budgets"),
        pytest.param(500, "etcdserver: request timed out", False, id="a failure"),
        pytest.param(403, "pods is forbidden", False, id="no right"),
    ],
)
def test_what_budgets_refuse(status: int, message: str, held: bool) -> None:
    assert is_held_by_budget(RefusedError(status, "", message)) is held
