"""Thousands of names to rows at once. A dict looks up one name after the other and each look waits for
memory: with 5000 names in random order and cold caches, as between kube-scheduler's calls, that was half of a
whole filter call. Here all hashes are looked up together in one flat array, each by a single look."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Below this many names a dict is quicker.
_MANY = 100
# Places per hash: at least so many.
_PLACES = 2
_HASH_BITS = 64
# The shift grows by this many bits while hashes of one group collide, until other bits separate them.
_STEP_BITS = 4

Hashes = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class NameIndex(dict[str, int]):
    """Names to their position in `names`; unknown names are at -1. Not to be changed once made. Many names
    are compared by Python's 64-bit string hash alone, which is keyed by a random number per process: a false
    match has a chance of nodes / 2**64. Equal hashes of nodes are looked up by name."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__((name, row) for row, name in enumerate(names))
        self.names = tuple(names)
        self._table = _table([hash(name) for name in names]) if len(names) >= _MANY else None

    def __missing__(self, name: str) -> int:
        return -1

    def rows(self, names: Sequence[str]) -> Rows:
        if len(names) < _MANY or self._table is None:
            # __missing__ keeps each lookup one C call.
            return np.fromiter(map(self.__getitem__, names), np.int32, len(names))
        return self._table.rows(np.fromiter(map(hash, names), np.int64, len(names)))


@dataclass(frozen=True, slots=True)
class _HashTable:
    """Hashes to rows, each hash at a place of its own. Hash and displace (Pagh, "Hash and Displace", WADS
    1999): the low bits of a hash choose its group, the bits from `shift` on its place, and `moves` has by
    how much each group is moved on, so that none meets another. `entries` is `[place, (hash, row)]`."""

    shift: np.int64
    moves: Hashes
    entries: Hashes

    def rows(self, hashes: Hashes) -> Rows:
        place = hashes >> self.shift
        place += self.moves.take(hashes & (len(self.moves) - 1))
        place &= len(self.entries) - 1
        entry = self.entries.take(place, axis=0)
        return np.where(entry[:, 0] == hashes, entry[:, 1], -1).astype(np.int32)


def _table(hashes: Sequence[int]) -> _HashTable | None:
    """The table of these hashes; None if two are equal, or if no shift separates them."""
    groups = 1 << len(hashes).bit_length() - 1
    places = 1 << (_PLACES * len(hashes)).bit_length()
    for shift in range(groups.bit_length() - 1, _HASH_BITS - places.bit_length(), _STEP_BITS):
        members: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
        for row, value in enumerate(hashes):
            members[value & (groups - 1)].append((value >> shift & (places - 1), row))
        # The hashes of a group are displaced together: if two collide, other bits must choose their places.
        if all(len({place for place, _ in group}) == len(group) for group in members):
            break
    else:
        return None
    row_at = [-1] * places
    moves = [0] * groups
    # The largest first, while there is room.
    for number in sorted(range(groups), key=lambda number: len(members[number]), reverse=True):
        move = 0
        while any(row_at[(place + move) % places] >= 0 for place, _ in members[number]):
            move += 1
        for place, row in members[number]:
            row_at[(place + move) % places] = row
        moves[number] = move
    entries = np.array([(hashes[row], row) if row >= 0 else (0, -1) for row in row_at], np.int64)
    return _HashTable(np.int64(shift), np.array(moves, np.int64), entries)
