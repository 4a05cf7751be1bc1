"""The CPU of pods that request no GPU, by node."""

import sys
from collections import Counter
from collections.abc import Mapping


class OtherCpu:
    """Pods that request CPU and no GPU: each with its node and its CPU."""

    def __init__(self) -> None:
        self._by_uid: dict[str, tuple[str, int]] = {}
        self._milli: Counter[str] = Counter()

    def on(self, node: str) -> int:
        """The sum on a node."""
        return self._milli[node]

    def uids(self) -> set[str]:
        return set(self._by_uid)

    def place(self, uid: str, node: str, cpu_milli: int) -> Mapping[str, int]:
        """A pod requests this much on a node; 0 if it has ended. Returns by how much more each node has."""
        place, before_milli = self._by_uid.pop(uid, (node, 0))
        if cpu_milli:
            # One string for a node's name, however many pods are there.
            self._by_uid[uid] = sys.intern(node), cpu_milli
        more = Counter({place: -before_milli})
        more[node] += cpu_milli
        for name, more_milli in more.items():
            self._milli[name] += more_milli
            if not self._milli[name]:
                del self._milli[name]
        return {name: more_milli for name, more_milli in more.items() if more_milli}
