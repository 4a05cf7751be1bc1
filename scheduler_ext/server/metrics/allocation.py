"""Promised GPUs by namespace, and reservations by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.node_usage import STATES, PodUsage, pod_usage
from scheduler_ext.views.per_node import PerNode

# The namespaces with a label value of their own: those with the largest requests. The name for all others is
# not a valid namespace.
MAX_NAMESPACES = 1000
OTHERS = "_others"
_BYTES_PER_MIB = 2**20


class AllocationMetrics(Collector):
    """Computed again only for nodes that changed."""

    def __init__(self, source: Watched) -> None:
        self._source = source
        self._usage = PerNode(lambda node: pod_usage(node.info))
        self._last: tuple[Snapshot | None, tuple[GaugeMetricFamily, ...]] = (None, ())

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self._source.snapshot
        if snapshot is None or self._last[0] is not snapshot:
            usage = self._usage.of(snapshot).values()
            self._last = snapshot, _families([each for each in usage if each is not None])
        return self._last[1]


def _families(usage: list[PodUsage]) -> tuple[GaugeMetricFamily, ...]:
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
