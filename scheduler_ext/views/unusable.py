"""Unallocated GPUs, and the part that future demand could not use."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.node.node import Node, NodeState
from scheduler_ext.core.request.resource_names import MIG_PREFIX
from scheduler_ext.core.snapshot.snapshot import Snapshot


def fragmentation(snapshot: Snapshot) -> tuple[float, float]:
    """(unallocated, unusable) in GPUs, by the forecast of the decisions (``core.forecast.demand``).

    Unallocated is the unheld part of healthy GPUs that are neither shared by time nor in MIG mode; unusable
    is the part of it that future pods cannot use, weighted by the frequency of those pods. Missing nodes do
    not count.
    """
    by_model = fragmentation_by_model(snapshot).values()
    return sum(idle for idle, _ in by_model), sum(unusable for _, unusable in by_model)


def fragmentation_by_model(snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """(unallocated, unusable) in GPUs, of a node with several models by that of its first GPU."""
    models: dict[str, int] = {}
    names, of = [], []
    for name, node in snapshot.nodes.items():
        model = _model_name(node) if node.info.freshness != "Missing" and not _in_parts(node.state) else None
        if model is not None:
            names.append(name)
            of.append(models.setdefault(model, len(models)))
    if not names:
        return {}
    state = snapshot.state_of[snapshot.rows(names)]
    idle = snapshot.demand.idle[state]
    unusable = np.clip(snapshot.demand.unusable[state], 0.0, idle)
    sums = (np.bincount(of, each, len(models)).tolist() for each in (idle, unusable))
    return dict(zip(models, zip(*sums, strict=True), strict=True))


def _in_parts(state: NodeState) -> bool:
    """Whether a requested whole GPU there is a replica or an instance, which must not be summed with GPUs."""
    return any(
        unit.gpu_part < 1 and not unit.resource.startswith(MIG_PREFIX)
        for slot in state.slots
        for unit in slot.units
    )


def _model_name(node: Node) -> str | None:
    if node.info.report is not None:
        first = node.uuids[0] if node.uuids else None
        return next((device.product for device in node.info.report.devices if device.uuid == first), None)
    return node.info.estimate.model.name if node.info.estimate is not None else None
