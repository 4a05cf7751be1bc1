"""The event handler of PodDisruptionBudgets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.wire import selectors


@dataclass(eq=False)
class BudgetHandler(EventHandler[selectors.PodDisruptionBudget]):
    """Keeps all PodDisruptionBudgets; `budgets` may be called from any thread."""

    kind = "PodDisruptionBudget"
    together = 250
    by_uid = True
    _by_uid: dict[str, Budget] = field(default_factory=dict, init=False)

    def budgets(self) -> tuple[Budget, ...]:
        """All budgets."""
        return tuple(self._by_uid.values())

    def seen(self, items: Sequence[selectors.PodDisruptionBudget], clock: ServerClock) -> None:
        self._unlisted.difference_update(map(self.key, items))
        self._by_uid.update((self.key(item), selectors.budget(item)) for item in items)

    def known(self) -> set[str]:
        return set(self._by_uid)

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self._by_uid.pop(uid, None)
