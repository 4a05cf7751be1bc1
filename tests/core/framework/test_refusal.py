"""Texts of refusals."""

from __future__ import annotations

import pytest

from scheduler_ext.core.framework.refusal import few


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(1, "m0", id="one"),
        pytest.param(8, "m0,m1,m2,m3,m4,m5,m6,m7", id="as many as are named"),
        pytest.param(1010, "m0,m1,m2,m3,m4,m5,m6,m7 and 1,002 more", id="more"),
    ],
)
def test_many_names_fit_in_a_line(count: int, text: str) -> None:
    assert few([f"m{i}" for i in range(count)]) == text
