"""The metrics that are read at each scrape: gauges of the source, and the declared counters."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

# These declare counters, which have zero values even if nothing counts: an inventory file has no cluster.
import scheduler_ext.cluster.live
import scheduler_ext.extender.extender
import scheduler_ext.server.http.http_server  # noqa: F401
from scheduler_ext import counters
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.node.promisable import drift_mib
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.waiting import LongWait
from scheduler_ext.server.metrics.namespaces import OTHERS, named
from scheduler_ext.sources.source_status import SourceStatus, Watched
from scheduler_ext.views.fragmentation import fragmentation_by_model
from scheduler_ext.views.node_usage import STATES, PerNode, pod_usage

Family = GaugeMetricFamily | CounterMetricFamily
Pending = Callable[[], Mapping[str, int]]
"""The number of waiting pods by reason."""
Longest = Callable[[float], Sequence[LongWait]]
"""The pods that have waited longest, at a wall time in seconds."""
Workloads = Callable[[], Mapping[tuple[str, str, str], int]]
"""The number of waiting pods by namespace, kind and name of their workload."""
Replicas = Callable[[], Mapping[str, int]]
"""How many more pods of each counted template fit."""

Labelled = Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[tuple[str, str, str], float]

_BYTES_PER_MIB = 2**20


class SourceMetrics(Collector):
    """The inventory, its watches, promised GPUs and waiting pods, and every counter that a class declares.
    Values of nodes are computed again only for nodes that changed."""

    def __init__(
        self,
        source: Watched,
        resources: ResourceNames,
        pending: Pending,
        longest: Longest,
        workloads: Workloads,
        replicas: Replicas,
    ) -> None:
        self._source = source
        self._pending = pending
        self._longest = longest
        self._workloads = workloads
        self._replicas = replicas

        def drift(node: Node) -> int | None:
            shares = node.info.report is not None and node.info.share_node
            return drift_mib(node.info, resources) if shares else None

        self._drift = PerNode(drift)
        self._usage = PerNode(lambda node: pod_usage(node.info))
        self._of_snapshot: tuple[Snapshot, list[Family]] | None = None

    def collect(self) -> Iterator[Family]:
        snapshot, status = self._source.snapshot, self._source.status()
        if snapshot is None:
            yield from self._families(None)
        else:
            if self._of_snapshot is None or self._of_snapshot[0] is not snapshot:
                self._of_snapshot = snapshot, [*self._families(snapshot)]
            yield from self._of_snapshot[1]
        yield from _status(status)
        yield _gauge(
            "pending_pods",
            "Pods with a GPU request that wait for a node, by the reason of the node nearest to a fit, for "
            "500 pods and those that wait longest; others by the most frequent reason of the last request.",
            self._pending(),
            "reason",
        )
        yield _gauge(
            "waiting_pod_seconds",
            "Time since the creation of the pods that wait longest for GPUs, at least a minute; "
            "metrics.waitingPods of them.",
            {(each.namespace, each.name, each.reason): each.seconds for each in self._longest(time.time())},
            *("namespace", "pod", "reason"),
        )
        yield _gauge(
            "waiting_pods",
            "Pods with a GPU request that wait for a node, without those with scheduling gates, by the "
            "workload that made them (empty: nothing did). metrics.waitingPods workloads; the others are "
            "combined as _others.",
            self._workloads(),
            *("namespace", "owner_kind", "owner_name"),
        )
        yield _gauge(
            "schedulable_replicas",
            "How many more pods of a template in metrics.schedulableReplicas would fit now, with CPU and "
            "without memory. Counted every ten seconds if the cluster has changed.",
            self._replicas(),
            "workload",
        )
        for counter in counters.Counter.declared:
            family = CounterMetricFamily(counter.name, counter.what, labels=counter.labels)
            yield _filled(family, counter.total())

    def _families(self, snapshot: Snapshot | None) -> Iterator[Family]:
        states = {"Fresh": 0, "Stale": 0, "Missing": 0}
        kept = dict(states)
        for node in snapshot.nodes.values() if snapshot else ():
            info = node.info
            if info.report is not None or info.estimate is not None or info.freshness != "Fresh":
                states[info.freshness] += 1
                kept[info.freshness] += info.agent_label == "keeps away"
        yield _gauge(
            "inventory_nodes",
            "Nodes with GPUs by the state of their report: Fresh, Stale, Missing.",
            states,
            "state",
        )
        what = (
            "Those of the nodes with GPUs whose label gpu.scheduler-ext.io/agent keeps the agent away, by "
            "state. The alerts about reports leave them out."
        )
        yield _gauge("nodes_kept_from_agent", what, kept, "state")
        counted = sum(node.info.takes_unreported for node in snapshot.nodes.values()) if snapshot else 0
        yield _gauge(
            "nodes_by_allocatable",
            "Nodes without a fresh report that take whole GPUs and MIG instances by their allocatable; 0 "
            "unless inventory.unreported is allow.",
            counted,
        )
        generation, kinds = 0, 0
        if snapshot is not None:
            generation, kinds = snapshot.generation, len(snapshot.forecast.workload.parts)
        yield _gauge("snapshot_generation", "Number of changes of the inventory.", generation)
        yield _gauge(
            "forecast_classes",
            (
                "Kinds of pods in the demand forecast, 1,250 at most; 0 before the first pod with a GPU "
                "request."
            ),
            kinds,
        )
        yield _gauge(
            "ledger_drift_mib",
            "GPU memory that pods on nodes of shares use beyond their shares, as agents see it, by GPU and, "
            "where an agent sees processes, by pod.",
            {node: mib for node, mib in self._drift.of(snapshot).items() if mib is not None},
            "node",
        )
        yield from _fragmentation(snapshot)
        yield from self._allocation(snapshot)

    def _allocation(self, snapshot: Snapshot | None) -> Iterator[Family]:
        units: Counter[tuple[str, str]] = Counter()
        share_mib: Counter[str] = Counter()
        states: Counter[str] = Counter(dict.fromkeys(STATES, 0))
        for usage in filter(None, self._usage.of(snapshot).values()):
            units.update(usage.units)
            share_mib.update(usage.share_mib)
            states.update(usage.states)
        asked: Counter[str] = Counter()
        for (namespace, _), count in units.items():
            asked[namespace] += count
        largest = sorted(asked.keys() | share_mib, key=lambda name: (-asked[name], -share_mib[name], name))
        kept = named(largest)
        gpus: Counter[tuple[str, str]] = Counter()
        for (namespace, resource), count in units.items():
            gpus[kept.get(namespace, OTHERS), resource] += count
        memory: Counter[str] = Counter()
        for namespace, mib in share_mib.items():
            memory[kept.get(namespace, OTHERS)] += mib * _BYTES_PER_MIB
        yield _gauge(
            "reservations",
            "Pods with promised GPUs: Assumed (being bound), Confirmed (on their node), Nominated (waiting "
            "for victims to leave).",
            states,
            "state",
        )
        whole = (
            "Requested whole GPUs and MIG instances of pods on nodes; of ResourceClaims, the devices that "
            "they hold, under deviceclass.resource.kubernetes.io/CLASS."
        )
        yield _gauge("namespace_requested_gpus", whole, gpus, "namespace", "resource")
        shares = (
            "Requested GPU memory shares of pods on nodes. Beyond 1,000 namespaces the smallest are "
            "combined as _others."
        )
        yield _gauge("namespace_requested_memory_bytes", shares, memory, "namespace")


def _fragmentation(snapshot: Snapshot | None) -> Iterator[Family]:
    by_model = fragmentation_by_model(snapshot) if snapshot is not None else {}
    idle = sum(idle for idle, _ in by_model.values())
    unusable = sum(lost for _, lost in by_model.values())
    yield _gauge(
        "gpus_unallocated",
        "GPUs and parts of GPUs without a holder: healthy ones without MIG, time-slicing and MPS. A node "
        "with several models counts by the model of its first GPU.",
        {model: idle for model, (idle, _) in by_model.items()},
        "modelName",
    )
    yield _gauge(
        "gpus_unusable",
        "The part of the unallocated GPUs that future pods cannot use, weighted by the frequency of such "
        "pods: too small, without CPU, too few GPUs together.",
        {model: lost for model, (_, lost) in by_model.items()},
        "modelName",
    )
    yield _gauge(
        "fragmentation_ratio",
        "The part of the unallocated GPUs that future pods cannot use; 0 if none are unallocated.",
        unusable / idle if idle else 0.0,
    )


def _status(status: SourceStatus) -> Iterator[Family]:
    yield _gauge(
        "inventory_age_seconds",
        "Time since the inventory file was read or found unchanged; for a cluster, since the last event of "
        "the quietest watch.",
        status.age_s,
    )
    broken = "1 while a changed inventory file is refused and the old one is served."
    yield _gauge("inventory_broken", broken, status.broken)
    yield _gauge("active", "1 where this extender may write to the cluster.", status.active)
    ready = all(check.passed for check in status.checks)
    yield _gauge("ready", "1 while this extender passes its readiness checks.", ready)
    oldest_s = max(status.report_ages_s.values(), default=0.0)
    yield _gauge("report_age_seconds_max", "The age of the oldest report of a node.", oldest_s)
    yield _gauge(
        "forecast_age_seconds",
        "Time since the demand forecast was made; an old forecast is right while requests stay the same.",
        status.forecast_age_s,
    )
    unplaced = (
        "Pods with a share on an unknown GPU, because another scheduler bound them or their GPU is no "
        "longer in the node's report: their node takes no new share."
    )
    yield _gauge("unplaced_share_pods", unplaced, status.unplaced, "node")
    connected = {watch.name: watch.connected for watch in status.watches}
    yield _gauge(
        "watch_connected",
        "1 while the list of this watch is complete and the API server answers it.",
        connected,
        "resource",
    )
    silent_s = {watch.name: watch.silent_s for watch in status.watches}
    yield _gauge("watch_silence_seconds", "Time since the last event of this watch.", silent_s, "resource")


def _gauge(name: str, what: str, values: float | Labelled, *labels: str) -> Family:
    """A gauge with one value, or with values by its labels."""
    family = GaugeMetricFamily(f"gpu_extender_{name}", what, labels=labels)
    return _filled(family, values if isinstance(values, Mapping) else {(): values})


def _filled(family: Family, values: Mapping[Any, float]) -> Family:
    for labels, value in sorted(values.items()):
        family.add_metric([labels] if isinstance(labels, str) else labels, value)
    return family
