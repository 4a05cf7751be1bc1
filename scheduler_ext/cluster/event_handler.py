"""The base of the event handlers that a reflector calls with the objects it follows."""

from __future__ import annotations

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
    """Removes what a list does not bring by its end. All calls come from the reflector's thread."""

    kind = "object"
    together = 100
    """The number of listed objects that are handled within a millisecond."""
    by_uid = False
    """Whether the key of an object is its uid; else its name."""
    _listed: set[str] = field(default_factory=set, init=False)

    def begin(self) -> None:
        """A list begins."""
        self._listed = set()

    def seen(self, items: Sequence[T], clock: ServerClock) -> None:
        """Objects that exist, as they are now."""
        raise NotImplementedError

    def gone(self, item: T | Broken) -> None:
        """An object was deleted, readable or not."""
        key = self.key(item)
        self._listed.discard(key)
        self.remove((key,))

    def broken(self, item: Broken) -> None:
        """An object exists and cannot be read: its last known state stays."""
        self._listed.add(self.key(item))
        log.error("%s %s cannot be read, what was known of it stays: %s", self.kind, item.name, item.problem)

    def end(self) -> None:
        """The list is complete."""
        self.remove(self.known() - self._listed)

    def key(self, item: Any) -> str:
        """Identifies an object, readable or not."""
        metadata = item if isinstance(item, Broken) else item.metadata
        return (metadata and (metadata.uid if self.by_uid else metadata.name)) or ""

    def known(self) -> set[str]:
        """The keys of all objects that are known."""
        raise NotImplementedError

    def remove(self, keys: Collection[str]) -> None:
        """These objects do not exist any more."""
        raise NotImplementedError
