"""Undocumented parts of gunicorn that the server uses: a version that changes them fails here first."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.workers.base import Worker

from scheduler_ext.server.http.exchange import CollectedReply
from scheduler_ext.server.server_options import Apps, ServerOptions
from scheduler_ext.server.worker import ExtenderApplication, settings

OPTIONS = ServerOptions(("127.0.0.1", 0), ("127.0.0.1", 0), ("127.0.0.1", 0))


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Worker.__init__, ["self", "age", "ppid", "sockets", "app", "timeout", "cfg", "log"]),
        (Worker.init_signals, ["self"]),
        (Worker.load_wsgi, ["self"]),
        (Worker.run, ["self"]),
        (Worker.notify, ["self"]),
        (Worker.handle_exit, ["self", "sig", "frame"]),
        (Arbiter.__init__, ["self", "app"]),
        (Arbiter.run, ["self"]),
        (Arbiter.signal, ["self", "sig", "frame"]),
        (Arbiter.handle_hup, ["self"]),
        (Arbiter.handle_ttin, ["self"]),
        (Arbiter.handle_ttou, ["self"]),
        (Arbiter.handle_usr1, ["self"]),
        (Arbiter.handle_usr2, ["self"]),
        (Arbiter.handle_winch, ["self"]),
        (Logger.setup, ["self", "cfg"]),
        (Request.__init__, ["self", "cfg", "unreader", "peer_addr", "req_number"]),
        (wsgi.create, ["req", "sock", "client", "server", "cfg", "response_class", "response_args"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_signatures_are_those_that_are_called_and_overridden(function: Any, expected: list[str]) -> None:
    assert parameters(function) == expected


def test_the_arbiter_takes_listeners_from_its_attribute() -> None:
    assert "if not self.LISTENERS:" in inspect.getsource(Arbiter.start)
    assert "self.WORKERS[pid] = worker" in inspect.getsource(Arbiter.spawn_worker)


def parse(raw: bytes) -> Any:
    return Request(Config(), IterUnreader([raw]), ("127.0.0.1", 1))


def test_a_parsed_request_has_its_framing() -> None:
    length = parse(b"POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\n").body.reader
    assert (type(length), length.length) == (LengthReader, 12)
    nothing = parse(b"GET / HTTP/1.1\r\n\r\n").body.reader
    assert (type(nothing), nothing.length) == (LengthReader, 0)
    assert type(parse(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").body.reader) is ChunkedReader


def test_gunicorn_sends_no_continue_after_the_expectation_is_cleared() -> None:
    request = parse(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")
    assert request._expected_100_continue is True
    request._expected_100_continue = False
    reply = CollectedReply()
    wsgi.create(request, reply, ("127.0.0.1", 1), ("127.0.0.1", 2), Config())
    assert reply.pieces == []


@pytest.mark.parametrize("close", [False, True])
def test_a_response_writes_to_the_substitute_of_a_socket(close: bool) -> None:
    reply = CollectedReply()
    response, environ = wsgi.create(
        parse(b"GET /a%20b?c=d HTTP/1.1\r\n\r\n"), reply, ("127.0.0.1", 1), ("127.0.0.1", 2), Config()
    )
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == ("/a b", "c=d")
    if close:
        response.force_close()
    response.start_response("200 OK", [("Content-Length", "2")])
    response.write(b"ok")
    response.close()
    assert response.should_close() is close
    raw = b"".join(reply.pieces)
    assert raw.endswith(b"\r\n\r\nok")
    assert (b"Connection: close" in raw) is close


def test_gunicorn_knows_every_setting() -> None:
    def build() -> Apps:
        pytest.fail("built before the fork")

    application = ExtenderApplication(OPTIONS, build)
    lists: dict[str, Any] = {"forwarded_allow_ips": [], "forwarder_headers": []}
    expected = settings(OPTIONS)
    assert {name: application.cfg.settings[name].get() for name in expected} == expected | lists
