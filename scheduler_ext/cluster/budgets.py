"""PodDisruptionBudgets of a cluster, followed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.wire.disruption_budget import PodDisruptionBudget, budget
from scheduler_ext.wire.watching import Broken

log = logging.getLogger(__name__)

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class BudgetHandler:
    """What a reflector of PodDisruptionBudgets tells; ``budgets`` may be asked from any thread."""

    together = 250

    def __init__(self) -> None:
        self._by_uid: dict[str, Budget] = {}
        self._listed: set[str] = set()
        self._budgets: tuple[Budget, ...] = ()

    def budgets(self) -> tuple[Budget, ...]:
        """All there are."""
        return self._budgets

    def begin(self) -> None:
        """A list begins."""
        self._listed = set()

    def seen(self, items: Sequence[PodDisruptionBudget], clock: ServerClock) -> None:
        """Budgets as they are now."""
        for item in items:
            uid = (item.metadata.uid if item.metadata else None) or ""
            self._listed.add(uid)
            self._by_uid[uid] = budget(item)
        self._publish()

    def gone(self, item: PodDisruptionBudget | Broken) -> None:
        """One was deleted."""
        uid = item.uid if isinstance(item, Broken) else (item.metadata.uid if item.metadata else None) or ""
        self._listed.discard(uid)
        self._by_uid.pop(uid, None)
        self._publish()

    def broken(self, item: Broken) -> None:
        """One that cannot be read stays what it was."""
        self._listed.add(item.uid)
        log.error("PodDisruptionBudget %s cannot be read: %s", item.name, item.problem)

    def end(self) -> None:
        """The list is complete."""
        for uid in self._by_uid.keys() - self._listed:
            del self._by_uid[uid]
        self._publish()

    def _publish(self) -> None:
        self._budgets = tuple(self._by_uid.values())
