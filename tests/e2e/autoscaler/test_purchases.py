"""The bound against which purchases are counted."""

from __future__ import annotations

import pytest

from tests.e2e.autoscaler.purchases import fewest_bins


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param((), 0, id="nothing needs nothing"),
        pytest.param((5, 5, 5, 5), 2, id="as many as the sum needs"),
        pytest.param((6, 6, 6), 3, id="more than the sum needs"),
        pytest.param((2, 4, 6, 8), 2, id="large and small together"),
        # First fit, largest first, needs a third bin.
        pytest.param((4, 4, 3, 3, 3, 3), 2, id="fewer than the largest first need"),
    ],
)
def test_the_fewest_bins_of_ten(sizes: tuple[int, ...], expected: int) -> None:
    assert fewest_bins(sizes, 10) == expected
