"""Pods of several priorities: their classes, and which of them stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.e2e.cluster.api import Json
from tests.e2e.workload import Workload


@dataclass
class Classes:
    """PriorityClasses of a test."""

    workload: Workload

    def __post_init__(self) -> None:
        add = self.workload.add_priority_class
        self.low = add("low", 10)
        self.middle = add("middle", 100)
        self.critical = add("critical", 1000)


def holders(workload: Workload, node: str, limits: Json, count: int, priority: str, **spec: Any) -> set[str]:
    """Pods that already hold a part of a node, as every extender knows; their names."""
    before = workload.installation.generations()
    made = workload.create_all(
        [workload.pod(limits, nodeName=node, priorityClassName=priority, **spec) for _ in range(count)]
    )
    workload.await_running(*made)
    workload.installation.await_inventory(None, before)
    return set(made)


def there(workload: Workload) -> set[str]:
    """The names of the pods that stay."""
    return {
        pod["metadata"]["name"] for pod in workload.all_pods() if "deletionTimestamp" not in pod["metadata"]
    }
