"""Promised GPUs by namespace, and reservations by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.families import Family
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.node_usage import STATES, PodUsage, pod_usage

# The namespaces with a label value of their own: those with the largest requests. The name for all others is
# not a valid namespace.
MAX_NAMESPACES = 1000
OTHERS = "_others"
_BYTES_PER_MIB = 2**20


class AllocationMetrics(Collector):
    """Computed again only for nodes that changed."""

    def __init__(self, source: Watched) -> None:
        self._source = source
        self._known: dict[str, tuple[NodeInfo, PodUsage | None]] = {}
        self._told: tuple[Snapshot | None, tuple[Family, ...]] = (None, ())

    def collect(self) -> Iterable[Family]:
        snapshot = self._source.snapshot
        if snapshot is None or self._told[0] is not snapshot:
            self._told = snapshot, _families(self._usage(snapshot))
        return self._told[1]

    def _usage(self, snapshot: Snapshot | None) -> list[PodUsage]:
        known = {}
        for name, node in snapshot.nodes.items() if snapshot is not None else ():
            before = self._known.get(name)
            same = before is not None and before[0] is node.info
            known[name] = before if same and before else (node.info, pod_usage(node.info))
        self._known = known
        return [usage for _, usage in known.values() if usage is not None]


def _families(usage: list[PodUsage]) -> tuple[Family, ...]:
    units: Counter[tuple[str, str]] = Counter()
    share_mib: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for each in usage:
        units.update(each.units)
        share_mib.update(each.share_mib)
        states.update(each.states)
    reservations = GaugeMetricFamily(
        "gpu_extender_reservations",
        "Pods that GPUs are promised to: Assumed (being bound), Confirmed, Nominated (not bound yet).",
        labels=["state"],
    )
    for state in STATES:
        reservations.add_metric([state], states[state])
    gpus = GaugeMetricFamily(
        "gpu_extender_namespace_requested_gpus",
        "Whole GPUs and MIG instances that pods on nodes ask.",
        labels=["namespace", "resource"],
    )
    memory = GaugeMetricFamily(
        "gpu_extender_namespace_requested_memory_bytes",
        "GPU memory that pods on nodes ask as shares.",
        labels=["namespace"],
    )
    kept = _largest(units, share_mib)
    by_resource: Counter[tuple[str, str]] = Counter()
    for (namespace, resource), count in units.items():
        by_resource[namespace if namespace in kept else OTHERS, resource] += count
    by_namespace: Counter[str] = Counter()
    for namespace, mib in share_mib.items():
        by_namespace[namespace if namespace in kept else OTHERS] += mib
    for key, count in sorted(by_resource.items()):
        gpus.add_metric(key, count)
    for namespace, mib in sorted(by_namespace.items()):
        memory.add_metric([namespace], mib * _BYTES_PER_MIB)
    return (reservations, gpus, memory)


def _largest(units: Counter[tuple[str, str]], share_mib: Counter[str]) -> set[str]:
    asked: Counter[str] = Counter()
    for (namespace, _), count in units.items():
        asked[namespace] += count
    names = asked.keys() | share_mib.keys()
    if len(names) <= MAX_NAMESPACES:
        return set(names)
    return set(sorted(names, key=lambda name: (-asked[name], -share_mib[name], name))[:MAX_NAMESPACES])
