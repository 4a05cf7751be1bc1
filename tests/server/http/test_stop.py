"""SIGTERM under load: requests in flight are answered, none is lost, and the process exits with 0."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority
from tests.server.process.server_process import ServerProcess, call, connect, eventually, read_reply, request

pytestmark = pytest.mark.process


class ClosedLoopClient(threading.Thread):
    """Sends a request after each reply until its connection is refused; any other end is a loss."""

    def __init__(self, server: ServerProcess, path: str) -> None:
        super().__init__()
        self._server = server
        self._path = path
        self.answers = 0
        self.loss: str | None = None

    def run(self) -> None:
        while True:
            since = time.monotonic()
            try:
                sock = self._server.connect()
            except ConnectionRefusedError:
                return
            except OSError as error:
                if is_prompt(since):
                    self.loss = f"while shaking hands: {error!r}"
                return
            with sock:
                try:
                    goes_on = True
                    while goes_on:
                        since = time.monotonic()
                        goes_on = call_once(sock, self._path)
                        self.answers += 1
                except OSError as error:
                    if is_prompt(since):
                        self.loss = f"after {self.answers} answers: {error!r}"
                    return


def is_prompt(since: float) -> bool:
    """Whether a client was not delayed: a stopping server waits two seconds for an idle connection."""
    return time.monotonic() - since < 1.5


def call_once(sock: socket.socket, path: str) -> bool:
    """One request; whether the connection may be used again."""
    reply = call(sock, request(path, b"x" * 2000))
    assert reply.status == 200
    return reply.headers["connection"] == "keep-alive"


@pytest.fixture(params=["over TLS", "plain"])
def server(request: pytest.FixtureRequest, authority: Authority, files: TlsFiles) -> Iterator[ServerProcess]:
    over_tls = request.param == "over TLS"
    arguments = ("--tls-folder", str(files.cert_file.parent)) if over_tls else ()
    with ServerProcess(*arguments, tls=authority.client() if over_tls else None) as process:
        yield process.ready()


@pytest.mark.parametrize("repetition", [0, 1])
def test_no_answer_is_lost_under_load(server: ServerProcess, repetition: int) -> None:
    clients = [ClosedLoopClient(server, path) for path in ("/length", "/sleep/3", "/now", "/length") * 2]
    for client in clients:
        client.start()
    eventually(lambda: all(client.answers > 1 or client.loss for client in clients))
    time.sleep(0.1 * repetition)
    server.signal(signal.SIGTERM)
    code = server.wait()
    for client in clients:
        client.join()
    assert [client.loss for client in clients if client.loss] == []
    assert min(client.answers for client in clients) > 1
    assert code == 0
    assert server.lines[-2:] == ["closed", "(end)"]


def test_requests_without_keep_alive_are_not_lost_either(server: ServerProcess) -> None:
    losses: list[str] = []

    def reconnect() -> None:
        while True:
            since = time.monotonic()
            try:
                with server.connect() as sock:
                    call(sock, request("/length", b"x", "Connection: close"))
            except ConnectionRefusedError:
                return
            except OSError as error:
                if is_prompt(since):
                    losses.append(repr(error))
                return

    clients = [threading.Thread(target=reconnect) for _ in range(8)]
    for client in clients:
        client.start()
    time.sleep(0.3)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    for client in clients:
        client.join()
    assert losses == []


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([signal.SIGTERM], id="SIGTERM"),
        pytest.param([signal.SIGINT], id="SIGINT"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], id="SIGTERM twice"),
        pytest.param([signal.SIGINT, signal.SIGINT], id="SIGINT twice"),
        pytest.param(
            [signal.SIGHUP, signal.SIGTTIN, signal.SIGUSR2, signal.SIGTERM], id="ignored ones first"
        ),
    ],
)
def test_a_request_in_flight_is_answered_and_idle_connections_do_not_delay_the_stop(
    signals: list[signal.Signals],
) -> None:
    with ServerProcess("--grace-s", "600") as server:
        server.ready()
        with connect(server.api) as busy, connect(server.api) as idle, connect(server.health) as scraper:
            call(idle, request("/first"))
            call(scraper, request("/metrics", method="GET"))
            asked_at = time.monotonic()
            busy.sendall(request("/sleep/1500"))
            time.sleep(0.1)
            started = time.monotonic()
            for number in signals:
                server.signal(number)
                time.sleep(0.1)
            try:
                late = call(idle, request("/late"))
                assert (late.status, late.headers["connection"]) == (200, "close")
                assert call(scraper, request("/livez", method="GET")).status == 200
            except OSError:
                assert not is_prompt(started)
            # The server received the signal before it replied, unless this machine was slow.
            was_in_flight = time.monotonic() - asked_at < 1.5
            last = read_reply(busy)
            assert last.json() == {"slept": "1500"}
            assert last.headers["connection"] == "close" or not was_in_flight
            assert server.wait() == 0
            assert server.lines[-2:] == ["closed", "(end)"]


def test_the_grace_period_bounds_a_request_that_does_not_end() -> None:
    with ServerProcess("--grace-s", "2") as server:
        server.ready()
        with connect(server.api) as busy:
            busy.sendall(request("/sleep/600000"))
            time.sleep(0.1)
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert server.lines[-2:] == ["closed", "(end)"]


def test_an_idle_connection_gets_two_seconds_for_a_request_on_its_way() -> None:
    with ServerProcess("--grace-s", "600") as server:
        server.ready()
        with connect(server.api) as used, connect(server.api) as unused:
            call(used, request("/first"))
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - started > 1.9
            assert (used.recv(1), unused.recv(1)) == (b"", b"")


def test_an_unfinished_handshake_does_not_delay_the_stop_longer(
    authority: Authority, files: TlsFiles
) -> None:
    folder = str(files.cert_file.parent)
    patient = ("--timeout-s", "600", "--grace-s", "600")
    with ServerProcess("--tls-folder", folder, *patient, tls=authority.client()) as server:
        server.ready()
        with connect(server.api) as stranger, server.connect() as used:
            stranger.sendall(b"\x16\x03\x01")
            call(used, request("/first"))
            server.signal(signal.SIGTERM)
            assert server.wait() == 0


@pytest.mark.parametrize("after_s", [0.3, 0.4, 0.5])
def test_sigterm_while_starting_is_not_lost(after_s: float) -> None:
    with ServerProcess("--slow-start-s", "0.3") as server:
        time.sleep(after_s)
        server.signal(signal.SIGTERM)
        assert server.wait() in (0, -signal.SIGTERM)
