"""State and age of the inventory."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.families import Family, counter, gauge
from scheduler_ext.sources.source_status import Watched


class InventoryMetrics(Collector):
    """Read from the source when scraped, so that no value is kept in step by hand."""

    def __init__(self, source: Watched) -> None:
        self._source = source

    def collect(self) -> Iterable[Family]:
        snapshot = self._source.snapshot
        yield gauge(
            "gpu_extender_snapshot_generation",
            "Counts every change of the inventory.",
            snapshot.generation if snapshot else 0,
        )
        nodes = GaugeMetricFamily(
            "gpu_extender_inventory_nodes", "Nodes with GPUs by state.", labels=["state"]
        )
        for state, count in _counts(snapshot).items():
            nodes.add_metric([state], count)
        yield nodes
        status = self._source.status()
        yield gauge(
            "gpu_extender_inventory_age_seconds",
            "Since the inventory was last heard of: read or found unchanged, or the quietest watch heard.",
            status.age_s,
        )
        yield gauge(
            "gpu_extender_inventory_broken",
            "1 while a changed inventory file is refused and the old one is served.",
            float(status.broken),
        )
        yield gauge(
            "gpu_extender_active", "1 where this extender may write to the cluster.", float(status.active)
        )
        yield gauge(
            "gpu_extender_report_age_seconds_max",
            "The age of the oldest report of a node.",
            max(status.report_ages_s.values(), default=0.0),
        )
        events = CounterMetricFamily(
            "gpu_extender_events",
            "Events by what became of them: written, dropped (too many at once), refused, failed.",
            labels=["result"],
        )
        for result in ("written", "dropped", "refused", "failed"):
            events.add_metric([result], status.events.get(result, 0))
        yield events
        yield gauge(
            "gpu_extender_forecast_age_seconds",
            "Since the forecast of the pods to come was made.",
            status.forecast_age_s,
        )
        yield gauge(
            "gpu_extender_forecast_classes",
            "Kinds of pods in the forecast of the pods to come.",
            float(len(snapshot.forecast.workload.parts)) if snapshot else 0.0,
        )
        yield counter(
            "gpu_extender_nudges",
            "Node annotations written so that kube-scheduler retries refused pods.",
            status.nudges,
        )
        failures = CounterMetricFamily(
            "gpu_extender_nudge_failures",
            "Tries to annotate a node that were refused or failed, and nudges that were dropped.",
            labels=["result"],
        )
        for result in ("refused", "failed", "dropped"):
            failures.add_metric([result], status.nudge_failures.get(result, 0))
        yield failures
        refused = CounterMetricFamily(
            "gpu_extender_reports_refused",
            "Reports refused because they contradict themselves.",
            labels=["node"],
        )
        for node, count in sorted(status.reports_refused.items()):
            refused.add_metric([node], count)
        yield refused


def _counts(snapshot: Snapshot | None) -> dict[str, int]:
    counts = {"Fresh": 0, "Stale": 0, "Missing": 0}
    for node in snapshot.nodes.values() if snapshot else ():
        if node.info.report is not None or node.info.estimate is not None or node.info.freshness != "Fresh":
            counts[node.info.freshness] += 1
    return counts
