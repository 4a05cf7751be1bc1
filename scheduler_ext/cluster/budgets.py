"""The PodDisruptionBudgets of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.wire.kube import PodDisruptionBudget, budget

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class BudgetHandler(EventHandler[PodDisruptionBudget]):
    """Keeps all budgets; ``budgets`` may be called from any thread."""

    kind = "PodDisruptionBudget"
    together = 250
    by_uid = True

    def __init__(self) -> None:
        super().__init__()
        self._by_uid: dict[str, Budget] = {}
        self._budgets: tuple[Budget, ...] = ()

    def budgets(self) -> tuple[Budget, ...]:
        """All budgets."""
        return self._budgets

    def seen(self, items: Sequence[PodDisruptionBudget], clock: ServerClock) -> None:
        self._listed.update(map(self.key, items))
        self._by_uid.update((self.key(item), budget(item)) for item in items)
        self._budgets = tuple(self._by_uid.values())

    def known(self) -> set[str]:
        return set(self._by_uid)

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self._by_uid.pop(uid, None)
        self._budgets = tuple(self._by_uid.values())
