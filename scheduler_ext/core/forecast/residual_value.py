"""The worth of the free part of a GPU to future demand. The fewest GPUs that hold a mix of sizes are a linear
program over patterns, the ways to fill one GPU (Gilmore and Gomory, "A Linear Programming Approach to the
Cutting-Stock Problem", Operations Research 9, 1961). Its dual prices give a pod of each size a worth in GPUs,
and the worth of a residual is that of its dearest filling."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.node.columns import Floats

_Sizes = npt.NDArray[np.int64]

# A pattern that is worth at most so much more than a GPU counts as no improvement.
_TOLERANCE = 1e-9
# The accepted relative distance from the best prices.
_GAP = 1e-6
# Each round finds a better pattern. Mixes of 64 sizes take a hundred to a few hundred rounds, and more with
# recurring amounts. After so many rounds the best known prices are used, which are near the optimum by then.
_MAX_ROUNDS = 600
# Prices oscillate between rounds, and each jump adds patterns of no later use. A search this close to the
# best known prices halves their number (Pessoa et al., "Automation and Combination of Linear-Programming
# Based Stabilization Techniques in Column Generation", INFORMS J. Computing 30, 2018).
_STEADY = 0.8


def residual_values(demand: Mapping[int, float], capacity: int) -> Floats:
    """The worth of every residual of a GPU, in GPUs, `[capacity + 1]`: monotonic, from 0 to 1. `demand`
    is the expected number of pods of each size. Without demand, a residual is worth its part of the GPU."""
    sizes = np.array(sorted(size for size, count in demand.items() if count > 0), np.int64)
    if not len(sizes):
        return np.linspace(0.0, 1.0, capacity + 1)
    wanted = np.array([demand[int(size)] for size in sizes], np.float64)
    wanted /= wanted.sum()
    # One pattern per size to begin with: as many of it as fit.
    patterns = np.diag(capacity // sizes).astype(np.float64)
    used = wanted / np.diag(patterns)
    steady = np.zeros(len(sizes))
    for _ in range(_MAX_ROUNDS):
        prices = np.linalg.solve(patterns.T, np.ones(len(sizes))).astype(np.float64)
        for part in (_STEADY, 0.0):
            tried = np.maximum(part * steady + (1 - part) * prices, 0.0)
            values = _filled(sizes, tried, capacity)
            entering = _pattern(sizes, tried, values, capacity)
            # Feasible prices, at which no filling is worth more than a GPU: higher is better.
            possible = tried / values[-1, -1]
            if wanted @ possible > wanted @ steady + _TOLERANCE:
                steady = possible
            if entering @ prices > 1 + _TOLERANCE:
                break
        if wanted @ steady >= (1 - _GAP) * (wanted @ prices):
            break
        change = np.linalg.solve(patterns, entering)
        ratios = np.divide(used, change, out=np.full(len(used), np.inf), where=change > _TOLERANCE)
        leaving = int(ratios.argmin())
        used = np.maximum(used - ratios[leaving] * change, 0.0)
        used[leaving] = ratios[leaving]
        patterns[:, leaving] = entering
    # Against rounding errors: a larger residual is worth at least as much.
    worth = np.maximum.accumulate(_filled(sizes, steady, capacity)[-1])
    worth /= worth[-1]
    return worth


def _filled(sizes: _Sizes, prices: Floats, capacity: int) -> Floats:
    """The dearest filling of each residual with the first so many sizes, `[sizes + 1, capacity + 1]`."""
    values = np.zeros((len(sizes) + 1, capacity + 1))
    for i, (size, price) in enumerate(zip(sizes.tolist(), prices.tolist(), strict=True)):
        # Residuals that differ by multiples of the size share a column. Each takes the best of: no pod of
        # this size, or the value k sizes lower plus k pods; for all residuals at once.
        rows = capacity // size + 1
        without = np.zeros(rows * size)
        without[: capacity + 1] = values[i]
        added = np.arange(rows)[:, None] * price
        worth = np.maximum.accumulate(without.reshape(rows, size) - added, axis=0) + added
        values[i + 1] = worth.ravel()[: capacity + 1]
    return values


def _pattern(sizes: _Sizes, prices: Floats, values: Floats, capacity: int) -> Floats:
    pattern = np.zeros(len(sizes))
    left = capacity
    for i in range(len(sizes) - 1, -1, -1):
        counts = np.arange(left // sizes[i] + 1)
        worth = values[i][left - counts * sizes[i]] + counts * prices[i]
        pattern[i] = int(worth.argmax())
        left -= int(pattern[i]) * int(sizes[i])
    return pattern
