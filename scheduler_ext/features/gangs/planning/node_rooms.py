"""What each node has left of resources that are no GPU's, and what kube-scheduler's own filters compare, as
columns that follow the cluster."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.features.gangs.planning.waiting_pod import Amounts

Milli = npt.NDArray[np.int64]
# The number of columns for further nodes, beside a quarter of those in use.
_SPARE = 64


@dataclass(frozen=True, slots=True)
class RoomsCopy:
    """The rooms at one time, by index: `free` in thousandths by resource, all that a node has (`offered`),
    `facts` of nodes that exist, and when these changed last (a number that grows). `index` has the index of
    each name, and is another object once it has changed."""

    index: dict[str, int]
    free: dict[str, Milli]
    offered: list[Amounts]
    facts: list[NodeFacts | None]
    changed: Milli
    number: int


class NodeRooms:
    """Follows Nodes and the pods on them. One thread at a time."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        # A copy of the index for others; None once it is outdated.
        self._copied: dict[str, int] | None = None
        self._facts: list[NodeFacts | None] = []
        self._offered: list[Amounts] = []
        self._taken: list[Counter[str]] = []
        # How many pods each node has; one that takes nothing counts, too.
        self._pods_on: list[int] = []
        self._unused: list[int] = []
        self._pods: dict[str, tuple[int, Amounts]] = {}
        self._free: dict[str, Milli] = {}
        # How often a node may have got more room.
        self.freed = 0
        self._changed = np.zeros(_SPARE, np.int64)
        self._number = 0

    def update_node(self, name: str, facts: NodeFacts, offered: Amounts) -> None:
        """A Node was added or changed; `offered` is its allocatable."""
        index = self._indexed(name)
        if self._facts[index] != facts:
            self._facts[index] = facts
            self._mark(index)
        if self._offered[index] != offered:
            self._offered[index] = offered
            self.freed += 1
            for resource, free in self._free.items():
                free[index] = self._left(index, resource)

    def remove_node(self, name: str) -> None:
        """A Node is gone; pods may still be on it for a moment."""
        index = self._index.get(name)
        if index is None:
            return
        self._facts[index] = None
        self._mark(index)
        self._offered[index] = {}
        for resource, free in self._free.items():
            free[index] = self._left(index, resource)
        self._drop_if_unused(index)

    def has_node(self, name: str) -> bool:
        """Whether a Node exists."""
        index = self._index.get(name)
        return index is not None and self._facts[index] is not None

    def place(self, uid: str, node: str, amounts: Amounts) -> None:
        """A pod takes these amounts of a node."""
        before = self._pods.get(uid)
        if before is not None and before == (self._index.get(node), amounts):
            return
        self.remove(uid)
        index = self._indexed(node)
        self._pods[uid] = index, amounts
        self._pods_on[index] += 1
        self._take(index, amounts, 1)

    def remove(self, uid: str) -> None:
        """A pod takes nothing any more."""
        before = self._pods.pop(uid, None)
        if before is not None:
            self._pods_on[before[0]] -= 1
            self._take(before[0], before[1], -1)
            self.freed += 1
            self._drop_if_unused(before[0])

    def pods(self) -> Collection[str]:
        """The uids of all pods on nodes."""
        return self._pods.keys()

    def copy(self, resources: Iterable[str]) -> RoomsCopy:
        """The rooms as they are now, for these resources."""
        resources = set(resources)
        # Others are not asked any more.
        self._free = {each: self._free[each] for each in self._free.keys() & resources}
        for resource in resources:
            if resource not in self._free:
                column = np.zeros(len(self._changed), np.int64)
                column[: len(self._facts)] = [self._left(i, resource) for i in range(len(self._facts))]
                self._free[resource] = column
        used = len(self._facts)
        free = {resource: self._free[resource][:used].copy() for resource in resources}
        if self._copied is None:
            self._copied = self._index.copy()
        return RoomsCopy(
            self._copied,
            free,
            self._offered.copy(),
            self._facts.copy(),
            self._changed[:used].copy(),
            self._number,
        )

    def _indexed(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = self._unused.pop() if self._unused else self._add()
            self._names[index] = name
            self._mark(index)
            self._copied = None
        return index

    def _add(self) -> int:
        self._names.append("")
        self._facts.append(None)
        self._offered.append({})
        self._taken.append(Counter())
        self._pods_on.append(0)
        if len(self._facts) > len(self._changed):
            more = _SPARE + len(self._facts) // 4
            self._changed = np.append(self._changed, np.zeros(more, np.int64))
            self._free = {
                each: np.append(free, np.zeros(more, np.int64)) for each, free in self._free.items()
            }
        return len(self._facts) - 1

    def _drop_if_unused(self, index: int) -> None:
        """Another Node may have the columns of one that is gone, with all of its pods."""
        if self._facts[index] is None and not self._pods_on[index]:
            del self._index[self._names[index]]
            self._copied = None
            self._taken[index].clear()
            self._unused.append(index)

    def _take(self, index: int, amounts: Amounts, pods: int) -> None:
        for resource, amount in amounts.items():
            self._taken[index][resource] += pods * amount
            if resource in self._free:
                self._free[resource][index] -= pods * amount

    def _left(self, index: int, resource: str) -> int:
        return self._offered[index].get(resource, 0) - self._taken[index][resource]

    def _mark(self, index: int) -> None:
        self._number += 1
        self.freed += 1
        self._changed[index] = self._number
