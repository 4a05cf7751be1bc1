"""Pods that wait for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.server.metrics.families import Family

Pending = Callable[[], Mapping[str, int]]
"""The number of waiting pods by reason."""


def nobody() -> Mapping[str, int]:
    """No known waiting pods."""
    return {}


class PendingMetrics(Collector):
    """Computed when scraped."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def collect(self) -> Iterable[Family]:
        family = GaugeMetricFamily(
            "gpu_extender_pending_pods",
            "Pods that ask a GPU and wait for a node, by the reason of the node nearest to a fit.",
            labels=["reason"],
        )
        for reason, count in sorted(self._pending().items()):
            family.add_metric([reason], count)
        yield family
