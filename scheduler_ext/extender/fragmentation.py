"""How much of the GPUs that nobody holds the pods to come could not use."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.node import Node, NodeState
from scheduler_ext.core.resources import MIG_PREFIX
from scheduler_ext.core.snapshot import Snapshot


def fragmentation(snapshot: Snapshot) -> tuple[float, float]:
    """(unallocated, unusable) in GPUs, by the forecast that decisions go by (``core.outlook``).

    Unallocated is what nobody holds of healthy GPUs without MIG and replicas; unusable is the part of it that
    the pods to come cannot use, by how often those come who cannot. Nodes that are missing do not count.
    """
    names = [name for name, node in snapshot.nodes.items() if _counts(node)]
    states = snapshot.state_of[snapshot.rows(names)]
    outlook = snapshot.outlook
    idle = outlook.idle[states]
    unusable = np.clip(outlook.unusable[states], 0.0, idle)
    return float(idle.sum()), float(unusable.sum())


def _counts(node: Node) -> bool:
    return node.info.freshness != "Missing" and bool(node.state.slots) and not _in_parts(node.state)


def _in_parts(state: NodeState) -> bool:
    """Whether what is asked as a whole GPU there is a replica or an instance, which are no GPUs to sum."""
    return any(
        unit.gpu_part < 1 and not unit.resource.startswith(MIG_PREFIX)
        for slot in state.slots
        for unit in slot.units
    )
