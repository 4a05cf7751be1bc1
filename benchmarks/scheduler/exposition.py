"""Values from a process's /metrics, and the difference between two readings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observed seconds: their sum, their number, and (upper bound, how many at most that), ascending."""

    sum_s: float
    count: float
    buckets: tuple[tuple[float, float], ...]

    def since(self, earlier: Histogram) -> Histogram:
        """The observations after `earlier`, a reading of the same process."""
        then = dict(earlier.buckets)
        return Histogram(
            self.sum_s - earlier.sum_s,
            self.count - earlier.count,
            tuple((bound, number - then.get(bound, 0.0)) for bound, number in self.buckets),
        )

    @property
    def mean_ms(self) -> float | None:
        """None if nothing was observed."""
        return 1000 * self.sum_s / self.count if self.count else None

    def quantile_ms(self, quantile: float) -> float | None:
        """An estimate like Prometheus' histogram_quantile: linear within the bucket.

        None if nothing was observed, or if it lies beyond the last finite bound.
        """
        rank = quantile * self.count
        lower, below = 0.0, 0.0
        for bound, number in self.buckets:
            if number >= rank and number > below:
                if math.isinf(bound):
                    return None
                return 1000 * (lower + (bound - lower) * (rank - below) / (number - below))
            lower, below = bound, number
        return None


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All observations together; histograms with any observation have the same bounds."""
    sum_s, count = 0.0, 0.0
    buckets: dict[float, float] = {}
    for each in histograms:
        sum_s, count = sum_s + each.sum_s, count + each.count
        for bound, number in each.buckets:
            buckets[bound] = buckets.get(bound, 0.0) + number
    return Histogram(sum_s, count, tuple(sorted(buckets.items())))


class Exposition:
    """The samples of one reading, by name and any labels; unnamed labels are summed over."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[Sample]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples.setdefault(sample.name, []).append(sample)

    def total(self, name: str, **labels: str) -> float:
        """A counter's or gauge's value; 0 if there is no such series, as before its first event."""
        return sum(sample.value for sample in self._matching(name, labels))

    def by(self, name: str, label: str) -> dict[str, float]:
        """The same by the values of one label."""
        totals: dict[str, float] = {}
        for sample in self._matching(name, {}):
            value = sample.labels.get(label, "")
            totals[value] = totals.get(value, 0.0) + sample.value
        return totals

    def histogram(self, name: str, **labels: str) -> Histogram:
        """A histogram of seconds."""
        buckets: dict[float, float] = {}
        for sample in self._matching(f"{name}_bucket", labels):
            bound = float(sample.labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + sample.value
        return Histogram(
            self.total(f"{name}_sum", **labels),
            self.total(f"{name}_count", **labels),
            tuple(sorted(buckets.items())),
        )

    def _matching(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        for sample in self._samples.get(name, ()):
            if labels.items() <= sample.labels.items():
                yield sample
