"""A reflector's retries: what it continues, when it lists again, and the ages that it reports."""

from __future__ import annotations

import math

import pytest

from scheduler_ext.agent.reporter import REFRESH_S, REFRESH_SPREAD
from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.client.transport import SILENCE_S
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import Cut, End, Refuse, Reset, error_line
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request, first_pages, watches
from tests.cluster.following import LISTED, Followed, eventually

pytestmark = pytest.mark.usefixtures("impatient")


def later_pages(request: Request) -> bool:
    return bool(request.query.get("continue"))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(429, "TooManyRequests", "later"), id="a server with too much to do"),
        pytest.param(Reset(), id="a connection that is reset"),
    ],
)
def test_a_page_in_the_middle_is_asked_for_again(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, fault: Refuse | Reset | Cut
) -> None:
    monkeypatch.setattr(reflector_module, "PAGE", 1)
    followed.server.faults.place(fault, later_pages, times=3)
    followed.start(*LISTED)
    assert followed.server.log.count(first_pages(NODES)) == 1
    assert followed.lists() == 5
    assert followed.reflector.health().problem is None


@pytest.mark.parametrize(
    ("fault", "tries"),
    [
        pytest.param(Refuse(503), 6, id="one that fails again and again"),
        pytest.param(Refuse(403, "Forbidden"), 1, id="one that will not be given"),
        pytest.param(Refuse(410, "Expired"), 1, id="one that has expired"),
    ],
)
def test_other_pages_begin_the_list_again(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, fault: Refuse, tries: int
) -> None:
    monkeypatch.setattr(reflector_module, "PAGE", 1)
    followed.server.faults.place(fault, later_pages, times=tries)
    followed.start("begin", "seen a", *LISTED)
    assert followed.server.log.count(first_pages(NODES)) == 2
    assert followed.lists() == 2 + tries + 1


def test_an_object_kind_is_listed_after_three_unreadable_watches(followed: Followed) -> None:
    line = error_line(500, "InternalError", "cannot decode")
    followed.start(*LISTED)
    for times in (1, 2, 3):
        followed.server.faults.place(line, watches(NODES))
        eventually(lambda times=times: followed.restarts("garbled") == times)  # type: ignore[misc]
        followed.watched()
    followed.heard.wait(*LISTED)
    assert followed.lists() == 2
    # It counts from one again.
    followed.server.faults.place(line, watches(NODES))
    eventually(lambda: followed.restarts("garbled") == 4)
    followed.watched()
    assert followed.lists() == 2


def test_an_event_was_written_after_the_previous_one(followed: Followed) -> None:
    followed.start(*LISTED)
    (listed, *_) = followed.heard.clocks
    assert listed.not_before == -math.inf
    for name in "cd":
        followed.put(name)
        followed.heard.wait(f"seen {name}")
    # Across watches: the next one begins at the end of this one.
    followed.server.faults.place(End("connection"))
    eventually(lambda: followed.restarts("unreachable") == 1)
    followed.watched()
    followed.put("e")
    followed.heard.wait("seen e")
    c, d, e = (clock.not_before for clock in followed.heard.clocks[-3:])
    assert -math.inf < c < listed.heard_at < d < e
    assert e < followed.heard.clocks[-1].heard_at


def test_a_silent_watch_is_missed_before_its_reports_are_stale() -> None:
    """A report may reach its permitted age when its watch falls silent."""
    stale_after_s, _ = Configuration().inventory_ages_s()
    assert stale_after_s > REFRESH_S * (1 + REFRESH_SPREAD) + SILENCE_S
    # Bookmarks come every minute, or a little later.
    assert SILENCE_S > 70
