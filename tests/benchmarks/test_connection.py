"""The benchmark's HTTP client against a server that answers in exactly the given pieces."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from benchmarks.connection import Connection, exchange

REQUEST_BODY = b"x" * 300_000
ANSWER = b'{"NodeNames":["a"]}'
PAUSE_S = 0.02


@contextlib.contextmanager
def _server(pieces: Sequence[bytes], then_close: bool) -> Iterator[str]:
    """Reads one whole request, sends the pieces apart in time, then closes or waits for the client to."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while not received.endswith(REQUEST_BODY):
                received += connection.recv(1 << 16)
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(PAUSE_S)
            if not then_close:
                connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)
        assert not thread.is_alive()


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ZIPPED = gzip.compress(ANSWER)


@pytest.mark.parametrize(
    ("pieces", "then_close"),
    [
        pytest.param((LENGTH + ANSWER,), False, id="one piece is whole at once"),
        pytest.param((LENGTH[:30], LENGTH[30:], ANSWER[:5], ANSWER[5:]), False, id="a length is waited for"),
        pytest.param(
            (CHUNKED, b"5\r\n" + ANSWER[:5], b"\r\ne\r", b"\n" + ANSWER[5:] + b"\r\n0\r", b"\n\r\n"),
            False,
            id="chunks are joined wherever they are torn",
        ),
        pytest.param(
            (b"HTTP/1.0 200 OK\r\n\r\n", ANSWER), True, id="without a length the end of stream counts"
        ),
        pytest.param(
            (
                b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b"
                % (len(ZIPPED), ZIPPED),
            ),
            False,
            id="gzip is unpacked and header names are read in any case",
        ),
    ],
)
def test_a_reply_counts_when_its_last_byte_is_here(pieces: Sequence[bytes], then_close: bool) -> None:
    with _server(pieces, then_close) as url:
        connection = Connection(url)
        (reply,) = exchange([connection], [connection.request("/filter", REQUEST_BODY)], timeout_s=60)
        connection.close()
    assert (reply.status, reply.body, reply.error) == (200, ANSWER, "")
    assert reply.elapsed_ns >= (len(pieces) - 1) * PAUSE_S * 1e9


@pytest.mark.parametrize(
    ("pieces", "then_close", "timeout_s", "error"),
    [
        pytest.param((LENGTH, ANSWER[:5]), True, 60, "closed the connection", id="a close in mid-reply"),
        pytest.param(
            (LENGTH, ANSWER[:5]), False, 0.2, "no whole reply within 0.2 s", id="a reply that never ends"
        ),
        pytest.param(
            (CHUNKED + b"zz\r\n",), False, 60, "invalid literal", id="a chunk size that is no number"
        ),
    ],
)
def test_a_reply_that_is_not_whole_is_an_error_and_ends_the_connection(
    pieces: Sequence[bytes], then_close: bool, timeout_s: float, error: str
) -> None:
    with _server(pieces, then_close) as url:
        connection = Connection(url)
        (reply,) = exchange([connection], [connection.request("/filter", REQUEST_BODY)], timeout_s=timeout_s)
        assert reply.status == 0
        assert error in reply.error
        with pytest.raises(ConnectionError, match="closed"):
            connection.fileno()


def test_an_address_that_is_no_http_url_is_refused() -> None:
    with pytest.raises(ValueError, match=r"url must be http://HOST\[:PORT\]"):
        Connection("https://127.0.0.1:1")
