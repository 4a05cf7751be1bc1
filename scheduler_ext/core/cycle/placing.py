"""The cluster that a plan is made on: pods are placed one after the other, and changes are taken back."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, TypeVar

Ask = TypeVar("Ask", contravariant=True)


@dataclass(frozen=True, slots=True)
class BestNode:
    """The best node for a pod, and its total, as prioritize gives it; totals of one cluster compare."""

    node: str
    total: float


class Placing(Protocol[Ask]):
    """A cluster for pods of one kind of description."""

    def best(self, ask: Ask, among: Collection[str] | None = None) -> BestNode | None:
        """The place that filter and scores choose for a pod now; None if it fits on none of these nodes.
        `among`: only these nodes; None: all."""

    def put(self, ask: Ask, node: str) -> None:
        """The pod is on a node that takes it."""

    def mark(self) -> int:
        """A point in time to which `rollback` returns."""

    def rollback(self, mark: int) -> None:
        """Take back all changes since."""
