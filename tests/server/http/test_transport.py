"""The server as a process: its replies to good and bad HTTP, its start and the errors of its start."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.gunicorn_server import refuse_workers
from scheduler_ext.server.server_options import ServerOptions
from tests.server.http.transport_app import LARGE_BYTES, MAX_BODY_BYTES
from tests.server.process.server_process import (
    READY,
    ServerProcess,
    call,
    connect,
    eventually,
    get,
    read_reply,
    read_to_end,
    request,
)

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--timeout-s", "60") as process:
        yield process.ready()


def test_many_requests_use_one_connection(server: ServerProcess) -> None:
    with connect(server.api) as sock:
        for length in (0, 1, 65_536, 250_000, 3_000_000, 0):
            reply = call(sock, request("/length", b"x" * length))
            assert reply.status == 200
            assert reply.headers["connection"] == "keep-alive"
            assert reply.json()["length"] == length
            assert 0 <= reply.json()["age_s"] < 60


def test_a_reply_does_not_wait_for_the_memory_of_its_request_to_be_freed(server: ServerProcess) -> None:
    with connect(server.api) as sock:
        assert call(sock, request("/leftover", method="GET")).json() == {"left": True}
        assert get(server.api, "/let-go").status == 200
        assert call(sock, request("/length", b"")).status == 200


def test_a_large_reply_arrives_whole(server: ServerProcess) -> None:
    assert get(server.api, "/large").body == b"x" * LARGE_BYTES


def test_three_listeners_answer_from_one_process(server: ServerProcess) -> None:
    assert get(server.health, "/livez").body == b"ok"
    assert server.worker_pid() not in (0, server.process.pid)


def test_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    with connect(server.api) as sock:
        sock.sendall(b"".join(request("/length", b"x" * length) for length in (3, 0, 70_000, 5)))
        received = b""
        while received.count(b'"length"') < 4:
            received += sock.recv(65536)
    assert [int(part.split(b",")[0]) for part in received.split(b'"length": ')[1:]] == [3, 0, 70_000, 5]


def test_requests_that_are_sent_while_another_is_served_are_answered_in_order(server: ServerProcess) -> None:
    with connect(server.api) as sock:
        for milliseconds in (100, 0, 50, 0):
            sock.sendall(request(f"/sleep/{milliseconds}", method="GET"))
            time.sleep(0.02)
        sock.shutdown(socket.SHUT_WR)
        replies = read_to_end(sock)
    assert [part.split(b'"')[0] for part in replies.split(b'"slept": "')[1:]] == [b"100", b"0", b"50", b"0"]


@pytest.mark.parametrize("seed", range(4))
def test_requests_are_answered_in_order_wherever_the_network_cuts_them(
    server: ServerProcess, seed: int
) -> None:
    draw = random.Random(seed)
    lengths = [draw.choice((0, 1, 500, 70_000)) for _ in range(40)]
    requests = [request("/length", b"x" * length) for length in lengths]
    raw, ends = b"".join(requests), list(itertools.accumulate(map(len, requests)))
    edges = sorted({0, *draw.sample(ends, 20), *(draw.randrange(len(raw)) for _ in range(15)), len(raw)})
    with connect(server.api) as sock:
        for start, end in itertools.pairwise(edges):
            sock.sendall(raw[start:end])
            time.sleep(draw.choice((0, 0, 0.002)))
        sock.shutdown(socket.SHUT_WR)
        replies = read_to_end(sock)
    assert [int(part.split(b",")[0]) for part in replies.split(b'"length": ')[1:]] == lengths


def test_a_request_directly_after_a_reply_is_answered(server: ServerProcess) -> None:
    """The next request may arrive before the event loop knows that the reply was sent."""
    socks = [connect(server.api) for _ in range(4)]
    for _ in range(300):
        for sock in socks:
            sock.sendall(request("/length", b"x"))
        for sock in socks:
            assert read_reply(sock).json()["length"] == 1
    for sock in socks:
        sock.close()


def chunked(*chunks: bytes, last: bytes = b"0\r\n\r\n") -> bytes:
    head = b"POST /length HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + last


def test_a_chunked_body_is_read_and_the_connection_kept(server: ServerProcess) -> None:
    with connect(server.api) as sock:
        assert call(sock, chunked(b"x" * 100_000, b"y")).json()["length"] == 100_001
        assert call(sock, chunked(b"x", last=b"0;last\r\nTrailer: v\r\n\r\n")).json()["length"] == 1
        assert call(sock, request("/length", b"x")).json()["length"] == 1


def test_a_client_that_expects_100_continue_gets_it_before_its_body(server: ServerProcess) -> None:
    raw = request("/length", b"x" * 10, "Expect: 100-continue")
    with connect(server.api) as sock:
        sock.sendall(raw[:-10])
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(raw[-10:])
        assert read_reply(sock).json()["length"] == 10


@pytest.mark.parametrize(
    ("raw", "status", "needle"),
    [
        pytest.param(b"GARBAGE\r\n\r\n", 400, "request line", id="a request line without path and version"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", 400, "not HTTP", id="a TLS hello, answered at once"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 505, "HTTP version", id="a version that does not exist"),
        pytest.param(b"GET / HTTP/1.1\n\n", 400, "bare LF", id="lines ended by bare LF"),
        pytest.param(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "Header", id="a header without colon"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "LENGTH", id="a negative content length"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "LENGTH",
            id="both a length and chunks",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: zstd\r\n\r\n",
            501,
            "zstd",
            id="an unknown transfer coding",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nExpect: more\r\n\r\n", 417, "more", id="an unknown expectation"),
        pytest.param(b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", 414, "Line", id="a request line of 5 kB"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "headers", id="two hundred headers"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * 100_000, 431, "larger", id="a head without end"),
        pytest.param(chunked(last=b"xyz\r\n"), 400, "hexadecimal", id="a chunk size that is not a number"),
        pytest.param(chunked(last=b"1\r\nxyz\r\n"), 400, "announced size", id="a chunk that is too long"),
        pytest.param(chunked(*[b"x"] * 2000), 400, "chunks of under", id="thousands of one-byte chunks"),
        pytest.param(request("/raise"), 500, "internal error", id="an application that raises"),
    ],
)
def test_errors_are_json_with_a_length_and_close(
    server: ServerProcess, raw: bytes, status: int, needle: str
) -> None:
    with connect(server.api) as sock:
        reply = call(sock, raw)
        assert reply.status == status
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["connection"] == "close"
        assert needle in reply.json()["error"]
        sock.shutdown(socket.SHUT_WR)
        assert read_to_end(sock) == b""


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(request("/length", b"x" * 100)[:-1], id="in a body of known length"),
        pytest.param(chunked(b"xy", last=b""), id="in a chunked body"),
        pytest.param(b"POST /length HTT", id="in the head"),
    ],
)
def test_a_client_that_ends_early_gets_a_400(server: ServerProcess, raw: bytes) -> None:
    with connect(server.api) as sock:
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)
        reply = read_reply(sock)
    assert reply.status == 400
    assert "ended before" in reply.json()["error"]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced length", "chunked"])
@pytest.mark.parametrize("reads_first", [False, True], ids=["sends everything", "reads first"])
def test_413_reaches_a_client_that_is_still_sending(
    server: ServerProcess, is_chunked: bool, reads_first: bool
) -> None:
    body = b"x" * (MAX_BODY_BYTES * 3)
    raw = chunked(*[body[:65536]] * (len(body) // 65536)) if is_chunked else request("/length", body)
    first = len(raw) if not reads_first else MAX_BODY_BYTES * 2 if is_chunked else 200
    with connect(server.api) as sock:
        sock.sendall(raw[:first])
        reply = read_reply(sock)
        sock.sendall(raw[first:])
        assert reply.status == 413
        assert reply.headers["connection"] == "close"
        assert str(MAX_BODY_BYTES) in reply.json()["error"]
        assert sock.recv(1) == b""


def test_413_reaches_a_client_that_sends_for_seconds_before_it_reads(server: ServerProcess) -> None:
    raw = request("/length", b"x" * (MAX_BODY_BYTES * 2))
    pieces = 6
    with connect(server.api) as sock:
        for number in range(pieces):
            sock.sendall(raw[number * len(raw) // pieces : (number + 1) * len(raw) // pieces])
            time.sleep(0.45)
        assert read_reply(sock).status == 413


def test_the_server_survives_clients_that_reset(server: ServerProcess) -> None:
    for raw in (request("/length", b"x" * 100)[:-1], request("/sleep/50"), request("/large"), b"G", b""):
        sock = connect(server.api)
        sock.sendall(raw)
        time.sleep(0.01)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    assert get(server.api, "/after").status == 200
    assert "Traceback" not in server.stderr.replace("on purpose", "").partition("given up")[2]


def test_settings_of_other_servers_are_ignored(tmp_path: Path) -> None:
    env = {"GUNICORN_CMD_ARGS": "--bind 127.0.0.1:1 --threads 1", "SCRIPT_NAME": "/x", "HOME": "/nonexistent"}
    (tmp_path / "gunicorn.conf.py").write_text("bind = 'nonsense'\nworkers = 7\n")
    with ServerProcess("--api", "[::1]:0", "--inspect", "[::1]:0", env=env, cwd=tmp_path) as server:
        server.ready()
        assert server.api[0] == "::1"
        assert get(server.api, "/there").json() == {"path": "/there"}
        assert get(server.inspect, "/").status == 200
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert [bool(READY.match(line)) for line in server.lines] == [True, False, False]
        assert server.lines[1:] == ["closed", "(end)"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        "gunicorn.conf.py"
    ]


def test_a_taken_port_is_one_message_and_status_1(server: ServerProcess) -> None:
    taken = f"127.0.0.1:{server.health[1]}"
    with ServerProcess("--health", taken) as second:
        assert second.wait() == 1
        assert second.lines[:-1] == [
            f"error: cannot listen on {taken} for health: Address already in use; choose another address or "
            f"stop what uses it"
        ]


def test_applications_that_cannot_be_built_are_one_message_and_status_1() -> None:
    with ServerProcess("--fail") as server:
        assert server.wait() == 1
        assert server.lines[:-1] == ["error: cannot start: the inventory cannot be read"]


def test_a_killed_worker_ends_the_server_with_status_1() -> None:
    with ServerProcess() as server:
        os.kill(server.ready().worker_pid(), signal.SIGKILL)
        assert server.wait() == 1
        assert "was sent SIGKILL" in server.lines[1]


def test_a_worker_whose_parent_was_killed_ends_itself() -> None:
    with ServerProcess() as server:
        worker = server.ready().worker_pid()
        server.process.kill()
        try:
            eventually(lambda: not Path(f"/proc/{worker}").exists())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        with pytest.raises(ConnectionRefusedError):
            connect(server.health)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_inspection_refuses_addresses_that_another_host_could_reach(host: str) -> None:
    with pytest.raises(ValueError, match="loopback address only"):
        ServerOptions(("", 0), ("0.0.0.0", 0), (host, 0))


@pytest.mark.parametrize(
    ("environ", "flag", "refused"),
    [
        pytest.param({}, None, False, id="no setting"),
        pytest.param(
            {"WEB_CONCURRENCY": "1", "GUNICORN_CMD_ARGS": "-w 1"}, 1, False, id="one in all settings"
        ),
        pytest.param({"WEB_CONCURRENCY": "", "GUNICORN_CMD_ARGS": ""}, None, False, id="empty settings"),
        pytest.param({"GUNICORN_CMD_ARGS": "--worker-class sync -b :1"}, None, False, id="other settings"),
        pytest.param({}, 2, True, id="two by flag"),
        pytest.param({}, 0, True, id="none by flag"),
        pytest.param({"WEB_CONCURRENCY": "4"}, None, True, id="four by WEB_CONCURRENCY"),
        pytest.param({"WEB_CONCURRENCY": "many"}, 1, True, id="a word as WEB_CONCURRENCY"),
        pytest.param({"GUNICORN_CMD_ARGS": "-b :1 -w 2"}, None, True, id="-w N"),
        pytest.param({"GUNICORN_CMD_ARGS": "-w2"}, None, True, id="-wN"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers 2"}, None, True, id="--workers N"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers=2"}, None, True, id="--workers=N"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers=1 -w 3"}, None, True, id="the second of two"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers"}, None, True, id="--workers without a number"),
        pytest.param({"GUNICORN_CMD_ARGS": "-w '2"}, None, True, id="an open quote"),
    ],
)
def test_more_than_one_worker_is_refused(environ: dict[str, str], flag: int | None, refused: bool) -> None:
    message = refuse_workers(environ, flag)
    assert (message is not None) == refused
    if message is not None:
        assert "remove the setting, or set it to 1" in message or "correct its quoting" in message
