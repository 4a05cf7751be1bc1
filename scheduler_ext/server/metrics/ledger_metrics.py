"""Promised, bound and advertised amounts, and their difference from agents' observations."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.binding.binder import CONFLICTS, RESULTS
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.server.metrics.families import Family, counter
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.drift_rows import Drift


class LedgerMetrics(Collector):
    """Read from the source when scraped."""

    def __init__(self, source: Watched, resources: ResourceNames) -> None:
        self._source = source
        self._drift = Drift(resources)

    def collect(self) -> Iterable[Family]:
        drift = GaugeMetricFamily(
            "gpu_extender_ledger_drift_mib",
            "GPU memory that pods use beyond what they were promised, by node of shares.",
            labels=["node"],
        )
        for node, mib in self._drift.by_node(self._source.snapshot).items():
            drift.add_metric([node], mib)
        yield drift
        status = self._source.status()
        unplaced = GaugeMetricFamily(
            "gpu_extender_unplaced_share_pods",
            "Pods with a share on a GPU that nobody knows: their node takes no new share.",
            labels=["node"],
        )
        for node, count in sorted(status.unplaced.items()):
            unplaced.add_metric([node], count)
        yield unplaced
        yield counter(
            "gpu_extender_advertise_writes", "Amounts of shares written to nodes.", status.advertised
        )
        yield counter(
            "gpu_extender_advertise_failures",
            "Amounts of shares that could not be written to nodes.",
            status.advertise_failures,
        )
        yield from self._binds()

    def _binds(self) -> Iterable[Family]:
        counts = self._source.binder.counts if self._source.binder is not None else None
        results = CounterMetricFamily(
            "gpu_extender_bind",
            "Binds by how they ended: bound, repeated, refused, conflict, failed, unknown, standby.",
            labels=["result"],
        )
        for result in RESULTS if counts is not None else ():
            results.add_metric([result], counts.results().get(result, 0) if counts else 0)
        yield results
        conflicts = CounterMetricFamily(
            "gpu_extender_bind_conflicts",
            "What kept a bind from going as decided: gone (fits no more), fence (another extender "
            "wrote), pod (it changed).",
            labels=["kind"],
        )
        for kind in CONFLICTS if counts is not None else ():
            conflicts.add_metric([kind], counts.conflicts().get(kind, 0) if counts else 0)
        yield conflicts
