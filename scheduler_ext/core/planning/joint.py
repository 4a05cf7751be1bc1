"""Places for several waiting pods, decided together: never worse than one after the other, and better where
not all of them fit. Then the largest ones are tried first, and a pod without a place takes that of another
one, which goes elsewhere or waits. Both count only if more GPUs are in use and no fewer pods run."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import groupby
from math import fsum
from typing import Generic, Protocol, TypeVar

from scheduler_ext.core.planning.placing import Place, Placing

# Pods of one batch.
MOST = 32
# Placements that are tried for each pod before the last exchange begins.
_TRIED_PER_POD = 3


class Asked(Protocol):
    """What a joint choice knows of a waiting pod."""

    @property
    def priority(self) -> int:
        """Pods of a higher one come first."""

    @property
    def gpus(self) -> float:
        """The requested GPUs, parts of one included."""

    @property
    def kind(self) -> Hashable:
        """Equal for pods that fit on the same nodes."""


Ask = TypeVar("Ask", bound=Asked)


def choose(asks: Sequence[Ask], cluster: Placing[Ask]) -> list[Place | None]:
    """The place of each pod in a batch of at most MOST, in the order of `asks`; None where it finds none. The
    places are on the cluster afterwards. Pods of a higher priority are decided first, and no pod of a lower
    one takes part in that. Among pods of one priority, the given order is that of the first choice, and it
    stays where all of them fit. No pod that finds no place would fit beside the others. At most four
    placements are tried for each pod, one where all fit or none does. Pods that are put on a node of the
    cluster again in their order must have the devices that they had there before."""
    places: list[Place | None] = [None] * len(asks)
    order = sorted(range(len(asks)), key=lambda index: -asks[index].priority)
    for _, level in groupby(order, key=lambda index: asks[index].priority):
        indexes = list(level)
        found = _Level([asks[index] for index in indexes], cluster).decide()
        for index, place in zip(indexes, found, strict=True):
            places[index] = place
    return places


class _Level(Generic[Ask]):
    """The pods of one priority, and their places on the cluster."""

    def __init__(self, asks: Sequence[Ask], cluster: Placing[Ask]) -> None:
        self._asks = asks
        self._cluster = cluster
        self._start = cluster.mark()
        self._left = _TRIED_PER_POD * len(asks)
        # By the index of the pod, in the order in which they were put.
        self._places: dict[int, Place] = {}

    def decide(self) -> list[Place | None]:
        self._fill(range(len(self._asks)))
        contested = 0 < len(self._places) < len(self._asks)
        if contested and len({ask.kind for ask in self._asks}) > 1:
            self._place_largest_first()
            while self._left > 0 and self._exchange():
                pass
        return [self._places.get(index) for index in range(len(self._asks))]

    def _fill(self, indexes: Sequence[int]) -> None:
        """Place these pods one after the other, where they fit."""
        refused: set[Hashable] = set()
        for index in indexes:
            ask = self._asks[index]
            # Another pod of the batch only takes room.
            if ask.kind in refused:
                continue
            place = self._best(index)
            if place is None:
                refused.add(ask.kind)
            else:
                self._put(index, place)

    def _place_largest_first(self) -> None:
        """Place all pods in another order, if that is an improvement."""
        before = self._places
        self._restore({})
        self._fill(self._largest_first())
        if not self._improves(before):
            self._restore(before)

    def _exchange(self) -> bool:
        """Improve the places once; False if no exchange does."""
        before = dict(self._places)
        for waiting, placed in self._pairs(before):
            if self._left <= 0:
                break
            if self._improved(waiting, placed, before):
                return True
        self._restore(before)
        return False

    def _improved(self, waiting: int, placed: int, before: dict[int, Place]) -> bool:
        """Whether a waiting pod in the place of another one is an improvement; if so, it is there."""
        place = self._instead(waiting, placed, before)
        if place is None:
            return False
        self._restore({index: each for index, each in before.items() if index != placed})
        self._put(waiting, place)
        self._fill([index for index in self._largest_first() if index not in self._places])
        return self._improves(before)

    def _improves(self, before: dict[int, Place]) -> bool:
        """Whether more GPUs are in use than before, and no fewer pods run."""
        return len(self._places) >= len(before) and self._gpus(self._places) > self._gpus(before)

    def _pairs(self, before: dict[int, Place]) -> Iterator[tuple[int, int]]:
        """A pod without a place, the first of each kind, and each pod that may be in its way, on the nodes
        where it would fit without any of this level."""
        waiting: dict[Hashable, int] = {}
        for index in self._largest_first():
            if index not in before:
                waiting.setdefault(self._asks[index].kind, index)
        smallest_first = [index for index in reversed(self._largest_first()) if index in before]
        for taker in waiting.values():
            nodes = {place.node for place in before.values()}
            while nodes and self._left > 0:
                self._cluster.rollback(self._start)
                place = self._best(taker, nodes)
                if place is None:
                    break
                nodes.remove(place.node)
                for holder in smallest_first:
                    if before[holder].node == place.node:
                        yield taker, holder

    def _instead(self, waiting: int, placed: int, before: dict[int, Place]) -> Place | None:
        """The place of a waiting pod on the node of another one, without that one."""
        node = before[placed].node
        self._cluster.rollback(self._start)
        gone = False
        for index, place in before.items():
            if index == placed:
                gone = True
            elif place.node == node:
                # Pods that came later may have other devices now, and not fit.
                if gone and self._best(index, (node,)) is None:
                    return None
                self._cluster.put(self._asks[index], node)
        return self._best(waiting, (node,))

    def _best(self, index: int, among: Collection[str] | None = None) -> Place | None:
        self._left -= 1
        return self._cluster.best(self._asks[index], among)

    def _restore(self, places: dict[int, Place]) -> None:
        self._cluster.rollback(self._start)
        self._places = {}
        for index, place in places.items():
            self._put(index, place)

    def _put(self, index: int, place: Place) -> None:
        self._cluster.put(self._asks[index], place.node)
        self._places[index] = place

    def _largest_first(self) -> list[int]:
        return sorted(range(len(self._asks)), key=lambda index: -self._asks[index].gpus)

    def _gpus(self, places: dict[int, Place]) -> float:
        # Exact, so that the same pods in another order are no improvement.
        return fsum(self._asks[index].gpus for index in places)
