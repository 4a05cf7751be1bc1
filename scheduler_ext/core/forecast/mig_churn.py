"""MIG churn in miniature: how much of what pods ask of a pool of GPUs some placements give.

Arrivals are Poisson, lifetimes exponential with mean 1; what does not fit at once leaves. GPUs of one mask
are alike, so that a choice is the first mask, by cost, that some GPU has: the lowest bit of a set of bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from scheduler_ext.core.forecast.mig_pool import GPUS, Indexes, MigPool
from scheduler_ext.core.node.columns import Floats

_WARM_UP_LIFETIMES = 4.0


@dataclass(frozen=True, eq=False)
class Requests:
    """What comes, in order: shapes, and when each arrives and leaves; ``warm_up`` of them do not count."""

    shapes: list[int]
    arrives: list[float]
    leaves: list[float]
    warm_up: int


def requests_for(pool: MigPool, count: int, seed: int = 0) -> Requests:
    """So many that count, the same for every policy."""
    rng = np.random.default_rng(seed)
    rate = float(pool.arrivals.sum())
    warm_up = int(_WARM_UP_LIFETIMES * rate)
    shape = rng.choice(len(pool.parts), warm_up + count, p=pool.parts)
    arrives = rng.exponential(1 / rate, len(shape)).cumsum()
    leaves = arrives + rng.exponential(1.0, len(shape))
    return Requests(shape.tolist(), arrives.tolist(), leaves.tolist(), warm_up)


class _Gpus:
    """Which GPUs have which mask, and for each shape which masks some GPU has, as a set of bits in the order
    of their cost."""

    def __init__(self, pool: MigPool, cost: Floats) -> None:
        self.mask = [0] * GPUS
        self.having: list[set[int]] = [set() for _ in pool.masks]
        self.having[0].update(range(GPUS))
        self.order: list[list[int]] = []
        self.present = [0] * len(cost)
        self.bits: list[list[tuple[int, int]]] = [[] for _ in pool.masks]
        for shape, costs in enumerate(cost):
            order = np.argsort(costs, kind="stable")[: int(np.isfinite(costs).sum())].tolist()
            self.order.append(order)
            for rank, state in enumerate(order):
                self.bits[state].append((shape, 1 << rank))
        self._flip(0)

    def move(self, gpu: int, before: int, after: int) -> None:
        here, there = self.having[before], self.having[after]
        here.discard(gpu)
        if not here:
            self._flip(before)
        if not there:
            self._flip(after)
        there.add(gpu)

    def _flip(self, state: int) -> None:
        present = self.present
        for shape, bit in self.bits[state]:
            present[shape] ^= bit


def churn(pool: MigPool, cost: Floats, after: Indexes, requests: Requests) -> tuple[float, Floats]:
    """The part of the slices asked that these choices (as of ``MigPool.choices``) accept, and how often the
    next best GPU beside the chosen one had each mask, ``[shape, state]``, the last for none."""
    gpus = _Gpus(pool, cost)
    masks, state_of, sizes = pool.masks.tolist(), pool.state_of.tolist(), pool.sizes.tolist()
    becomes = after.tolist()
    none = len(masks)
    runners_up = [[0] * (none + 1) for _ in sizes]
    asked = given = 0.0
    state = [0] * GPUS
    ends: list[tuple[float, int, int]] = []
    coming = zip(requests.shapes, requests.arrives, requests.leaves, strict=True)
    for number, (shape, now, leaves) in enumerate(coming):
        while ends and ends[0][0] <= now:
            _, gpu, taken = heappop(ends)
            left = state_of[masks[state[gpu]] & ~taken]
            gpus.move(gpu, state[gpu], left)
            state[gpu] = left
        present, order = gpus.present[shape], gpus.order[shape]
        chosen, second = -1, none
        if present:
            lowest = present & -present
            chosen = order[lowest.bit_length() - 1]
            rest = present ^ lowest
            if len(gpus.having[chosen]) > 1:
                second = chosen
            elif rest:
                second = order[(rest & -rest).bit_length() - 1]
        if number >= requests.warm_up:
            asked += sizes[shape]
            given += sizes[shape] if chosen >= 0 else 0.0
            runners_up[shape][second] += 1
        if chosen >= 0:
            gpu = next(iter(gpus.having[chosen]))
            made = becomes[shape][chosen]
            gpus.move(gpu, chosen, made)
            state[gpu] = made
            heappush(ends, (leaves, gpu, masks[made] ^ masks[chosen]))
    return given / asked, np.array(runners_up, np.float64)
