"""What a reflector tells of the objects it follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.wire.watching import Broken

T = TypeVar("T", contravariant=True)


class EventHandler(Protocol[T]):
    """Who is told. All calls come from the reflector's thread."""

    together: int
    """How many objects of a list it takes in a millisecond."""

    def begin(self) -> None:
        """A list begins: what it does not bring by its end is gone."""

    def seen(self, items: Sequence[T], clock: ServerClock) -> None:
        """Objects that are there, as they are now."""

    def gone(self, item: T | Broken) -> None:
        """An object that was deleted, whether it could be read or not."""

    def broken(self, item: Broken) -> None:
        """An object that is there and cannot be read."""

    def end(self) -> None:
        """The list is complete."""
