"""Thousands of names to rows at once.

A dict looks up one name after the other and each look waits for memory: its entry, the key, the value. With
5000 names in random order and cold caches, as between kube-scheduler's calls, that was half of a whole filter
call. Here the hashes, which cost little because the names were just decoded, are looked up all together in
two flat arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Below this many names a dict is quicker.
_MANY = 500


class NameIndex(dict[str, int]):
    """Names to their position in ``names``; unknown names are at -1. Not to be changed once made.

    Many names are compared by Python's 64-bit string hash alone, which is keyed by a random number per
    process: a name of no node is taken for some node's with a chance of nodes / 2**64. Nodes whose own hashes
    coincide are looked up by name.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__((name, row) for row, name in enumerate(names))
        size = 1 << (4 * len(names) + 15).bit_length()
        hashes, rows = [0] * size, [-1] * size
        longest = 0
        for row, name in enumerate(names):
            place, steps = hash(name) & (size - 1), 0
            while rows[place] >= 0:
                place, steps = (place + 1) & (size - 1), steps + 1
            hashes[place], rows[place] = hash(name), row
            longest = max(longest, steps)
        self._mask = np.int64(size - 1)
        self._longest = longest
        self._hashes = np.array(hashes, np.int64)
        self._rows = np.array(rows, np.int32)
        self._are_distinct = len(set(map(hash, names))) == len(names)

    def __missing__(self, name: str) -> int:
        return -1

    def rows(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Row per name, -1 for names that are not there."""
        if len(names) < _MANY or not self._are_distinct:
            # __missing__ keeps each lookup one C call.
            return np.fromiter(map(self.__getitem__, names), np.int32, len(names))
        wanted = np.fromiter(map(hash, names), np.int64, len(names))
        place = wanted & self._mask
        found = self._at(place, wanted)
        for _ in range(self._longest):
            missing = np.flatnonzero(found < 0)
            if not len(missing):
                break
            place[missing] = (place[missing] + 1) & self._mask
            found[missing] = self._at(place[missing], wanted[missing])
        return found

    def _at(self, place: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return np.where(self._hashes[place] == wanted, self._rows[place], np.int32(-1))
