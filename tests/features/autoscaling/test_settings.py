"""The settings of placeholders: their bounds, and messages for mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.configuring import check_bounds


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("autoscaler.placeholders.after", ("0s",), ("25h",)),
        ("autoscaler.placeholders.ttl", ("10s",), ("9s",)),
        ("autoscaler.placeholders.namespace", ("a-b",), ("A", "a.b")),
        ("autoscaler.placeholders.most", (50,), (0, 51)),
    ],
)
def test_every_key_has_its_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    check_bounds(key, accepted, refused)
