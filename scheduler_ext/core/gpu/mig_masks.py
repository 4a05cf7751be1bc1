"""Tables over all occupancy masks of one placement grid: what each mask leaves placeable.

A grid of n units has 2 ** n masks (16, 256 and 4096 on NVIDIA's GPUs), few enough to work them all out once
and then only look up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, window


@dataclass(frozen=True, eq=False)
class MaskTables:
    """What each occupancy mask of one geometry leaves; read-only arrays, first axis [2 ** grid].

    `placeable` [mask, profile] counts the instances of that profile alone that still fit. `worth` [mask] is
    the placeability in whole units, 0 .. `full_worth`: integers, so that equal losses are equal numbers.
    """

    placeable: NDArray[np.uint8]
    worth: NDArray[np.int64]
    full_worth: int


@lru_cache(maxsize=256)
def mask_tables(grid: int, profiles: tuple[Profile, ...]) -> MaskTables:
    """Return the tables of a grid of at most 16 units and of profiles that each fit the empty grid.

    The meaning of `worth`, and why it is weighted so, is at Geometry.placeability.
    """
    masks = np.arange(1 << grid, dtype=np.int64)
    placeable = np.stack([_placeable_column(masks, profile) for profile in profiles], axis=1)
    # Forms of one shape share its row; the form that max_instances binds least stands for all.
    shapes: dict[tuple[int, tuple[int, ...]], NDArray[np.int64]] = {}
    for profile, column in zip(profiles, placeable.T, strict=True):
        shape = (profile.size, profile.starts)
        if shape not in shapes or column[0] > shapes[shape][0]:
            shapes[shape] = column.astype(np.int64)
    # The common multiple turns the mean of fractions into a sum of whole numbers.
    multiple = lcm(*(int(column[0]) for column in shapes.values()))
    worth = np.zeros(len(masks), dtype=np.int64)
    for (size, _), column in shapes.items():
        worth += size * (multiple // int(column[0])) * column
    placeable.setflags(write=False)
    worth.setflags(write=False)
    return MaskTables(placeable, worth, int(worth[0]))


def _placeable_column(masks: NDArray[np.int64], profile: Profile) -> NDArray[np.uint8]:
    """Count per mask; of windows of one size, always taking the next free one is optimal."""
    count = np.zeros(len(masks), dtype=np.uint8)
    end = np.zeros(len(masks), dtype=np.uint8)
    for start in profile.starts:
        free = ((masks & window(profile, start)) == 0) & (end <= start)
        count += free
        end[free] = start + profile.size
    # Never more than the grid has units, so that any reported cap fits the array's type.
    return np.minimum(count, min(profile.max_instances, MAX_GRID)).astype(np.uint8)
