"""Unallocated GPUs, the part that future demand could not use, and samples of both over the last hours."""

from collections import deque
from threading import Lock
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.snapshot.snapshot import Snapshot

EVERY_S = 30.0
# Twelve hours.
_MOST = 1440


class Sample(NamedTuple):
    """One moment. `at` is wall time in seconds; `gpus` exist, `healthy` of them are healthy, and pods
    hold `held` of these, parts of GPUs included; future pods cannot use `unusable` of the `unallocated`
    GPUs without MIG; `waiting` pods request GPUs and have no node."""

    at: float
    gpus: int
    healthy: int
    held: float
    unallocated: float
    unusable: float
    waiting: int


def sample(snapshot: Snapshot, waiting: int, at: float) -> Sample:
    """The sample of a snapshot. Nodes whose GPUs may be gone do not count."""
    names = [name for name, node in snapshot.nodes.items() if not node.info.is_out]
    states = snapshot.state_of[snapshot.rows(names)]
    healthy = snapshot.healthy[states]
    idle = float(snapshot.idle[states].sum())
    unallocated, unusable = fragmentation(snapshot)
    return Sample(
        at=round(at, 1),
        gpus=int(snapshot.node.gpus[states].sum()),
        healthy=int(healthy.sum()),
        held=round(float(healthy.sum()) - idle, 2),
        unallocated=round(unallocated, 2),
        unusable=round(unusable, 2),
        waiting=waiting,
    )


class History:
    """The last samples, numbered from 1. Safe to use from any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._lock = Lock()
        self._samples: deque[Sample] = deque(maxlen=most)
        self._number = 0

    def add(self, sample: Sample) -> None:
        """Remember one more; the oldest is forgotten."""
        with self._lock:
            self._samples.append(sample)
            self._number += 1

    def since(self, number: int) -> tuple[int, list[Sample]]:
        """The number of the latest sample, and those after `number`, the oldest first."""
        with self._lock:
            newer = self._number - number if 0 <= number <= self._number else self._number
            kept = list(self._samples)
            return self._number, kept[-newer:] if newer else []


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
