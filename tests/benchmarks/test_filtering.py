"""The figures of the benchmark of filter's two extremes."""

from __future__ import annotations

from benchmarks.filtering import figures


def test_figures_are_medians_over_rounds_so_that_one_bad_round_does_not_count() -> None:
    good = [1_000] * 98 + [5_000] * 2
    assert figures([good, [900_000] * 100, good]) == {"p50Us": 1.0, "p99Us": 5.0}
