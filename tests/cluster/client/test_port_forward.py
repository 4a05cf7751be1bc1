"""A request to a port of a pod: its answer, and every failure."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler_ext.cluster.active_extender import get_from_pod
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_server import ApiServer

WHERE = "pod ours/one, port 8890: "
REFUSED = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not you"}


@contextmanager
def pod_that_says(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The loopback port that stands in for a pod's port: it gives this answer, and records the request."""
    asked: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                request += self.request.recv(1 << 16)
            asked.append(request)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield listener.server_address[1], asked
        listener.shutdown()


def test_an_answer_larger_than_a_message(server: ApiServer, transport: Transport) -> None:
    body = bytes(range(256)) * 4096
    head = f"HTTP/1.1 503 Not yet\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with pod_that_says(head + body) as (port, asked):
        server.ports["ours", "one", 8890] = ("127.0.0.1", port)
        assert get_from_pod(transport, "ours", "one", 8890, "/pods?a=b") == (503, body)
    assert asked == [b"GET /pods?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"", "no whole answer: ", id="nothing"),
        pytest.param(b"SSH-2.0-other\r\n", "no whole answer: SSH-2.0-other", id="another protocol"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "no whole answer: IncompleteRead(2 bytes read, 7 more expected)",
            id="a part of an answer",
        ),
    ],
)
def test_invalid_answers(server: ApiServer, transport: Transport, answer: bytes, problem: str) -> None:
    with pod_that_says(answer) as (port, _):
        server.ports["ours", "one", 8890] = ("127.0.0.1", port)
        with pytest.raises(ClusterError) as told:
            get_from_pod(transport, "ours", "one", 8890, "/pods")
    assert str(told.value).startswith(WHERE + problem)


def test_kubelets_message_about_a_port_without_a_listener(transport: Transport) -> None:
    with pytest.raises(ClusterError) as told:
        get_from_pod(transport, "ours", "one", 8890, "/pods")
    assert str(told.value).startswith(f"{WHERE}dial tcp4 127.0.0.1:8890")


def test_the_error_quotes_the_api_server_about_a_missing_right(
    server: ApiServer, transport: Transport
) -> None:
    server.hook = lambda request: Answer(403, json.dumps(REFUSED).encode())
    with pytest.raises(ClusterError) as told:
        get_from_pod(transport, "ours", "one", 8890, "/pods")
    assert str(told.value) == f"{WHERE}403 Forbidden: not you"
