"""How much of what is idle could not be used by the pods that usually come.

The measure of Weng et al., "Beware of Fragmentation" (USENIX ATC'23): idle capacity counts as fragmented
for a task class when that class cannot use it, weighted by how often the class comes. Here over a neutral
workload: shares of an eighth, a quarter, half and all of a GPU, and 1, 2, 4 or 8 whole GPUs, equally often.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.snapshot import Floats, Ints

SHARE_CLASSES = (0.125, 0.25, 0.5, 1.0)
WHOLE_CLASSES = (1, 2, 4, 8)


def fragmented_share(idle: Floats) -> Floats:
    """Per GPU: the idle part (0..1) times the part of share classes that do not fit into it."""
    misses = np.zeros_like(idle)
    for size in SHARE_CLASSES:
        misses += idle < size
    fragmented: Floats = idle * misses / len(SHARE_CLASSES)
    return fragmented


def fragmented_whole(free: Ints) -> Floats:
    """Per node: its free whole GPUs times the part of whole-GPU classes that want more than those."""
    misses = np.zeros(free.shape, np.float64)
    for count in WHOLE_CLASSES:
        misses += free < count
    fragmented: Floats = free * misses / len(WHOLE_CLASSES)
    return fragmented
