"""SIGTERM under load: what is in flight is answered, nothing is lost, and the process exits with 0."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.authority import Authority
from tests.server.server_process import ServerProcess, call, connect, eventually, read_reply, request


class ClosedLoopClient(threading.Thread):
    """Asks again as soon as it is answered; a refused connection ends it, anything else is a loss."""

    def __init__(self, server: ServerProcess, path: str) -> None:
        super().__init__()
        self._server = server
        self._path = path
        self.answers = 0
        self.loss: str | None = None

    def run(self) -> None:
        while True:
            try:
                sock = self._server.connect()
            except ConnectionRefusedError:
                return
            except OSError as error:
                self.loss = f"while shaking hands: {error!r}"
                return
            with sock:
                try:
                    while call_once(sock, self._path):
                        self.answers += 1
                    self.answers += 1
                except OSError as error:
                    self.loss = f"after {self.answers} answers: {error!r}"
                    return


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


@pytest.mark.parametrize("repetition", range(2))
def test_no_answer_is_lost_under_load(server: ServerProcess, repetition: int) -> None:
    clients = [ClosedLoopClient(server, path) for path in ("/length", "/sleep/3", "/now", "/length") * 2]
    for client in clients:
        client.start()
    eventually(lambda: min(client.answers for client in clients) > 1)
    time.sleep(0.1 * repetition)
    server.signal(signal.SIGTERM)
    code = server.wait()
    for client in clients:
        client.join()
    assert [client.loss for client in clients if client.loss] == []
    assert code == 0
    assert server.lines[-2:] == ["closed", "(end)"]


def test_requests_without_keep_alive_are_not_lost_either(server: ServerProcess) -> None:
    losses: list[str] = []

    def reconnect() -> None:
        while True:
            try:
                with server.connect() as sock:
                    call(sock, request("/length", b"x", "Connection: close"))
            except ConnectionRefusedError:
                return
            except OSError as error:
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
def test_a_request_in_flight_is_answered_and_idle_ones_do_not_hold_up(signals: list[signal.Signals]) -> None:
    with ServerProcess() as server:
        server.ready()
        with connect(server.api) as busy, connect(server.api) as idle, connect(server.health) as scraper:
            call(idle, request("/first"))
            call(scraper, request("/metrics", method="GET"))
            busy.sendall(request("/sleep/800"))
            time.sleep(0.1)
            started = time.monotonic()
            for number in signals:
                server.signal(number)
                time.sleep(0.1)
            late = call(idle, request("/late"))
            assert (late.status, late.headers["connection"]) == (200, "close")
            assert call(scraper, request("/livez", method="GET")).status == 200
            last = read_reply(busy)
            assert (last.json(), last.headers["connection"]) == ({"slept": "800"}, "close")
            assert server.wait() == 0
            assert time.monotonic() - started < 8
            assert server.lines[-2:] == ["closed", "(end)"]


def test_the_grace_period_bounds_a_request_that_does_not_end() -> None:
    with ServerProcess("--grace-s", "2") as server:
        server.ready()
        with connect(server.api) as busy:
            busy.sendall(request("/sleep/60000"))
            time.sleep(0.1)
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - started < 8
            assert server.lines[-2:] == ["closed", "(end)"]


def test_an_idle_connection_gets_two_seconds_for_a_request_on_its_way() -> None:
    with ServerProcess() as server:
        server.ready()
        with connect(server.api) as used, connect(server.api) as unused:
            call(used, request("/first"))
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert 1.9 < time.monotonic() - started < 8
            assert (used.recv(1), unused.recv(1)) == (b"", b"")


def test_a_half_done_handshake_holds_up_the_stop_no_longer(authority: Authority, files: TlsFiles) -> None:
    folder = str(files.cert_file.parent)
    with ServerProcess("--tls-folder", folder, "--timeout-s", "30", tls=authority.client()) as server:
        server.ready()
        with connect(server.api) as stranger, server.connect() as used:
            stranger.sendall(b"\x16\x03\x01")
            call(used, request("/first"))
            started = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - started < 8


@pytest.mark.parametrize("after_s", [0.3, 0.4, 0.5])
def test_sigterm_while_starting_is_not_lost(after_s: float) -> None:
    with ServerProcess("--slow-start-s", "0.3") as server:
        time.sleep(after_s)
        server.signal(signal.SIGTERM)
        started = time.monotonic()
        assert server.wait() in (0, -signal.SIGTERM)
        assert time.monotonic() - started < 8
