"""Metrics of one sample, in one line each."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Family = GaugeMetricFamily | CounterMetricFamily


def gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    family = GaugeMetricFamily(name, what)
    family.add_metric([], value)
    return family


def counter(name: str, what: str, value: float) -> CounterMetricFamily:
    """A counter without labels; the name is without ``_total``."""
    family = CounterMetricFamily(name, what)
    family.add_metric([], value)
    return family
