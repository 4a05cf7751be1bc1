"""State of the API server's watches."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.server.metrics.families import Family
from scheduler_ext.sources.source_status import Watched


class WatchMetrics(Collector):
    """One series for each kind of followed object."""

    def __init__(self, source: Watched) -> None:
        self._source = source

    def collect(self) -> Iterable[Family]:
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
        for watch in self._source.status().watches:
            connected.add_metric([watch.name], float(watch.connected))
            silence.add_metric([watch.name], watch.silent_s)
            for reason, count in sorted(watch.restarts.items()):
                restarts.add_metric([watch.name, reason], count)
        return (connected, silence, restarts)
