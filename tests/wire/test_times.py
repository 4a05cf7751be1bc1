"""Times of Kubernetes' API, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.wire.times import micro_time, seconds, time_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1970-01-01T00:01:00Z", 60.0, id="a Time"),
        pytest.param("1970-01-01T00:01:00.250000Z", 60.25, id="a MicroTime"),
        pytest.param("1970-01-01T00:01:00.123456789Z", 60.123456, id="nanoseconds are cut"),
        pytest.param("1970-01-01T01:01:00+01:00", 60.0, id="of another zone"),
        pytest.param("0001-01-01T00:00:00Z", -62135596800.0, id="Go's zero time"),
        pytest.param("9999-12-31T23:59:59-12:00", None, id="after the last year that can be written"),
        pytest.param("9999-12-31T23:59:59.999999Z", None, id="the last moment, which is rounded up"),
        pytest.param("0001-01-01T00:00:00+12:00", None, id="before the first year"),
        pytest.param("1970-01-01T00:01:00", None, id="of no zone"),
        pytest.param("1970-01-01", None, id="a date"),
        pytest.param("soon", None, id="a word"),
        pytest.param(None, None, id="null"),
    ],
)
def test_seconds(text: str | None, expected: float | None) -> None:
    assert seconds(text) == expected


def test_both_forms_are_written_as_kubernetes_does() -> None:
    assert time_text(1_800_000_000.9) == "2027-01-15T08:00:00Z"
    assert micro_time(1_800_000_000.9) == "2027-01-15T08:00:00.900000Z"


@given(st.integers(0, 4_000_000_000))
def test_a_written_file_is_read(at: int) -> None:
    assert seconds(time_text(at)) == seconds(micro_time(at)) == at
