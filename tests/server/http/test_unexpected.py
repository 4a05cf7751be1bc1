"""Unexpected errors are logged once with a traceback and counted, and the client sees a clear end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from scheduler_ext.server.http.connection import Connection
from scheduler_ext.server.http.http_server import HttpServer
from scheduler_ext.server.http.listeners import listen
from tests.server.http.in_process import running
from tests.server.process.server_process import call, connect, eventually, read_reply, read_to_end, request

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse


class Faulty(socket.socket):
    """A socket whose second write fails with an error that sockets do not raise."""

    sends = 0

    def sendmsg(self, *_: Any) -> int:
        Faulty.sends += 1
        if Faulty.sends == 2:
            raise RuntimeError("the second piece")
        return self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")


class FaultyListener(socket.socket):
    def accept(self) -> tuple[socket.socket, Any]:
        sock, peer = super().accept()
        return Faulty(fileno=sock.detach()), peer


def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    match environ["PATH_INFO"]:
        case "/raises":
            raise RuntimeError("before the reply")
        case "/exits":
            raise SystemExit("leaving")
        case "/misses-a-file":
            # An OSError, as errors of the client's connection are.
            raise FileNotFoundError("nothing there")
        case "/breaks":
            start_response("200 OK", [("Content-Length", "9")])
            return breaking()
        case "/never-starts":
            return [b"x"]
    start_response("200 OK", [("Content-Length", "1000")])
    return [b"x" * 1000]


def breaking() -> Iterator[bytes]:
    yield b"one"
    raise ValueError("after the first piece")


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with running(app) as found:
        yield found.address


def errors() -> int:
    return int(vars(HttpServer)["cut"].total()["error"])


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        pytest.param("/raises", "before the reply", id="an application that raises"),
        pytest.param("/exits", "leaving", id="an application that leaves the process"),
        pytest.param(
            "/misses-a-file",
            "nothing there",
            id="an application whose error looks like that of a closed connection",
        ),
        pytest.param("/breaks", "after the first piece", id="an application that fails within its reply"),
        pytest.param("/never-starts", "", id="an application that never starts its response"),
    ],
)
def test_an_application_that_fails_is_a_500(
    address: tuple[str, int], path: str, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = errors()
    with connect(address) as sock:
        reply = call(sock, request(path, b"body"))
        assert (reply.status, reply.headers["connection"]) == (500, "close")
        assert reply.json() == {"error": "internal error; the log has the details"}
        sock.shutdown(socket.SHUT_WR)
        assert read_to_end(sock) == b""
    assert_logged_once(caplog, f"the application failed on POST {path}", cause)
    assert errors() == before + 1
    with connect(address) as sock:
        assert call(sock, request("/well")).status == 200


def test_an_unexpected_error_while_sending_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    before, Faulty.sends = errors(), 0
    plain = listen("the API", ("127.0.0.1", 0))
    faulty = FaultyListener(fileno=plain.detach())
    with running(app, listener=faulty) as server, connect(server.address) as sock:
        sock.sendall(request("/well"))
        with pytest.raises(ConnectionError):
            read_reply(sock)
        eventually(lambda: errors() == before + 1)
    assert_logged_once(caplog, "connection from 127.0.0.1 given up", "the second piece")


def test_an_error_on_one_connection_leaves_the_others(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = errors()

    def failing(*_: Any) -> None:
        raise RuntimeError("in the loop")

    with connect(address) as broken, monkeypatch.context() as patch:
        patch.setattr(Connection, "_body", failing)
        # A request that arrives whole would not reach it.
        broken.sendall(request("/well", b"body")[:-1])
        assert read_to_end(broken) == b""
    assert_logged_once(caplog, "connection from 127.0.0.1 given up", "in the loop")
    assert errors() == before + 1
    with connect(address) as sock:
        assert call(sock, request("/well")).status == 200


def assert_logged_once(caplog: pytest.LogCaptureFixture, message: str, cause: str) -> None:
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.getMessage() == message
    assert record.exc_info is not None
    assert cause in str(record.exc_info[1])
    assert record.exc_info[2] is not None
