"""The CPU of pods that ask no GPU, by node: the only fact about these pods that is needed."""

from __future__ import annotations

import sys


class OtherPods:
    """The node and the requested CPU of each pod, by uid; pods that ask no CPU are left out."""

    def __init__(self) -> None:
        self._placed: dict[str, tuple[str, int]] = {}
        self._asked_milli: dict[str, int] = {}

    def put(self, uid: str, node: str, cpu_milli: int) -> list[tuple[str, int]]:
        """A pod runs on a node and asks ``cpu_milli``. Returns the change of the CPU asked, by node."""
        place, before_milli = self._placed.get(uid, (node, 0))
        if (place, before_milli) == (node, cpu_milli):
            return []
        changes: list[tuple[str, int]] = []
        if not cpu_milli or place != node:
            changes, before_milli = self.remove(uid), 0
        if cpu_milli:
            # One string for a node's name, however many pods are there.
            node = sys.intern(node)
            self._placed[uid] = (node, cpu_milli)
            changes.append(self._add(node, cpu_milli - before_milli))
        return changes

    def remove(self, uid: str) -> list[tuple[str, int]]:
        """A pod is gone, or has finished. Returns the change of the CPU asked, by node."""
        before = self._placed.pop(uid, None)
        return [self._add(before[0], -before[1])] if before is not None else []

    def uids(self) -> set[str]:
        """The uids of all these pods."""
        return set(self._placed)

    def cpu_milli(self, node: str) -> int:
        """The CPU that these pods ask of a node together."""
        return self._asked_milli.get(node, 0)

    def _add(self, node: str, cpu_milli: int) -> tuple[str, int]:
        asked = self._asked_milli.get(node, 0) + cpu_milli
        if asked:
            self._asked_milli[node] = asked
        else:
            del self._asked_milli[node]
        return node, cpu_milli
