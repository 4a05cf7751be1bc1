"""Metrics with one sample, in one line each, and the escaping of all metrics text."""

from __future__ import annotations

import re

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Family = GaugeMetricFamily | CounterMetricFamily
# Characters that act on a terminal instead of being shown, in UTF-8: C0 without the line end, C1, and those
# that end a line, reverse its direction or have no width.
_CONTROL = re.compile(
    rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf"
)


def visible(text: bytes) -> bytes:
    """Exposition text with control characters of label values escaped as a backslash, which the format
    doubles, and their number.
    """
    return _CONTROL.sub(lambda found: f"\\\\x{ord(found[0].decode()):02x}".encode(), text)


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
