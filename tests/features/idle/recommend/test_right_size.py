"""Laws of the bounds of a recommendation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.features.idle.recommend.right_size import STEP_MIB, bounds

peaks = st.integers(0, 200_000)
times = st.floats(0, 400 * 86400.0)


@given(peaks, times, st.integers(0, 200_000))
def test_bounds_are_in_order_and_hold_the_peak_and_the_margin(peak: int, seen_s: float, least: int) -> None:
    found = bounds(peak, seen_s, least, None)
    assert peak <= found.lower <= found.target <= found.upper
    assert found.target >= max(1.15 * peak - 1e-6, least)
    # Rounded up once, and no further.
    assert found.target - max(1.15 * peak, least, 1) < STEP_MIB
    assert all(each % STEP_MIB == 0 for each in found)


@given(peaks, times)
def test_a_longer_time_narrows_the_upper_bound(peak: int, seen_s: float) -> None:
    assert bounds(peak, 2 * seen_s, 0, None).upper <= bounds(peak, seen_s, 0, None).upper


@given(peaks, times, st.integers(0, 200_000), st.integers(1, 200_000))
def test_nothing_but_the_uncapped_target_exceeds_the_largest_gpu(
    peak: int, seen_s: float, least: int, most: int
) -> None:
    found, free = bounds(peak, seen_s, least, most), bounds(peak, seen_s, least, None)
    assert max(found[:3]) <= most
    assert found.uncapped == free.uncapped
