"""Connections that the server ended."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.server.http.cut_connections import CUT_CONNECTIONS
from scheduler_ext.server.metrics.families import Family


class ConnectionMetrics(Collector):
    """Counted by the transport, which does not use Prometheus."""

    def collect(self) -> Iterable[Family]:
        cut = CounterMetricFamily(
            "gpu_extender_connections_cut",
            "Connections ended by the server because of slow, refused or too many clients, by reason.",
            labels=["reason"],
        )
        for reason, count in CUT_CONNECTIONS.items():
            cut.add_metric([reason], count)
        yield cut
