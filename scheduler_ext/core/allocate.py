"""Which GPU each memory share gets: for all node states at once, and exactly.

Shares of one pod are placed together. Greedy placement (largest first, each on the GPU that costs least)
settles nearly all states; where it fails, a search decides, so that a pod is refused only if no placement
exists. The search is bounded, because the question is bin packing and pods come from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduler_ext.core.request import ShareAsk
from scheduler_ext.core.snapshot import Bools, Floats, Ints

# Steps of search one request may spend over all states; past it, what is undecided counts as not fitting.
MAX_SEARCH_STEPS = 200_000

# What putting a share on a GPU costs: (room before, room after) in MiB, [slot, state] -> [slot, state].
Cost = Callable[[Ints, Ints], Floats]


def tightest(_before: Ints, after: Ints) -> Floats:
    """Best fit: the GPU with the least room left."""
    return after.astype(np.float64)


class ShareFit:
    """Where the shares of one request go in every state.

    ``slots[i]`` is the slot of the i-th share (running ones first, then init ones), ``[state]``, -1 where
    ``fits`` is false; ``load_mib`` is the peak of all of them on each GPU, ``[slot, state]``.
    """

    def __init__(self, room_mib: Ints, shares: ShareAsk, where: Bools, cost: Cost = tightest) -> None:
        states = room_mib.shape[1]
        self._room = room_mib
        self._shares = shares
        self._cost = cost
        self._columns = np.arange(states)
        self.slots: list[Ints] = [np.full(states, -1, np.int32)] * (len(shares.running) + len(shares.init))
        self.fits = where & self._can_fit()
        self._place_greedily()
        self._search(where & self._can_fit() & ~self.fits)
        self.load_mib = self._peak()

    def _can_fit(self) -> Bools:
        """Necessary: the largest share finds a GPU, and the sum does not exceed what all GPUs have."""
        room = np.maximum(self._room, 0)
        enough: Bools = room.max(0) >= self._shares.largest_mib
        if len(self.slots) > 1:
            enough &= room.sum(0, dtype=np.int64) >= self._shares.total_mib
        return enough

    def _place_greedily(self) -> None:
        running = self._shares.running
        for i in sorted(range(len(running)), key=lambda i: -running[i][1]):
            self._place(i, running[i][1], self._room - self._running_load(range(len(running))))
        for j, share in enumerate(self._shares.init):
            self._place(len(running) + j, share.memory_mib, self._room - self._running_load(share.beside))

    def _place(self, i: int, mib: int, room: Ints) -> None:
        after = room - mib
        cost = np.where(after >= 0, self._cost(room, after), np.inf)
        slot = cost.argmin(0).astype(np.int32)
        self.fits = self.fits & np.isfinite(cost[slot, self._columns])
        self.slots[i] = np.where(self.fits, slot, np.int32(-1))

    def _running_load(self, which: Sequence[int] | range) -> Ints:
        """What the running shares of those numbers, as far as placed, put on each GPU."""
        load = np.zeros_like(self._room)
        for i in which:
            placed = self.slots[i] >= 0
            np.add.at(load, (self.slots[i][placed], self._columns[placed]), self._shares.running[i][1])
        return load

    def _search(self, undecided: Bools) -> None:
        if len(self.slots) < 2 or not undecided.any():
            return
        steps = [MAX_SEARCH_STEPS]
        solved: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        self.slots = [slots.copy() for slots in self.slots]
        for column in np.flatnonzero(undecided):
            room = tuple(self._room[:, column].tolist())
            if room not in solved:
                solved[room] = place_exactly(room, self._shares, steps)
            found = solved[room]
            if found is not None:
                self.fits[column] = True
                for slots, slot in zip(self.slots, found, strict=True):
                    slots[column] = slot

    def _peak(self) -> Ints:
        running = len(self._shares.running)
        load = self._running_load(range(running))
        for j, share in enumerate(self._shares.init):
            before = self._running_load(share.beside)
            slots = self.slots[running + j]
            placed = slots >= 0
            np.add.at(before, (slots[placed], self._columns[placed]), share.memory_mib)
            load = np.maximum(load, before)
        return load


def fit_shares(room_mib: Ints, shares: ShareAsk, where: Bools) -> Bools:
    """In which of the states ``where`` all shares find a GPU; ``room_mib`` is -1 where none may go."""
    if len(shares.running) + len(shares.init) == 1:
        fits: Bools = np.any(room_mib >= shares.largest_mib, axis=0)
        return fits
    return ShareFit(room_mib, shares, where).fits


def place_exactly(room_mib: Sequence[int], shares: ShareAsk, steps: list[int]) -> tuple[int, ...] | None:
    """The slot of each share (running, then init) on one node, or None when no placement exists.

    Depth first, largest first, one representative of equal GPUs. ``steps[0]`` is the budget left and is
    counted down; when it is used up the answer is None.
    """
    running = shares.running
    order = sorted(range(len(running)), key=lambda i: -running[i][1])
    slots = [-1] * len(running)
    left = list(room_mib)
    beside = {i for share in shares.init for i in share.beside}

    def place_init() -> tuple[int, ...] | None:
        placed = []
        for share in shares.init:
            room = list(room_mib)
            for i in share.beside:
                room[slots[i]] -= running[i][1]
            slot = min(
                (s for s, r in enumerate(room) if r >= share.memory_mib), key=room.__getitem__, default=None
            )
            if slot is None:
                return None
            placed.append(slot)
        return (*slots, *placed)

    def place(depth: int) -> tuple[int, ...] | None:
        if depth == len(order):
            return place_init()
        i = order[depth]
        mib = running[i][1]
        tried = set()
        for slot, room in enumerate(left):
            # GPUs with equal room, now, from the start and beside the init containers, are all the same.
            kind = (room, room_mib[slot], tuple(j for j in beside if slots[j] == slot))
            if room < mib or kind in tried:
                continue
            if steps[0] <= 0:
                return None
            steps[0] -= 1
            tried.add(kind)
            left[slot] -= mib
            slots[i] = slot
            found = place(depth + 1)
            if found is not None:
                return found
            left[slot] += mib
            slots[i] = -1
        return None

    return place(0)
