"""The GPU of each memory share: for all node states at once, and exactly. Greedy placement (largest first,
each on the GPU of least cost) settles nearly all states; where it fails, a search decides, so that a pod is
refused only if no placement exists. The search is bounded, because pods come from untrusted sources."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.request.request import ShareRequest

# Search steps (a GPU tried for a share) of one request, about 0.2 s; undecided states then do not fit.
MAX_SEARCH_STEPS = 2_000_000

_TOO_DEAR = 1e18
# More than any difference between GPUs, less than the order of wanted models.
_HELD_MORE = 1e8

# The cost of putting a share on a GPU, below that: (room before, room after) in MiB, all [slot, state].
Cost = Callable[[Ints, Ints], Floats]


def tightest(_before: Ints, after: Ints) -> Floats:
    """Best fit: the GPU with the least room left."""
    return after.astype(np.float64)


class ShareFit:
    """The places of one request's shares in every state: `slots[i]` of the i-th share (running ones first),
    `[state]`, -1 if `fits` is false; `load_mib` `[slot, state]` is the peak of all on each GPU."""

    def __init__(self, room_mib: Ints, shares: ShareRequest) -> None:
        states = room_mib.shape[1]
        self._room = room_mib
        self._shares = shares
        self._columns = np.arange(states)
        self.slots: list[Ints] = [
            np.full(states, -1, np.int32) for _ in range(len(shares.running) + len(shares.init))
        ]
        self.fits: Bools = np.zeros(states, np.bool_)
        self.load_mib: Ints = np.zeros_like(room_mib)

    def place(self, where: Bools, cost: Cost = tightest, steps: list[int] | None = None) -> Self:
        """Place the shares in the states of `where`. `steps[0]` is the remaining number of search steps,
        counted down; MAX_SEARCH_STEPS by default."""
        # Necessary: the largest share fits on a GPU, and the sum does not exceed the total of all GPUs.
        usable = np.maximum(self._room, 0)
        possible = where & (usable.max(0) >= self._shares.largest_mib)
        if len(self.slots) > 1:
            possible &= usable.sum(0, dtype=np.int64) >= self._shares.total_mib
        self._place_greedily(possible, cost)
        # What best fit can place is never left to the bounded search, so that every cost gives the same fit.
        if cost is not tightest and len(self.slots) > 1 and (possible & ~self.fits).any():
            self._place_greedily(possible & ~self.fits, tightest)
        self._search(possible & ~self.fits, [MAX_SEARCH_STEPS] if steps is None else steps)
        self.load_mib = self._peak()
        if self._shares.init and len(self.slots) > 1:
            self._hold_less(cost)
        return self

    def _place_greedily(self, undecided: Bools, cost: Cost) -> None:
        running = self._shares.running
        fits = undecided
        slots = list(self.slots)
        room = self._room.copy()
        for i in sorted(range(len(running)), key=lambda i: -running[i][1]):
            mib = running[i][1]
            slot, fits = self._cheapest(room, mib, fits, cost)
            slots[i] = np.where(fits, slot, np.int32(-1))
            room[slot, self._columns] -= np.where(fits, np.int32(mib), np.int32(0))
        fits = self._place_init(slots, self._room - room, fits, cost)
        self.slots = [np.where(fits, new, old) for new, old in zip(slots, self.slots, strict=True)]
        self.fits = self.fits | fits

    def _cheapest(self, room: Ints, mib: int, fits: Bools, cost: Cost) -> tuple[Ints, Bools]:
        """The slot of least cost for a share, `[state]`, and the states of `fits` that have one."""
        after = room - mib
        # Adding an unreachable cost is several times faster than choosing between two arrays.
        price = cost(room, after) + (after < 0) * _TOO_DEAR
        slot = price.argmin(0).astype(np.int32)
        return slot, fits & (after[slot, self._columns] >= 0)

    def _place_init(self, slots: list[Ints], load: Ints, fits: Bools, cost: Cost) -> Bools:
        """Give init containers slots beside the containers that run then, and raise `load` by them."""
        for j, share in enumerate(self._shares.init, start=len(self._shares.running)):
            there = self._running_load(slots, share.beside) + np.int32(share.memory_mib)
            slots[j], fits = self._cheapest_beside(load, there, fits, cost)
        return fits

    def _cheapest_beside(self, load: Ints, there: Ints, fits: Bools, cost: Cost) -> tuple[Ints, Bools]:
        """`_cheapest` if the pod holds `load` of each GPU in any phase so far, and `there` in the phase
        of the share, including it: memory that the pod holds anyway is used first. Raises `load`."""
        after = np.maximum(load, there)
        price = cost(self._room - load, self._room - after)
        price = price + (after > load) * _HELD_MORE + (there > self._room) * _TOO_DEAR
        slot = price.argmin(0).astype(np.int32)
        at = slot, self._columns
        fits = fits & (there[at] <= self._room[at])
        load[at] = np.where(fits, after[at], load[at])
        return slot, fits

    def _hold_less(self, cost: Cost) -> None:
        """If the app fits into the memory of its init containers, it goes there: place all containers again
        in their starting order, and keep that in those states where the pod then holds less in total."""
        running = self._shares.running
        early = {i for share in self._shares.init for i in share.beside}
        slots = [np.full(len(self._columns), -1, np.int32) for _ in self.slots]
        load, now, fits = np.zeros_like(self._room), np.zeros_like(self._room), self.fits

        def start(those: set[int]) -> None:
            nonlocal fits
            for i in sorted(those, key=lambda i: -running[i][1]):
                mib = np.int32(running[i][1])
                slots[i], fits = self._cheapest_beside(load, now + mib, fits, cost)
                now[slots[i], self._columns] += np.where(fits, mib, np.int32(0))

        start(early)
        fits = self._place_init(slots, load, fits, cost)
        start(set(range(len(running))) - early)
        less = fits & (load.sum(0, dtype=np.int64) < self.load_mib.sum(0, dtype=np.int64))
        self.slots = [np.where(less, new, old) for new, old in zip(slots, self.slots, strict=True)]
        self.load_mib = np.where(less, load, self.load_mib)

    def _running_load(self, slots: Sequence[Ints], which: Sequence[int]) -> Ints:
        load = np.zeros_like(self._room)
        for i in which:
            mib = np.int32(self._shares.running[i][1])
            load[slots[i], self._columns] += np.where(slots[i] >= 0, mib, np.int32(0))
        return load

    def _search(self, undecided: Bools, steps: list[int]) -> None:
        if len(self.slots) < 2 or not undecided.any():
            return
        solved: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        for column in np.flatnonzero(undecided):
            room = tuple(self._room[:, column].tolist())
            if room not in solved:
                # Necessary: for each size there are places for all shares of at least that size.
                possible = all(
                    sum(mib // size for mib in room if mib >= size) >= count
                    for size, count in self._shares.at_least
                )
                solved[room] = place_exactly(room, self._shares, steps) if possible else None
            found = solved[room]
            if found is not None:
                self.fits[column] = True
                for slots, slot in zip(self.slots, found, strict=True):
                    slots[column] = slot

    def _peak(self) -> Ints:
        running = len(self._shares.running)
        load = self._running_load(self.slots, range(running))
        for slots, share in zip(self.slots[running:], self._shares.init, strict=True):
            before = self._running_load(self.slots, share.beside)
            before[slots, self._columns] += np.where(slots >= 0, np.int32(share.memory_mib), np.int32(0))
            load = np.maximum(load, before)
        return load


def fit_shares(room_mib: Ints, shares: ShareRequest, where: Bools, steps: list[int] | None = None) -> Bools:
    """The states of `where` in which all shares find a GPU; `room_mib` is -1 if none may go."""
    if len(shares.running) + len(shares.init) == 1:
        fits: Bools = np.any(room_mib >= shares.largest_mib, axis=0)
        return fits
    return ShareFit(room_mib, shares).place(where, steps=steps).fits


def place_exactly(room_mib: Sequence[int], shares: ShareRequest, steps: list[int]) -> tuple[int, ...] | None:
    """The slot of each share (running, then init) on one node, or None if no placement exists. Depth first,
    largest first, one representative of equal GPUs; equal shares are tried in one order only. `steps[0]` is
    the remaining budget and is counted down; when it is used up the answer is None."""
    running = shares.running
    order = sorted(range(len(running)), key=lambda i: -running[i][1])
    slots = [-1] * len(running)
    left = list(room_mib)
    # The shares that init containers start beside, one bit each, on each GPU.
    beside = {i for share in shares.init for i in share.beside}
    marks = [0] * len(left)
    init_steps = sum(len(share.beside) + len(left) for share in shares.init)

    def place_init() -> tuple[int, ...] | None:
        steps[0] -= init_steps
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
        mark = 1 << i if i in beside else 0
        tried = set()
        # Two equal shares differ if init containers start beside only one of them.
        first = 0 if depth == 0 or beside or running[order[depth - 1]][1] != mib else slots[order[depth - 1]]
        for slot in range(first, len(left)):
            room = left[slot]
            if steps[0] <= 0:
                return None
            steps[0] -= 1
            # GPUs with equal room, now, from the start and beside the init containers, are all the same.
            kind = (room, room_mib[slot], marks[slot]) if init_steps else room
            if room < mib or kind in tried:
                continue
            tried.add(kind)
            left[slot] -= mib
            marks[slot] ^= mark
            slots[i] = slot
            found = place(depth + 1)
            if found is not None:
                return found
            left[slot] += mib
            marks[slot] ^= mark
        return None

    return place(0)
