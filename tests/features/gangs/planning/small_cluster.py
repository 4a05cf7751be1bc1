"""A small cluster on which plans are made, in plain Python, and what an exhaustive search places on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from hypothesis import strategies as st

from scheduler_ext.core.cycle.placing import BestNode

WHOLE = 1000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that asks for a share of a GPU (`milli` below 1,000) or some whole ones, and cores."""

    milli: int
    cores: int = 1
    priority: int = 0

    @property
    def gpus(self) -> float:
        return self.milli / WHOLE

    @property
    def kind(self) -> tuple[int, int]:
        return self.milli, self.cores


Node = tuple[tuple[int, ...], int]
"""The room of each GPU in thousandths, and the free cores."""


def placed_on(node: Node, ask: Waiting) -> list[Node]:
    """The node with the pod, for each way to place it there; empty if it does not fit."""
    rooms, cores = node
    if ask.cores > cores:
        return []
    if ask.milli >= WHOLE:
        count = ask.milli // WHOLE
        free = [slot for slot, room in enumerate(rooms) if room == WHOLE][:count]
        if len(free) < count:
            return []
        return [(tuple(0 if slot in free else room for slot, room in enumerate(rooms)), cores - ask.cores)]
    # The fullest GPU first.
    slots = sorted((room, slot) for slot, room in enumerate(rooms) if room >= ask.milli)
    return [
        ((*rooms[:slot], room - ask.milli, *rooms[slot + 1 :]), cores - ask.cores) for room, slot in slots
    ]


class SmallCluster:
    """Best fit: the node with the least room left, the first of equals. `tried` counts the questions. A share
    has the fullest GPU, or with `whimsical` any, but always the same one on a node in the same state."""

    def __init__(self, nodes: Sequence[Node], *, whimsical: bool = False) -> None:
        self._whimsical = whimsical
        self.nodes = {f"n{number}": node for number, node in enumerate(nodes)}
        self.tried = 0
        self._past: list[dict[str, Node]] = []

    def best(self, ask: Waiting, among: Collection[str] | None = None) -> BestNode | None:
        self.tried += 1
        fitting = [
            BestNode(name, -float(sum(node[0])))
            for name, node in self.nodes.items()
            if (among is None or name in among) and placed_on(node, ask)
        ]
        return max(fitting, key=lambda place: place.total, default=None)

    def put(self, ask: Waiting, node: str) -> None:
        self._past.append(dict(self.nodes))
        ways = placed_on(self.nodes[node], ask)
        which = crc32(repr((self.nodes[node], ask)).encode()) % len(ways) if self._whimsical else 0
        self.nodes[node] = ways[which]

    def mark(self) -> int:
        return len(self._past)

    def rollback(self, mark: int) -> None:
        if mark < len(self._past):
            self.nodes = self._past[mark]
            del self._past[mark:]


def one_by_one(asks: Sequence[Waiting], cluster: SmallCluster) -> list[bool]:
    """Which pods find a place, the highest priority first and then in their order."""
    found = [False] * len(asks)
    for index in sorted(range(len(asks)), key=lambda index: -asks[index].priority):
        place = cluster.best(asks[index])
        if place is not None:
            cluster.put(asks[index], place.node)
            found[index] = True
    return found


def most_gpus(asks: Sequence[Waiting], nodes: Sequence[Node], least_pods: int) -> int:
    """The most thousandths of GPUs that at least so many of the pods can have, whatever their places."""

    def outcomes(rest: Sequence[Waiting], state: tuple[Node, ...]) -> Iterator[tuple[int, int]]:
        if not rest:
            yield 0, 0
            return
        yield from outcomes(rest[1:], state)
        for number, node in enumerate(state):
            if node in state[:number]:
                continue
            for changed in placed_on(node, rest[0]):
                for pods, milli in outcomes(rest[1:], (*state[:number], changed, *state[number + 1 :])):
                    yield pods + 1, milli + rest[0].milli

    return max(milli for pods, milli in outcomes(asks, tuple(nodes)) if pods >= least_pods)


pods = st.builds(
    Waiting, st.sampled_from((200, 300, 500, 700, 810, 1000, 1000, 2000, 4000)), st.integers(1, 4)
)
pods_of_priorities = st.builds(
    Waiting, st.sampled_from((300, 500, 810, 1000, 2000)), st.integers(1, 4), st.integers(0, 2)
)
_rooms = st.lists(st.sampled_from((0, 190, 500, 1000, 1000)), min_size=1, max_size=4).map(tuple)
clusters = st.lists(st.tuples(_rooms, st.integers(1, 8)), min_size=1, max_size=5)
