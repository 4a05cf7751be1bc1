"""The PodDisruptionBudgets that preempt and features regard."""

from collections.abc import Collection, Mapping

from scheduler_ext.core.preemption.disruption import Budget


class Budgets:
    """The present budgets, by their uids. Written by the thread of one watch; read by any."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Budget] = {}

    def all(self) -> tuple[Budget, ...]:
        """All budgets."""
        return tuple(self._by_uid.values())

    def known(self) -> set[str]:
        """Their uids."""
        return set(self._by_uid)

    def update(self, budgets: Mapping[str, Budget]) -> None:
        """These budgets exist, as they are now."""
        self._by_uid.update(budgets)

    def remove(self, uids: Collection[str]) -> None:
        """These budgets do not exist any more."""
        for uid in uids:
            self._by_uid.pop(uid, None)
