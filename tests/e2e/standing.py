"""The cluster that test files share: one control plane at a time on each worker."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

_T = TypeVar("_T")


class Standing:
    """Keeps one cluster from file to file, until a file needs another kind of cluster."""

    def __init__(self) -> None:
        self._kind = ""
        self._running: Any = None
        self._stack = ExitStack()

    def take(self, kind: str, cluster: AbstractContextManager[_T]) -> _T:
        """The standing cluster of this kind; one of another kind stops first, and `cluster` starts."""
        if kind != self._kind:
            self.stop()
            self._running = self._stack.enter_context(cluster)
            self._kind = kind
        running: _T = self._running
        return running

    def stop(self) -> None:
        """Stop what is running, for a file that starts clusters of its own."""
        self._kind = ""
        self._stack.close()
