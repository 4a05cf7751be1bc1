"""The settings of reclaim: their bounds, and messages for mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.configuring import check_bounds


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("idle.reclaim.minAge", ("1s",), ("0s",)),
        ("idle.reclaim.warnFor", ("168h",), ("8d",)),
        ("idle.reclaim.mode", ("evict",), ("Evict", False)),
        ("idle.reclaim.perHour", (1,), (0,)),
    ],
)
def test_every_key_has_its_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    check_bounds(key, accepted, refused)
