"""Waits between tries: longer each time, spread over clients, and as long as the server requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.cluster.client.retry import Backoff


def waits(chance: float, count: int) -> list[float]:
    backoff = Backoff(1.0, 8.0, lambda: chance)
    return [backoff.wait_s() for _ in range(count)]


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(1.0, [1, 2, 4, 8, 8, 8], id="doubled up to the most"),
        pytest.param(0.0, [0.5, 1, 2, 4, 4, 4], id="cut by a half at most"),
        pytest.param(0.5, [0.75, 1.5, 3, 6, 6, 6], id="cut by what chance says"),
    ],
)
def test_waits_grow(chance: float, expected: list[float]) -> None:
    assert waits(chance, 6) == expected


@pytest.mark.parametrize(
    ("asked_s", "expected"),
    [
        pytest.param(20.0, 25.0, id="what the server asks, and up to a fourth more"),
        pytest.param(0.1, 1.0, id="never less than without"),
        pytest.param(1e9, 375.0, id="an absurd wish is cut"),
    ],
)
def test_retry_after_is_obeyed(asked_s: float, expected: float) -> None:
    assert Backoff(1.0, 8.0, lambda: 1.0).wait_s(asked_s) == expected


@given(st.integers(1, 200), st.one_of(st.none(), st.floats(0, 1e6)))
def test_no_wait_is_zero_or_endless(failures: int, asked_s: float | None) -> None:
    backoff = Backoff()
    for _ in range(failures):
        wait_s = backoff.wait_s(asked_s)
    assert 0.25 <= wait_s <= 375
    assert asked_s is None or wait_s >= min(asked_s, 300)
