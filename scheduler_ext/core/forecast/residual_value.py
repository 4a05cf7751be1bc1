"""What a part of a GPU that is left over is worth, by the pods that are likely to come.

The fewest GPUs that hold a mix of sizes are a linear program over patterns, the ways to fill one GPU (Gilmore
and Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9, 1961). By its
dual prices a pod of each size is worth some part of a GPU, and a residual what its dearest filling is worth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.node.columns import Floats

_Sizes = npt.NDArray[np.int64]

# Patterns worth so little more than a GPU change nothing.
_TOLERANCE = 1e-9
# Prices so near to the best, as a part of it, are good enough.
_GAP = 1e-6
# Each round finds a better pattern, and mixes of 64 sizes take a hundred to a few hundred; where the same
# amounts often recur, more. After so many the best prices known are taken, which then are near.
_MAX_ROUNDS = 600
# From round to round prices jump about, and each jump asks for patterns that are of no use later. Looked for
# so near to the best prices that are known, they are half as many (Pessoa et al., "Automation and Combination
# of Linear-Programming Based Stabilization Techniques in Column Generation", INFORMS J. Computing 30, 2018).
_STEADY = 0.8


def residual_values(demand: Mapping[int, float], capacity: int) -> Floats:
    """The worth of every residual of a GPU, in GPUs, ``[capacity + 1]``: never falling, from 0 to 1.

    ``demand`` is how many are likely to come of each size, from 1 to ``capacity``. Without any, a residual is
    worth its part of the GPU.
    """
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
            # Prices at which no filling is worth more than a GPU: the higher the better.
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
    # Rounding must not make a larger residual worth less.
    worth = np.maximum.accumulate(_filled(sizes, steady, capacity)[-1])
    worth /= worth[-1]
    return worth


def _filled(sizes: _Sizes, prices: Floats, capacity: int) -> Floats:
    """The dearest filling of each residual with the first so many sizes, ``[sizes + 1, capacity + 1]``."""
    values = np.zeros((len(sizes) + 1, capacity + 1))
    for i, (size, price) in enumerate(zip(sizes.tolist(), prices.tolist(), strict=True)):
        # Residuals that differ by the size lie in one column: the dearest of what was without it, and of the
        # same so many sizes lower with as many of it, for all of them at once.
        rows = capacity // size + 1
        without = np.zeros(rows * size)
        without[: capacity + 1] = values[i]
        added = np.arange(rows)[:, None] * price
        worth = np.maximum.accumulate(without.reshape(rows, size) - added, axis=0) + added
        values[i + 1] = worth.ravel()[: capacity + 1]
    return values


def _pattern(sizes: _Sizes, prices: Floats, values: Floats, capacity: int) -> Floats:
    """How many of each size are in the dearest filling of a GPU."""
    pattern = np.zeros(len(sizes))
    left = capacity
    for i in range(len(sizes) - 1, -1, -1):
        counts = np.arange(left // sizes[i] + 1)
        worth = values[i][left - counts * sizes[i]] + counts * prices[i]
        pattern[i] = int(worth.argmax())
        left -= int(pattern[i]) * int(sizes[i])
    return pattern
