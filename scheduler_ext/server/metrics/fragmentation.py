"""How much of what nobody holds the pods to come could not use."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.core.node import Node, NodeState
from scheduler_ext.core.resources import MIG_PREFIX
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.extender.status import Watched
from scheduler_ext.server.metrics.families import Family, gauge


class FragmentationMetrics(Collector):
    """By the forecast that decisions go by (core.outlook), so that both speak of the same."""

    def __init__(self, source: Watched) -> None:
        self._source = source
        self._known: tuple[Snapshot | None, dict[str, tuple[float, float]]] = (None, {})

    def collect(self) -> Iterable[Family]:
        snapshot = self._source.snapshot
        if self._known[0] is not snapshot:
            self._known = snapshot, _by_model(snapshot)
        by_model = self._known[1]
        unallocated = GaugeMetricFamily(
            "gpu_extender_gpus_unallocated",
            "GPUs and parts of GPUs that nobody holds: healthy ones, neither time-sliced nor with MIG.",
            labels=["modelName"],
        )
        unusable = GaugeMetricFamily(
            "gpu_extender_gpus_unusable",
            "What of these the pods to come cannot use, by how often those come who cannot.",
            labels=["modelName"],
        )
        for model, (idle, lost) in sorted(by_model.items()):
            unallocated.add_metric([model], idle)
            unusable.add_metric([model], lost)
        idle = sum(each[0] for each in by_model.values())
        yield from (unallocated, unusable)
        yield gauge(
            "gpu_extender_fragmentation_ratio",
            "The part of unallocated GPUs that the pods to come cannot use; 0 where nothing is unallocated.",
            sum(each[1] for each in by_model.values()) / idle if idle else 0.0,
        )


def _by_model(snapshot: Snapshot | None) -> dict[str, tuple[float, float]]:
    """(unallocated, unusable) in GPUs, of a node with several models by that of its first GPU."""
    models: dict[str, int] = {}
    names, of = [], []
    for name, node in snapshot.nodes.items() if snapshot is not None else ():
        model = _model_name(node) if node.info.freshness != "Missing" and not _in_parts(node.state) else None
        if model is not None:
            names.append(name)
            of.append(models.setdefault(model, len(models)))
    if snapshot is None or not names:
        return {}
    state = snapshot.state_of[snapshot.rows(names)]
    idle = snapshot.outlook.idle[state]
    unusable = np.clip(snapshot.outlook.unusable[state], 0.0, idle)
    sums = (np.bincount(of, each, len(models)).tolist() for each in (idle, unusable))
    return dict(zip(models, zip(*sums, strict=True), strict=True))


def _in_parts(state: NodeState) -> bool:
    """Whether what is asked as a whole GPU there is a replica or an instance, which are no GPUs to sum."""
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
