"""How much of the GPUs that nobody holds the pods to come could not use."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.snapshot import Snapshot


def fragmentation(snapshot: Snapshot) -> tuple[float, float]:
    """(unallocated, unusable) in GPUs, by the forecast that decisions go by (``core.outlook``).

    Unallocated is what nobody holds of healthy GPUs without MIG; unusable is the part of it that the pods to
    come cannot use, by how often those come who cannot. Nodes that are missing do not count.
    """
    names = [name for name, node in snapshot.nodes.items() if node.info.freshness != "Missing"]
    states = snapshot.state_of[snapshot.rows(names)]
    outlook = snapshot.outlook
    idle = outlook.idle[states]
    unusable = np.clip(outlook.unusable[states], 0.0, idle)
    return float(idle.sum()), float(unusable.sum())
