"""Who says which of several extenders is the active one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.reflector import Reflector


class Leader(Protocol):
    """Knows whether this extender is active, and tells of each turn."""

    @property
    def active(self) -> bool: ...
    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What it follows; ready when that is known."""
        ...

    def start(self) -> None: ...
    def stop(self) -> None: ...


class BuildLeader(Protocol):
    """Makes one, given whom to tell of each turn."""

    def __call__(self, transport: Transport, *, changed: Callable[[bool], None]) -> Leader: ...
