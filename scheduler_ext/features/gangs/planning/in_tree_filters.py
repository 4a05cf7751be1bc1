"""kube-scheduler's own filters for a planner, on all nodes at once: the verdicts on labels and taints are
kept from step to step, and amounts are compared as columns."""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.intree import PodNeeds, constraints_key, intree_rejection, preference_of
from scheduler_ext.core.intree.resource_fit import in_order, shortage_text
from scheduler_ext.core.node.columns import Bools, Ints
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.gangs.planning.node_rooms import Milli, RoomsCopy
from scheduler_ext.features.gangs.planning.waiting_pod import PODS, Amounts, WaitingPod

# Pods of so many different constraints are judged once.
_REMEMBERED = 256
_UNKNOWN_NODE = "node(s) without a Node object"
_PASSED = 0

_Codes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class _Verdicts:
    """The verdicts on the nodes, by index, as of a number of changes."""

    codes: _Codes
    number: int = -1


class InTreeFilters:
    """The verdicts that do not depend on amounts. One thread at a time."""

    def __init__(self) -> None:
        self.reasons = [""]
        self._judged: OrderedDict[Hashable, _Verdicts] = OrderedDict()
        self._rows: tuple[NameIndex, Mapping[str, int], Ints] | None = None

    def at(self, rooms: RoomsCopy, snapshot: Snapshot) -> "InTreeView":
        """The filters at one time, for the rows of a snapshot."""
        names = snapshot.row_of
        if self._rows is None or self._rows[0] is not names or self._rows[1] is not rooms.index:
            index = rooms.index
            rows = np.fromiter((index.get(name, -1) for name in names), np.int32, len(names))
            self._rows = names, index, rows
        return InTreeView(self, rooms, self._rows[2])

    def codes(self, needs: PodNeeds, rooms: RoomsCopy) -> _Codes:
        """The reason for which each node refuses the pod, by index into `reasons`; 0 where none does."""
        key = constraints_key(needs)
        judged = self._judged.get(key)
        if judged is None:
            judged = self._judged[key] = _Verdicts(np.zeros(0, np.uint8))
            if len(self._judged) > _REMEMBERED:
                self._judged.popitem(last=False)
        self._judged.move_to_end(key)
        if len(judged.codes) < len(rooms.facts):
            judged.codes = np.append(judged.codes, np.zeros(len(rooms.facts) - len(judged.codes), np.uint8))
        if judged.number < rooms.number:
            for index in np.flatnonzero(rooms.changed > judged.number).tolist():
                judged.codes[index] = self._code(needs, rooms, index)
            judged.number = rooms.number
        return judged.codes

    def _code(self, needs: PodNeeds, rooms: RoomsCopy, index: int) -> int:
        facts = rooms.facts[index]
        if facts is None:
            return self.number_of(_UNKNOWN_NODE)
        rejection = intree_rejection(needs, facts, ignore_resources=frozenset({*needs.requests, PODS}))
        return _PASSED if rejection is None else self.number_of(rejection.reason)

    def number_of(self, reason: str) -> int:
        """The index of a reason."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)


class InTreeView:
    """The filters at one time; `take` changes the amounts. Values are by row of the snapshot."""

    def __init__(self, filters: InTreeFilters, rooms: RoomsCopy, rows: Ints) -> None:
        self._filters = filters
        self._rooms = rooms
        self._rows = rows
        self._free: dict[str, Milli] = {
            # Row -1 has the amounts of no node.
            resource: np.append(free, np.int64(0)).take(rows)
            for resource, free in rooms.free.items()
        }
        self._passed: dict[Hashable, Bools] = {}
        # What does not depend on pods: many gangs that wait ask the same.
        self._possible: dict[Hashable, Bools] = {}
        self._preferences: dict[Hashable, Ints] = {}

    def take(self, row: int, amounts: Amounts, pods: int = 1) -> None:
        """This many pods come to a node (or leave it, below zero)."""
        for resource, amount in amounts.items():
            if resource in self._free:
                self._free[resource][row] -= pods * amount

    def passed(self, pod: WaitingPod) -> Bools:
        """The nodes that pass a pod, `[row]`."""
        passed = self._allowed(pod.needs).copy()
        for resource, amount in pod.amounts.items():
            passed &= self._free_of(resource) >= amount
        return passed

    def could_pass(self, pod: WaitingPod) -> Bools:
        """The nodes that would pass a pod if all other pods left, `[row]`."""
        key = constraints_key(pod.needs), tuple(pod.amounts.items())
        if key not in self._possible:
            possible = self._possible[key] = self._allowed(pod.needs).copy()
            for row in np.flatnonzero(possible).tolist():
                offered = self._rooms.offered[self._rows[row]]
                possible[row] = all(offered.get(name, 0) >= amount for name, amount in pod.amounts.items())
        return self._possible[key]

    def refusals(self, pod: WaitingPod, rows: Bools) -> Counter[str]:
        """The number of nodes among `rows` that refuse a pod, by reason. All that a node is short of is one
        reason, as in `intree_rejection`."""
        codes = self._codes(pod.needs)
        found: Counter[str] = Counter()
        for code, count in enumerate(np.bincount(codes[rows]).tolist()):
            if code != _PASSED and count:
                found[self._filters.reasons[code]] += count
        left = rows & (codes == _PASSED)
        order = in_order(pod.amounts)
        short = np.array([left & (self._free_of(each) < pod.amounts[each]) for each in order])
        for lacking, count in Counter(map(tuple, short[:, short.any(0)].T.tolist())).items():
            found[", ".join(shortage_text(each) for each in compress(order, lacking))] += count
        return found

    def preferences(self, needs: PodNeeds) -> Ints | None:
        """The pod's preference for each node, `[row]`; None if it has none."""
        terms = needs.preferred_terms
        if not terms:
            return None
        if terms not in self._preferences:
            facts = (self._rooms.facts[index] if index >= 0 else None for index in self._rows.tolist())
            each = [0 if node is None else preference_of(terms, node.name, node.labels) for node in facts]
            self._preferences[terms] = np.array(each, np.int32)
        return self._preferences[terms]

    def _free_of(self, resource: str) -> Milli | int:
        """Nothing of a resource that only pods that are gone have asked."""
        return self._free.get(resource, 0)

    def _allowed(self, needs: PodNeeds) -> Bools:
        key = constraints_key(needs)
        if key not in self._passed:
            self._passed[key] = self._codes(needs) == _PASSED
        return self._passed[key]

    def _codes(self, needs: PodNeeds) -> _Codes:
        codes = self._filters.codes(needs, self._rooms)
        unknown = np.uint8(self._filters.number_of(_UNKNOWN_NODE))
        found: _Codes = np.append(codes[: len(self._rooms.facts)], unknown).take(self._rows)
        return found
