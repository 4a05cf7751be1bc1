"""Unallocated GPUs that future demand could not use."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.families import Family, gauge
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.unusable import fragmentation_by_model


class FragmentationMetrics(Collector):
    """Computed from the forecast of the decisions (core.forecast.demand), so that both agree."""

    def __init__(self, source: Watched) -> None:
        self._source = source
        self._known: tuple[Snapshot | None, dict[str, tuple[float, float]]] = (None, {})

    def collect(self) -> Iterable[Family]:
        snapshot = self._source.snapshot
        if self._known[0] is not snapshot:
            self._known = snapshot, fragmentation_by_model(snapshot) if snapshot is not None else {}
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
