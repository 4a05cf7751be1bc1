"""A followed kind of object: every event arrives once, in order, through any fault."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.client.transport import Query, Stream, Transport
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.wire.kube import NodeObject
from scheduler_ext.wire.watching import Decoder
from tests.cluster.api.api_faults import (
    End,
    Line,
    Mute,
)
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request, lists, watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import LISTED, Followed, Heard, eventually
from tests.kube_objects import node, pod

pytestmark = pytest.mark.usefixtures("impatient")


def test_a_list_then_every_change_in_order(followed: Followed) -> None:
    assert not followed.reflector.synced.is_set()
    version = followed.server.store.version
    followed.start(*LISTED)
    assert followed.reflector.synced.is_set()
    followed.put("c")
    followed.put("a", labels={"x": "y"})
    followed.server.store.delete(NODES, "b")
    followed.heard.wait("seen c", "seen a", "gone b")
    (watch,) = followed.server.log.all(watches(NODES))
    assert watch.query["resourceVersion"] == str(version)
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch.query["timeoutSeconds"]) <= 480
    health = followed.reflector.health()
    assert (health.name, health.synced, health.connected, health.problem) == ("nodes", True, True, None)
    assert followed.reflector.restarts == {}


def test_a_watch_is_connected_once_its_list_is_complete(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where everything is listed again: the pages so far are not the inventory."""
    monkeypatch.setattr(reflector_module, "PAGE", 1)
    during: list[bool] = []

    def hook(request: Request) -> Answer | None:
        if request.query.get("continue"):
            during.append(followed.reflector.health().connected)
        return None

    followed.server.hook = hook
    followed.start(*LISTED)
    assert followed.reflector.health().connected
    followed.reflector.relist()
    followed.heard.wait(*LISTED)
    eventually(lambda: followed.reflector.health().connected)
    assert during == [False, False]
    assert followed.reflector.restarts.total() == 0, "we ended that watch ourselves"


def test_a_large_list_comes_in_pages(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_module, "PAGE", 3)
    followed.server.store.put_all(NODES, [node(f"n{number}") for number in range(5)])
    followed.start("begin", *(f"seen {name}" for name in ("a", "b", "n0", "n1", "n2", "n3", "n4")), "end")
    pages = followed.server.log.all(lists(NODES))
    assert [page.query["limit"] for page in pages] == ["3", "3", "3"]
    assert [bool(page.query.get("continue")) for page in pages] == [False, True, True]


def test_selected_objects_are_selected_in_lists_and_watches(server: ApiServer, transport: Transport) -> None:
    server.store.put_all(PODS, [pod("done", phase="Succeeded"), pod("runs", on="a")])
    heard = Heard()
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    reflector = Reflector("pods", transport, PODS, Decoder(NodeObject), heard, fieldSelector=selector)
    reflector.start()
    heard.wait("begin", "seen runs", "end")
    server.wait_for_watches(1)
    server.store.put(PODS, pod("runs", on="a", phase="Failed"))
    heard.wait("gone runs")
    reflector.stop()


def test_every_word_comes_with_the_servers_time(followed: Followed) -> None:
    followed.server.clock = lambda: 1_800_000_000.0
    followed.start(*LISTED)
    followed.put("c")
    followed.heard.wait("seen c")
    assert {clock.server_time for clock in followed.heard.clocks} == {1_800_000_000.0}


def test_a_bookmark_is_where_the_next_watch_begins(followed: Followed) -> None:
    followed.start(*LISTED)
    # Changes of other objects move the cluster's version, which only bookmarks carry.
    followed.server.store.put_all(PODS, [pod("p"), pod("q")])
    followed.server.store.bookmark(NODES)
    version = followed.server.store.version
    eventually(lambda: followed.reflector._version == str(version))
    followed.server.faults.place(End())
    again = followed.server.log.wait_for(watches(NODES), 2)[1]
    assert again.query["resourceVersion"] == str(version)
    assert followed.lists() == 1
    assert followed.heard.words == []


BROKEN = b'{"type":"%s","object":{"metadata":{"name":"b","uid":"u","resourceVersion":"99"},"spec":7}}\n'


@pytest.mark.parametrize(
    ("kind", "word"), [(b"MODIFIED", "broken b"), (b"DELETED", "gone b")], ids=["changed", "deleted"]
)
def test_an_unreadable_object_is_reported_by_its_name(followed: Followed, kind: bytes, word: str) -> None:
    followed.start(*LISTED)
    followed.server.faults.place(Line(BROKEN % kind))
    followed.heard.wait(word)
    # The event counts as received: it is not requested again.
    assert followed.reflector._version == "99"
    assert followed.lists() == 1


class TestStopping:
    def test_a_watch_that_says_nothing_ends_at_once(self, followed: Followed) -> None:
        followed.server.faults.place(Mute(), times=None)
        followed.start(*LISTED)
        followed.reflector.stop(30)
        assert not followed.reflector.is_alive
        assert followed.reflector.restarts == {}

    def test_a_watch_that_begins_during_the_stop_ends(
        self, followed: Followed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watch = followed.reflector._transport.watch

        @contextmanager
        def stopped_meanwhile(path: str, query: Query, **limits: float) -> Iterator[Stream]:
            with watch(path, query, **limits) as stream:
                stopping = threading.Thread(target=followed.reflector.stop, args=(0.0,))
                stopping.start()
                stopping.join()
                yield stream

        monkeypatch.setattr(followed.reflector._transport, "watch", stopped_meanwhile)
        followed.reflector.start()
        followed.reflector.join(60)
        assert not followed.reflector.is_alive
