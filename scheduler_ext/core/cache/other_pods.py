"""The CPU of pods that ask no GPU, by node: the many of which nothing else matters here."""

from __future__ import annotations

import sys


class OtherPods:
    """Where each is, by uid, and how much CPU it asks; those that ask none are left out."""

    def __init__(self) -> None:
        self._placed: dict[str, tuple[str, int]] = {}
        self._asked_milli: dict[str, int] = {}

    def put(self, uid: str, node: str, cpu_milli: int) -> list[tuple[str, int]]:
        """A pod is on a node and asks so much there; how much more each node has to give than before."""
        place, before_milli = self._placed.get(uid, (node, 0))
        if (place, before_milli) == (node, cpu_milli):
            return []
        if not cpu_milli or place != node:
            changes = self.remove(uid)
            before_milli = 0
        else:
            changes = []
        if cpu_milli:
            # A node's name is kept once, however many pods are there.
            node = sys.intern(node)
            self._placed[uid] = (node, cpu_milli)
            changes.append(self._add(node, cpu_milli - before_milli))
        return changes

    def remove(self, uid: str) -> list[tuple[str, int]]:
        """A pod is gone, or has finished; the same."""
        before = self._placed.pop(uid, None)
        if before is None:
            return []
        node, cpu_milli = before
        return [self._add(node, -cpu_milli)]

    def uids(self) -> set[str]:
        """All of them."""
        return set(self._placed)

    def cpu_milli(self, node: str) -> int:
        """What they ask of a node together."""
        return self._asked_milli.get(node, 0)

    def _add(self, node: str, cpu_milli: int) -> tuple[str, int]:
        asked = self._asked_milli.get(node, 0) + cpu_milli
        if asked:
            self._asked_milli[node] = asked
        else:
            del self._asked_milli[node]
        return node, cpu_milli
