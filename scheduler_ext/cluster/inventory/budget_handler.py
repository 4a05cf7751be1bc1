"""The event handler of PodDisruptionBudgets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.extender.budgets import Budgets
from scheduler_ext.wire import selectors


@dataclass(eq=False)
class BudgetHandler(EventHandler[selectors.PodDisruptionBudget]):
    """Keeps all PodDisruptionBudgets in `budgets`."""

    budgets: Budgets

    kind = "PodDisruptionBudget"
    together = 250
    by_uid = True

    def upsert(self, items: Sequence[selectors.PodDisruptionBudget], clock: ServerClock) -> None:
        self._unlisted.difference_update(map(self.key, items))
        self.budgets.update({self.key(item): selectors.budget(item) for item in items})

    def known(self) -> set[str]:
        return self.budgets.known()

    def remove(self, keys: Collection[str]) -> None:
        self.budgets.remove(keys)
