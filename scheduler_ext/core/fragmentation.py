"""How much of what is idle could not be used by the pods that usually come.

The measure of Weng et al., "Beware of Fragmentation" (USENIX ATC'23): idle capacity counts as fragmented
for a task class when that class cannot use it, weighted by how often the class comes. Here over a neutral
workload: shares of an eighth, a quarter, half and all of a GPU, and 1, 2, 4 or 8 whole GPUs, equally often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.columns import Floats, Ints

SHARE_CLASSES = (0.125, 0.25, 0.5, 1.0)
WHOLE_CLASSES = (1, 2, 4, 8)


def fragmented_share(idle: Floats) -> Floats:
    """Per GPU: the idle part (0..1) times the part of share classes that do not fit into it."""
    fragmented: Floats = idle * _misses(idle, SHARE_CLASSES) / len(SHARE_CLASSES)
    return fragmented


def fragmented_whole(free: Ints) -> Floats:
    """Per node: its free whole GPUs (below 0 is 0) times the part of whole-GPU classes that
    want more."""
    return _FRAGMENTED_WHOLE.take(free, mode="clip")


def _misses(idle: npt.NDArray[Any], classes: Sequence[float]) -> npt.NDArray[np.uint8]:
    """How many of the classes do not fit."""
    # Bytes, because adding truth values to floats takes ten times as long.
    misses = np.zeros(idle.shape, np.uint8)
    for size in classes:
        misses += (idle < size).view(np.uint8)
    return misses


_COUNTS = np.arange(max(WHOLE_CLASSES) + 1)
# By number of free GPUs; from the largest class on, every class fits.
_FRAGMENTED_WHOLE = _COUNTS * _misses(_COUNTS, WHOLE_CLASSES) / len(WHOLE_CLASSES)
