"""What the metrics of the extender and of kube-scheduler say, and the end of kube-scheduler's work."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.cluster.api import eventually


def total(metrics: str, name: str, **labels: str) -> float:
    """A metric, summed over the unspecified labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def await_rest(metrics: Callable[[], str], waiting: int, timeout_s: float = 30.0) -> None:
    """Wait until kube-scheduler has `waiting` pods that it cannot place, no others to try, and has tried none
    between two looks. From then on only a change in the cluster makes it try again."""
    attempts = -1.0

    def rests() -> bool:
        nonlocal attempts
        text = metrics()
        before, attempts = attempts, total(text, "scheduler_schedule_attempts_total")
        waits = {
            queue: total(text, "scheduler_pending_pods", queue=queue)
            for queue in ("active", "backoff", "unschedulable")
        }
        return attempts == before and waits == {"active": 0, "backoff": 0, "unschedulable": waiting}

    eventually(rests, f"kube-scheduler rests with {waiting} pods that it cannot place", timeout_s)
