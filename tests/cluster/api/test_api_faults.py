"""The faults of the tests' API server: each does what its name says, to its targets, and ends."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
import urllib3

from tests.cluster.api.api_client import Client
from tests.cluster.api.api_faults import (
    After,
    AnswerFault,
    Cut,
    Delay,
    Drip,
    End,
    Garbage,
    Hang,
    Mute,
    Refuse,
    Reset,
    error_line,
    huge_line,
    malformed_line,
)
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request, lists, watches
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import node


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        running.store.put_all(NODES, [node(f"n{number}") for number in range(20)])
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    asking = Client(server.url)
    yield asking
    asking.close()


def now(server: ApiServer) -> str:
    return str(server.store.version)


def test_a_fault_meets_so_many_requests_that_match(server: ApiServer, client: Client) -> None:
    placed = server.faults.place(Refuse(429, "TooManyRequests", retry_after_s=3), lists(NODES), times=2)
    assert client.ask("GET", PODS).status == 200
    refused = client.ask("GET", NODES)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
    assert refused.json()["reason"] == "TooManyRequests"
    assert [client.ask("GET", NODES).status for _ in range(2)] == [429, 200]
    assert placed.hits == 2


def test_a_fault_without_a_number_lasts_until_it_is_lifted(server: ApiServer, client: Client) -> None:
    placed = server.faults.place(Refuse(503), times=None)
    assert {client.ask("GET", NODES).status for _ in range(3)} == {503}
    placed.lift()
    assert client.ask("GET", NODES).status == 200


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        pytest.param(Reset(), "Connection reset", id="a reset connection"),
        pytest.param(Garbage(), "BadStatusLine|Connection aborted", id="bytes that are no HTTP"),
        pytest.param(Cut(3000), "IncompleteRead", id="a page that ends in the middle"),
        pytest.param(Cut(3000, reset=True), "reset|IncompleteRead", id="a page that is reset in the middle"),
    ],
)
def test_an_answer_that_breaks(server: ApiServer, client: Client, fault: AnswerFault, problem: str) -> None:
    server.faults.place(fault)
    with pytest.raises(urllib3.exceptions.HTTPError, match=problem):
        client.ask("GET", NODES)
    assert len(client.list(NODES)["items"]) == 20


def test_a_cut_page_has_the_bytes_that_were_asked_for(server: ApiServer) -> None:
    server.faults.place(Cut(100))
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"GET {NODES} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert len(received.partition(b"\r\n\r\n")[2]) == 100


def test_a_request_that_hangs_is_answered_once_the_fault_is_lifted(server: ApiServer, client: Client) -> None:
    placed = server.faults.place(Hang())
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(client.ask("GET", NODES).status))
    asking.start()
    server.log.wait_for(lists(NODES))
    # Another connection is answered meanwhile.
    assert client.ask("GET", PODS).status == 200
    assert found == []
    placed.lift()
    asking.join(60)
    assert found == [200]


@pytest.mark.parametrize(
    "fault", [pytest.param(Reset(), id="a reset"), pytest.param(Garbage(), id="bytes that are no HTTP")]
)
def test_a_call_is_done_though_its_answer_is_lost(
    server: ApiServer, client: Client, fault: Reset | Garbage
) -> None:
    server.faults.place(After(fault))
    with pytest.raises(urllib3.exceptions.HTTPError):
        client.ask("DELETE", f"{NODES}/n1")
    assert client.ask("DELETE", f"{NODES}/n1").status == 404
    server.faults.place(After(Refuse(500)))
    assert client.ask("DELETE", f"{NODES}/n2").status == 500
    assert client.ask("DELETE", f"{NODES}/n2").status == 404


def test_a_request_is_done_though_its_caller_gave_up(server: ApiServer) -> None:
    server.faults.place(Delay(0.1))
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"DELETE {NODES}/n1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        server.log.wait_for()
    assert len(server.store.collection(NODES)) == 20
    eventually(lambda: len(server.store.collection(NODES)) == 19)


def test_an_answer_in_drips_is_the_same_answer(server: ApiServer, client: Client) -> None:
    whole = client.list(NODES)
    server.faults.place(Drip(piece_bytes=1000, pause_s=0.001))
    assert client.list(NODES) == whole


def test_lines_that_are_wrong_stand_before_those_that_are_right(server: ApiServer, client: Client) -> None:
    with client.watch(NODES, resourceVersion=now(server)) as lines:
        server.wait_for_watches(1)
        server.faults.place(malformed_line(), watches(NODES))
        server.faults.place(huge_line())
        server.store.put(NODES, node("after"))
        with pytest.raises(json.JSONDecodeError):
            lines.event()
        assert len(lines.raw()) > 10 << 20
        assert lines.short() == ["ADDED after"]


def test_an_error_ends_a_running_watch(server: ApiServer, client: Client) -> None:
    with client.watch(NODES, resourceVersion=now(server)) as lines:
        server.wait_for_watches(1)
        server.faults.place(error_line(410))
        server.faults.place(End())
        assert lines.short() == ["ERROR 410"]
        with pytest.raises(EOFError):
            lines.raw()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        pytest.param("connection", "InvalidChunkLength|IncompleteRead|ended prematurely", id="by its end"),
        pytest.param("reset", "reset", id="by a reset"),
    ],
)
def test_the_connection_of_a_watch_ends(server: ApiServer, client: Client, how: str, problem: str) -> None:
    with client.watch(NODES, resourceVersion=now(server)) as lines:
        server.wait_for_watches(1)
        server.faults.place(End(how))
        with pytest.raises(urllib3.exceptions.HTTPError, match=problem):
            lines.raw()
    server.wait_for_watches(0)


def test_a_watch_is_cut_in_the_middle_of_a_line(server: ApiServer, client: Client) -> None:
    server.faults.place(Cut(200), watches())
    with (
        client.watch(NODES, resourceVersion="0") as lines,
        pytest.raises(urllib3.exceptions.HTTPError, match="IncompleteRead"),
    ):
        lines.raw()


def test_a_mute_watch_stays_and_sends_nothing_not_even_its_end(server: ApiServer, client: Client) -> None:
    def is_mute(request: Request) -> bool:
        return request.query.get("which") == "mute"

    placed = server.faults.place(Mute(), is_mute)
    asked = {"resourceVersion": now(server), "timeoutSeconds": "0.01"}
    with client.watch(NODES, which="mute", **asked) as mute:
        server.store.put(NODES, node("new"))
        # Another watch of the same kind receives the event, and ends.
        with client.watch(NODES, timeoutSeconds="0.01", resourceVersion="0") as other:
            assert other.short(21)[-1] == "ADDED new"
            with pytest.raises(EOFError):
                other.raw()
        assert server.watching(is_mute) == 1
        placed.lift()
        # An earlier line would come first.
        with pytest.raises(EOFError):
            mute.raw()


def test_a_watch_that_was_mute_goes_on_when_the_fault_is_lifted(server: ApiServer, client: Client) -> None:
    with client.watch(NODES, resourceVersion=now(server)) as lines:
        server.store.put(NODES, node("before"))
        assert lines.short() == ["ADDED before"]
        placed = server.faults.place(Mute())
        server.store.put(NODES, node("meanwhile"))
        placed.lift()
        assert lines.short() == ["ADDED meanwhile"]


def test_a_server_goes_away_and_comes_back_with_its_objects(server: ApiServer, client: Client) -> None:
    before = client.list(NODES)
    server.faults.place(Mute(), watches(PODS))
    url = server.url
    with (
        client.watch(NODES, resourceVersion=now(server)) as lines,
        client.watch(PODS, resourceVersion=now(server)) as mute,
    ):
        server.wait_for_watches(2)
        server.stop()
        for watched in (lines, mute):
            with pytest.raises(urllib3.exceptions.HTTPError):
                watched.raw()
    with pytest.raises(urllib3.exceptions.HTTPError):
        client.ask("GET", NODES)
    server.start()
    assert server.url == url
    assert client.list(NODES) == before
    assert server.watching() == 0


def test_a_fault_that_makes_no_sense_is_refused(server: ApiServer) -> None:
    with pytest.raises(ValueError, match="how a watch ends"):
        End("gently")
    with pytest.raises(ValueError, match="a number of times"):
        server.faults.place(malformed_line(), times=None)
