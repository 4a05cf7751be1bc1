"""A broken watch: known objects stay, and it continues at its end, or everything is listed again."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

import pytest

from scheduler_ext.agent.reporter import REFRESH_S, REFRESH_SPREAD
from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.client.transport import SILENCE_S, Query, Transport
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import (
    AnswerFault,
    End,
    Line,
    Mute,
    Refuse,
    Reset,
    WatchFault,
    error_line,
)
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request, first_pages, watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import LISTED, Followed, eventually

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(End("connection"), "unreachable", id="a connection that ends"),
        pytest.param(Line(b'{"type":"MODIFIED","object":{\n'), "garbled", id="half an event"),
        pytest.param(error_line(500, "InternalError", "etcd"), "garbled", id="an error that is no 410"),
    ],
)
def test_a_watch_that_breaks_goes_on_where_it_ended(
    followed: Followed, fault: WatchFault, reason: str
) -> None:
    followed.start(*LISTED)
    followed.put("c")
    followed.heard.wait("seen c")
    followed.server.faults.place(fault)
    followed.put("d")
    followed.heard.wait("seen d")
    assert followed.lists() == 1
    assert followed.restarts(reason) == 1
    health = followed.reflector.health()
    assert (health.connected, health.problem) == (True, None)


def test_a_server_that_is_away_and_back_again(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    followed.start(*LISTED)
    with caplog.at_level(logging.INFO, logger=reflector_module.__name__):
        followed.server.stop()
        eventually(lambda: followed.restarts("unreachable") >= 3)
        health = followed.reflector.health()
        assert health.synced
        assert not health.connected
        assert "refused" in (health.problem or "")
        followed.put("c")
        followed.server.start()
        followed.heard.wait("seen c")
    assert followed.lists() == 1
    # Logged once, not at every try, and at the end.
    lost, found = (record.getMessage() for record in caplog.records)
    assert lost.startswith("watch of nodes lost, the last state stays in force: ")
    assert found == "watch of nodes restored"


@pytest.mark.parametrize("at_once", [False, True], ids=["as an event", "as an answer"])
def test_a_forgotten_position_is_listed_again(followed: Followed, at_once: bool) -> None:
    followed.start(*LISTED)
    refusal = followed.server.faults.place(Refuse(503), watches(NODES), times=None)
    followed.server.faults.place(End())
    followed.server.wait_for_watches(0)
    followed.put("c")
    followed.server.store.delete(NODES, "a")
    followed.server.store.compact()
    if at_once:
        followed.server.faults.place(Refuse(410, "Expired"), watches(NODES))
    refusal.lift()
    followed.heard.wait("begin", "seen b", "seen c", "end")
    assert followed.restarts("expired") == 1
    followed.watched()
    followed.put("d")
    followed.heard.wait("seen d")


def test_silence_is_a_lost_watch(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = transport.watch

    def impatient(path: str, query: Query, answer_s: float) -> Any:
        return watch(path, query, silence_s=0.15)

    monkeypatch.setattr(transport, "watch", impatient)
    followed = Followed(server, transport)
    followed.start("begin", "end")
    mute = server.faults.place(Mute(), times=1)
    followed.put("c")
    followed.heard.wait("seen c")
    assert followed.restarts("silent") >= 1
    assert followed.lists() == 1
    assert mute.hits == 1
    mute.lift()
    followed.reflector.stop()


class _Noted:
    """A Backoff that records its questions."""

    def __init__(self) -> None:
        self.asked: list[float | None] = []
        self.resets = 0

    def wait_s(self, retry_after_s: float | None = None) -> float:
        self.asked.append(retry_after_s)
        return 0.001

    def reset(self) -> None:
        self.resets += 1


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> _Noted:
    backoff = _Noted()
    monkeypatch.setattr(reflector_module, "Backoff", lambda: backoff)
    # On a busy machine, too, a watch may end as soon as it begins.
    monkeypatch.setattr(reflector_module, "_SHORT_S", 3600.0)
    return backoff


@pytest.mark.parametrize(
    ("fault", "resets"),
    [
        pytest.param(End(), 0, id="ends"),
        pytest.param(
            Refuse(410, "Expired"), 1, id="is expired: only the first time is an answer like others"
        ),
    ],
)
def test_a_watch_that_ends_as_soon_as_it_begins_is_waited_for(
    noted: _Noted, server: ApiServer, transport: Transport, fault: WatchFault | AnswerFault, resets: int
) -> None:
    server.faults.place(fault, watches(NODES), times=5)
    followed = Followed(server, transport)
    followed.reflector.start()
    eventually(lambda: len(noted.asked) == 5)
    assert noted.resets == resets
    followed.watched()
    followed.put("c")
    eventually(lambda: followed.heard.words[-1] == "seen c")
    assert noted.resets == resets + 1
    followed.reflector.stop()


def test_a_watch_that_ends_as_agreed_begins_again_at_once(
    noted: _Noted, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_module, "_SHORT_S", 0.0)
    followed.server.faults.place(End(), times=2)
    followed.reflector.start()
    followed.heard.wait(*LISTED)
    eventually(lambda: followed.restarts("ended") == 2)
    followed.watched()
    assert noted.asked == []


def test_an_error_of_our_own_is_put_right_by_a_list(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    followed.start(*LISTED)
    failed = threading.Event()

    def fail(word: str) -> None:
        if word == "seen c" and not failed.is_set():
            failed.set()
            raise ZeroDivisionError

    followed.heard.fail = fail
    followed.put("c")
    followed.heard.wait("begin", "seen a", "seen b", "seen c", "end")
    assert followed.restarts("error") == 1
    assert "unexpected error; listing again" in caplog.text


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
    followed: Followed, monkeypatch: pytest.MonkeyPatch, fault: Refuse | Reset
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
    assert -math.inf < c < listed.received_at < d < e
    assert e < followed.heard.clocks[-1].received_at


def test_a_silent_watch_is_missed_before_its_reports_are_stale() -> None:
    """A report may reach its permitted age when its watch falls silent."""
    stale_after_s, _ = Configuration().inventory_ages_s()
    assert stale_after_s > REFRESH_S * (1 + REFRESH_SPREAD) + SILENCE_S
    # Bookmarks come every minute, or a little later.
    assert SILENCE_S > 70
