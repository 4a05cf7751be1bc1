"""How often Events about gangs are written."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.live.gang_events import GangEvents
from tests.features.gangs.live.test_gang_calls import Pod

GANG = GangKey("ml", "gang", "train")
PODS = [Pod("uid-a", "ml", "a")]


class Said:
    """The Events about one gang, in the time that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.notes: list[Any] = []
        self.events = GangEvents(lambda make: self.notes.append(make()["note"]), lambda: self.now)

    def waits(self, reason: str, after_s: float = 0.0) -> None:
        self.now += after_s
        self.events.waiting(GANG, PODS, reason)


def test_the_same_event_is_written_once_in_ten_minutes() -> None:
    said = Said()
    for _ in range(100):
        said.waits("1 short", after_s=10.0)
    assert len(said.notes) == 2


def test_a_reason_that_changes_in_each_step_is_written_ever_more_seldom() -> None:
    said = Said()
    for second in range(3600):
        said.waits(f"{second} short", after_s=1.0)
    assert len(said.notes) <= 20


def test_each_eviction_is_written() -> None:
    said = Said()
    for number in range(5):
        said.events.evicted(GANG, PODS, f"eviction {number}")
    assert len(said.notes) == 5
