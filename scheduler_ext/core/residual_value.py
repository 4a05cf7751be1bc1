"""What a part of a GPU that is left over is worth, by the pods that are likely to come.

The fewest GPUs that hold a mix of sizes are a linear program over patterns, the ways to fill one GPU (Gilmore
and Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9, 1961). By its
dual prices a pod of each size is worth some part of a GPU, and a residual what its dearest filling is worth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.columns import Floats

_Sizes = npt.NDArray[np.int64]

# Patterns worth so little more than a GPU change nothing.
_TOLERANCE = 1e-9
# Each round finds a better pattern; mixes of 40 sizes take less than a hundred.
_MAX_ROUNDS = 1000


def residual_values(demand: Mapping[int, float], capacity: int) -> Floats:
    """The worth of every residual of a GPU, in GPUs, ``[capacity + 1]``: never falling, from 0 to 1.

    ``demand`` is how many are likely to come of each size, from 1 to ``capacity``. Without any, a residual is
    worth its part of the GPU.
    """
    sizes = np.array(sorted(size for size, count in demand.items() if count > 0), np.int64)
    if not len(sizes):
        return np.linspace(0.0, 1.0, capacity + 1)
    # One pattern per size to begin with: as many of it as fit.
    patterns = np.diag(capacity // sizes).astype(np.float64)
    used = np.array([demand[int(size)] for size in sizes]) / np.diag(patterns)
    for _ in range(_MAX_ROUNDS):
        prices = np.linalg.solve(patterns.T, np.ones(len(sizes))).astype(np.float64)
        values, last = _filled(sizes, prices, capacity)
        if values[-1] <= 1 + _TOLERANCE:
            break
        entering = _pattern(sizes, last, capacity)
        change = np.linalg.solve(patterns, entering)
        ratios = np.divide(used, change, out=np.full(len(used), np.inf), where=change > _TOLERANCE)
        leaving = int(ratios.argmin())
        used = np.maximum(used - ratios[leaving] * change, 0.0)
        used[leaving] = ratios[leaving]
        patterns[:, leaving] = entering
    worth: Floats = values / values[-1]
    return worth


def _filled(sizes: _Sizes, prices: Floats, capacity: int) -> tuple[Floats, list[int]]:
    """The dearest filling of each residual, ``[capacity + 1]``, and which size comes last in it, -1: none."""
    values = np.zeros(capacity + 1)
    last = [-1] * (capacity + 1)
    # Whole GPUs are in most mixes, so that the dearest filling of one is never worth nothing.
    for residual in range(int(sizes[0]), capacity + 1):
        fitting = int(np.searchsorted(sizes, residual, side="right"))
        worth = values[residual - sizes[:fitting]] + prices[:fitting]
        best = int(worth.argmax())
        values[residual] = values[residual - 1]
        if worth[best] > values[residual] + _TOLERANCE:
            values[residual], last[residual] = worth[best], best
    return values, last


def _pattern(sizes: _Sizes, last: list[int], capacity: int) -> Floats:
    """How many of each size are in the dearest filling of a GPU."""
    pattern = np.zeros(len(sizes))
    residual = capacity
    while residual > 0:
        if last[residual] < 0:
            residual -= 1
        else:
            pattern[last[residual]] += 1
            residual -= int(sizes[last[residual]])
    return pattern
