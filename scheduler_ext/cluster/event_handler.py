"""The base of the event handlers that a reflector calls with the objects it follows."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.wire.watching import Broken

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(eq=False)
class EventHandler(Generic[T]):
    """Removes known objects that a complete list lacks. All calls come from the reflector's thread."""

    kind = "object"
    together = 100
    """The number of listed objects that are handled within a millisecond."""
    by_uid = False
    """Whether the key of an object is its uid; else its name."""
    # The known objects that the current list has not brought yet.
    _unlisted: set[str] = field(default_factory=set, init=False)

    def begin(self) -> None:
        """A list begins. Objects that arrive while it is read may be newer than the list, and stay."""
        self._unlisted = self.known()

    def upsert(self, items: Sequence[T], clock: ServerClock) -> None:
        """Objects that exist, as they are now."""
        raise NotImplementedError

    def gone(self, item: T | Broken) -> None:
        """An object was deleted, readable or not."""
        key = self.key(item)
        self._unlisted.discard(key)
        self.remove((key,))

    def broken(self, item: Broken) -> None:
        """An object exists and cannot be read: its last known state stays."""
        self._unlisted.discard(self.key(item))
        log.error("%s %s is unreadable, its last state stays: %s", self.kind, item.name, item.problem)

    def end(self) -> None:
        """The list is complete."""
        unlisted, self._unlisted = self._unlisted, set()
        self.remove(unlisted)

    def key(self, item: Any) -> str:
        """Identifies an object, readable or not."""
        metadata = item if isinstance(item, Broken) else item.metadata
        return (metadata and (metadata.uid if self.by_uid else metadata.name)) or ""

    def known(self) -> set[str]:
        """The keys of all objects that are known, in a set of their own."""
        raise NotImplementedError

    def remove(self, keys: Collection[str]) -> None:
        """These objects do not exist any more."""
        raise NotImplementedError
