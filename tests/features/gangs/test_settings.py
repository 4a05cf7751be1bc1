"""The settings of nominations, gangs and the queue: their bounds, and messages for mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.configuring import check_bounds, refusal_of, with_key


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("nominate.ttl", ("5s",), ("4s",)),
        ("nominate.gangs.deadline", ("24h",), ("25h",)),
        ("nominate.gangs.keepFor", ("60s",), ("59s",)),
        ("nominate.gangs.onDeadline", ("hold",), ("wait",)),
        ("queue.runTimes", (100_000,), (100_001,)),
    ],
)
def test_every_key_has_its_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    check_bounds(key, accepted, refused)


def test_gangs_need_nominations() -> None:
    document = with_key("nominate", {"enabled": False, "gangs": {"enabled": True}})
    assert refusal_of(document) == "nominate.gangs.enabled: needs nominate.enabled: true"
