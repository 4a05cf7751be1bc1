"""What Prometheus sees of the extender. One process, so the plain registry serves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext import __version__
from scheduler_ext.core.reasons import REASONS
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.binder import CONFLICTS, RESULTS
from scheduler_ext.extender.drift import Drift
from scheduler_ext.extender.status import Source, SourceStatus
from scheduler_ext.server.cut_connections import CUT_CONNECTIONS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# 1 ms times powers of two, as Kubernetes' own components use, and one below: an answer takes about 1 ms.
_SECONDS = (0.0005, *(0.001 * 2**n for n in range(13)))
_NODES = (0, 1, 10, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)


class Metrics:
    """All metrics of one extender."""

    def __init__(self, source: Source, resources: ResourceNames) -> None:
        # One more series for each one that counts, and nobody reads them; the switch is per process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.duration = Histogram(
            "gpu_extender_request_duration_seconds",
            "From the last byte of a request's body to its reply, by verb and HTTP status.",
            ("verb", "code"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.nodes = Histogram(
            "gpu_extender_request_nodes",
            "Nodes asked about (in) and given back (out), by verb.",
            ("verb", "direction"),
            buckets=_NODES,
            registry=self.registry,
        )
        self.rejections = Counter(
            "gpu_extender_rejections",
            "Nodes refused by filter, by reason.",
            ("reason",),
            registry=self.registry,
        )
        for reason in REASONS:
            self.rejections.labels(reason.text)
        build = Gauge("gpu_extender_build_info", "Always 1.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)
        self.registry.register(_InventoryMetrics(source))
        self.registry.register(_LedgerMetrics(source, resources))
        self.registry.register(_ConnectionMetrics())

    @lru_cache(maxsize=256)  # noqa: B019 (one Metrics lives as long as the process)
    def _duration(self, verb: str, code: int) -> Histogram:
        # Looking a child up costs more than observing.
        return self.duration.labels(verb, str(code))

    @lru_cache(maxsize=16)  # noqa: B019
    def _nodes(self, verb: str) -> tuple[Histogram, Histogram]:
        return self.nodes.labels(verb, "in"), self.nodes.labels(verb, "out")

    def observe(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        self._duration(verb, code).observe(seconds)

    def count(self, verb: str, answer: Answer) -> None:
        """Count what a request was about."""
        nodes_in, nodes_out = self._nodes(verb)
        nodes_in.observe(answer.nodes_in)
        nodes_out.observe(answer.nodes_out)
        for reason, count in answer.rejected.items():
            self.rejections.labels(reason).inc(count)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)


class _InventoryMetrics(Collector):
    """Read from the source when scraped, so that nothing is kept in step by hand."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        snapshot = self._source.snapshot
        generation = GaugeMetricFamily(
            "gpu_extender_snapshot_generation", "Counts every change of the inventory."
        )
        generation.add_metric([], snapshot.generation if snapshot else 0)
        yield generation
        nodes = GaugeMetricFamily(
            "gpu_extender_inventory_nodes", "Nodes with GPUs by state.", labels=["state"]
        )
        for state, count in _counts(snapshot).items():
            nodes.add_metric([state], count)
        yield nodes
        status = self._source.status()
        yield _single(
            "gpu_extender_inventory_age_seconds",
            "Since the inventory was last heard of: read or found unchanged, or the quietest watch heard.",
            status.age_s,
        )
        yield _single(
            "gpu_extender_inventory_broken",
            "1 while a changed inventory file is refused and the old one is served.",
            float(status.broken),
        )
        yield _single(
            "gpu_extender_active", "1 where this extender may write to the cluster.", float(status.active)
        )
        yield _single(
            "gpu_extender_report_age_seconds_max",
            "The age of the oldest report of a node.",
            max(status.report_ages_s.values(), default=0.0),
        )
        yield _single(
            "gpu_extender_forecast_age_seconds",
            "Since the forecast of the pods to come was made.",
            status.forecast_age_s,
        )
        yield _single(
            "gpu_extender_forecast_classes",
            "Kinds of pods in the forecast of the pods to come.",
            float(len(snapshot.forecast.workload.parts)) if snapshot else 0.0,
        )
        nudges = CounterMetricFamily(
            "gpu_extender_nudges", "Node annotations written so that kube-scheduler retries refused pods."
        )
        nudges.add_metric([], status.nudges)
        yield nudges
        refused = CounterMetricFamily(
            "gpu_extender_reports_refused",
            "Reports refused because they contradict themselves.",
            labels=["node"],
        )
        for node, count in sorted(status.reports_refused.items()):
            refused.add_metric([node], count)
        yield refused
        yield from _watch_metrics(status)


def _single(name: str, what: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what)
    family.add_metric([], value)
    return family


def _watch_metrics(status: SourceStatus) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    connected = GaugeMetricFamily(
        "gpu_extender_watch_connected", "1 while the API server answers this watch.", labels=["resource"]
    )
    silence = GaugeMetricFamily(
        "gpu_extender_watch_silence_seconds", "Since this watch last said anything.", labels=["resource"]
    )
    restarts = CounterMetricFamily(
        "gpu_extender_watch_restarts",
        "Watches begun anew: ended (as agreed), silent, unreachable, refused, expired, garbled, error.",
        labels=["resource", "reason"],
    )
    for watch in status.watches:
        connected.add_metric([watch.name], float(watch.connected))
        silence.add_metric([watch.name], watch.silent_s)
        for reason, count in sorted(watch.restarts.items()):
            restarts.add_metric([watch.name, reason], count)
    return (connected, silence, restarts)


class _LedgerMetrics(Collector):
    """What was promised, and how far what agents see differs from it."""

    def __init__(self, source: Source, resources: ResourceNames) -> None:
        self._source = source
        self._drift = Drift(resources)

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
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
        yield _counted(
            "gpu_extender_advertise_writes", "Amounts of shares written to nodes.", status.advertised
        )
        yield _counted(
            "gpu_extender_advertise_failures",
            "Amounts of shares that could not be written to nodes.",
            status.advertise_failures,
        )
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


def _counted(name: str, what: str, value: int) -> CounterMetricFamily:
    family = CounterMetricFamily(name, what)
    family.add_metric([], value)
    return family


class _ConnectionMetrics(Collector):
    """Counted by the transport, which knows nothing of Prometheus."""

    def collect(self) -> Iterable[CounterMetricFamily]:
        cut = CounterMetricFamily(
            "gpu_extender_connections_cut",
            "Connections ended by the server because of slow, refused or too many clients, by reason.",
            labels=["reason"],
        )
        for reason, count in CUT_CONNECTIONS.counts().items():
            cut.add_metric([reason], count)
        yield cut


def _counts(snapshot: Snapshot | None) -> dict[str, int]:
    counts = {"Fresh": 0, "Stale": 0, "Missing": 0}
    for node in snapshot.nodes.values() if snapshot else ():
        if node.info.report is not None or node.info.estimate is not None or node.info.freshness != "Fresh":
            counts[node.info.freshness] += 1
    return counts
