"""Unallocated GPUs, and the part of them that future pods cannot use."""

import numpy as np

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.snapshot.snapshot import Snapshot


def fragmentation(snapshot: Snapshot) -> tuple[float, float]:
    """(unallocated, unusable) in GPUs, by the forecast of the decisions (`core.forecast.demand`).
    Unallocated is the unheld part of healthy GPUs that are neither shared by time nor in MIG mode; unusable
    is the part of it that future pods cannot use, weighted by the frequency of those pods. Nodes whose GPUs
    may be gone do not count."""
    by_model = fragmentation_by_model(snapshot).values()
    return sum(idle for idle, _ in by_model), sum(unusable for _, unusable in by_model)


def fragmentation_by_model(snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """(unallocated, unusable) in GPUs; a node with several models counts under the model of its first GPU."""
    models: dict[str, tuple[float, float]] = {}
    for name, (idle, unusable) in fragmentation_by_node(snapshot).items():
        model = _model_name(snapshot.nodes[name])
        if model is not None:
            before = models.get(model, (0.0, 0.0))
            models[model] = before[0] + idle, before[1] + unusable
    return models


def fragmentation_by_node(snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """(unallocated, unusable) in GPUs of each node that counts."""
    names = [
        name
        for name, node in snapshot.nodes.items()
        if node.state.gpus and not node.info.is_out and not node.state.in_parts
    ]
    state = snapshot.state_of[snapshot.rows(names)]
    idle = snapshot.demand.idle[state]
    unusable = np.clip(snapshot.demand.unusable[state], 0.0, idle)
    return dict(zip(names, zip(idle.tolist(), unusable.tolist(), strict=True), strict=True))


def _model_name(node: Node) -> str | None:
    if node.info.report is None:
        return node.info.estimate.model.name if node.info.estimate is not None else None
    return next((device.product for device in node.info.devices if device.uuid in node.uuids[:1]), None)
