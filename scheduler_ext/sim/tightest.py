"""Which GPU of a node a share gets where the policy has no opinion of its own: the tightest that has room."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.node.columns import Ints
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind


def tightest_slot(kind: PodKind, room_milli: Ints) -> Ints:
    """The first of the fullest GPUs that hold the share, of ``[slot, node]`` rooms, as ``[node]``."""
    if not kind.is_share:
        return np.zeros(room_milli.shape[1], np.int32)
    # What does not fit is wider than any GPU.
    room = np.where(room_milli >= kind.gpu_milli, room_milli, 2 * GPU_MILLI)
    slots: Ints = room.argmin(axis=0).astype(np.int32)
    return slots
