"""The Eviction API, which keeps PodDisruptionBudgets: the body of a request, and what a refusal means."""

from http import HTTPStatus
from typing import Any

from scheduler_ext.cluster.client.transport import RefusedError

# Of a pod with several budgets, which no eviction respects (eviction.go): nothing happened.
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


def eviction_body(namespace: str, name: str, uid: str, version: str | None = None) -> dict[str, Any]:
    """The Eviction of a pod, if it is still at this version, or at any (None)."""
    still = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": version}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": still},
    }


def is_held_by_budget(error: RefusedError) -> bool:
    """Whether a budget refuses an eviction for now; the server answers in the same way when it is busy."""
    return error.status == HTTPStatus.TOO_MANY_REQUESTS or _SEVERAL_BUDGETS in str(error)
