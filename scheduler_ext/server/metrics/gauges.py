"""The gauges that are read from the source at each scrape, and the declared counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

# These declare counters, which are shown with 0 also where nothing counts: an inventory file has no cluster.
import scheduler_ext.cluster.live
import scheduler_ext.server.http.cut_connections  # noqa: F401
from scheduler_ext.core.node.drift import drift_mib
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.counters import Counter
from scheduler_ext.server.http.certificate_dates import not_after
from scheduler_ext.sources.source_status import SourceStatus, Watched
from scheduler_ext.views.per_node import PerNode
from scheduler_ext.views.unusable import fragmentation_by_model

Family = GaugeMetricFamily | CounterMetricFamily
Pending = Callable[[], Mapping[str, int]]
"""The number of waiting pods by reason."""


class CounterMetrics(Collector):
    """Every counter that a class declares."""

    def collect(self) -> Iterable[Family]:
        for counter in Counter.declared:
            family = CounterMetricFamily(counter.name, counter.what, labels=counter.labels)
            for labels, count in counter.total().items():
                family.add_metric([labels] if isinstance(labels, str) else labels, count)
            yield family


class SourceMetrics(Collector):
    """The state of the inventory, the watches and the promised memory, and the pods that wait."""

    def __init__(self, source: Watched, resources: ResourceNames, pending: Pending) -> None:
        self._source = source
        self._pending = pending

        def drift(node: Node) -> int | None:
            shares = node.info.report is not None and node.info.share_node
            return drift_mib(node.info, resources) if shares else None

        self._drift = PerNode(drift)
        self._fragmentation: tuple[Snapshot | None, dict[str, tuple[float, float]]] = (None, {})

    def collect(self) -> Iterable[Family]:
        snapshot, status = self._source.snapshot, self._source.status()
        yield from _inventory(snapshot, status)
        yield from _watches(status)
        yield from self._fragments(snapshot)
        drift = {node: mib for node, mib in self._drift.of(snapshot).items() if mib is not None}
        yield _gauge(
            "ledger_drift_mib",
            "GPU memory that pods use beyond what they were promised, by node of shares.",
            drift,
            "node",
        )
        yield _gauge(
            "unplaced_share_pods",
            "Pods with a share on a GPU that nobody knows: their node takes no new share.",
            dict(sorted(status.unplaced.items())),
            "node",
        )
        yield _gauge(
            "pending_pods",
            "Pods that ask a GPU and wait for a node, by the reason of the node nearest to a fit.",
            dict(sorted(self._pending().items())),
            "reason",
        )

    def _fragments(self, snapshot: Snapshot | None) -> Iterable[Family]:
        """Unallocated GPUs that future demand could not use, by the forecast of the decisions."""
        if self._fragmentation[0] is not snapshot:
            self._fragmentation = snapshot, fragmentation_by_model(snapshot) if snapshot is not None else {}
        by_model = self._fragmentation[1]
        yield _gauge(
            "gpus_unallocated",
            "GPUs and parts of GPUs that nobody holds: healthy ones, neither time-sliced nor with MIG.",
            {model: idle for model, (idle, _) in sorted(by_model.items())},
            "modelName",
        )
        yield _gauge(
            "gpus_unusable",
            "What of these the pods to come cannot use, by how often those come who cannot.",
            {model: lost for model, (_, lost) in sorted(by_model.items())},
            "modelName",
        )
        idle = sum(each[0] for each in by_model.values())
        yield _gauge(
            "fragmentation_ratio",
            "The part of unallocated GPUs that the pods to come cannot use; 0 where nothing is unallocated.",
            sum(each[1] for each in by_model.values()) / idle if idle else 0.0,
        )


class CertificateMetrics(Collector):
    """Read at each scrape: the server reads a changed file within a second, or logs why not."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def collect(self) -> Iterable[Family]:
        try:
            ends = not_after(self._file)
        except (OSError, ValueError):
            # The expiry of the certificate in use is unknown; it will end as if there were none.
            ends = 0.0
        yield _gauge(
            "certificate_expiry_timestamp_seconds",
            "When the certificate in --tls-cert-file ends, in seconds since 1970; 0 where there is none.",
            ends,
        )


def _gauge(name: str, what: str, values: float | Mapping[str, float], label: str = "") -> Family:
    """A gauge with one value, or with values by one label."""
    family = GaugeMetricFamily(f"gpu_extender_{name}", what, labels=[label] if label else [])
    if isinstance(values, Mapping):
        for value, number in values.items():
            family.add_metric([value], number)
    else:
        family.add_metric([], values)
    return family


def _inventory(snapshot: Snapshot | None, status: SourceStatus) -> Iterable[Family]:
    states = {"Fresh": 0, "Stale": 0, "Missing": 0}
    for node in snapshot.nodes.values() if snapshot else ():
        if node.info.report is not None or node.info.estimate is not None or node.info.freshness != "Fresh":
            states[node.info.freshness] += 1
    yield _gauge("inventory_nodes", "Nodes with GPUs by state.", states, "state")
    for name, what, value in (
        (
            "snapshot_generation",
            "Counts every change of the inventory.",
            snapshot.generation if snapshot else 0,
        ),
        (
            "inventory_age_seconds",
            "Since the inventory was last heard of: read or found unchanged, or the quietest watch heard.",
            status.age_s,
        ),
        (
            "inventory_broken",
            "1 while a changed inventory file is refused and the old one is served.",
            float(status.broken),
        ),
        ("active", "1 where this extender may write to the cluster.", float(status.active)),
        (
            "report_age_seconds_max",
            "The age of the oldest report of a node.",
            max(status.report_ages_s.values(), default=0.0),
        ),
        (
            "forecast_age_seconds",
            "Since the forecast of the pods to come was made.",
            status.forecast_age_s,
        ),
        (
            "forecast_classes",
            "Kinds of pods in the forecast of the pods to come.",
            float(len(snapshot.forecast.workload.parts)) if snapshot else 0.0,
        ),
    ):
        yield _gauge(name, what, value)


def _watches(status: SourceStatus) -> Iterable[Family]:
    yield _gauge(
        "watch_connected",
        "1 while the API server answers this watch.",
        {watch.name: float(watch.connected) for watch in status.watches},
        "resource",
    )
    yield _gauge(
        "watch_silence_seconds",
        "Since this watch last said anything.",
        {watch.name: watch.silent_s for watch in status.watches},
        "resource",
    )
