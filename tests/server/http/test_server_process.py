"""The server as a process: its start and the errors of its start, signals, and the death of a process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.gunicorn_server import refuse_workers
from scheduler_ext.server.server_options import ServerOptions, TlsFiles
from tests.server.http.authority import Authority
from tests.server.process.clients import Client
from tests.server.process.server_process import (
    READY,
    ServerProcess,
    connect,
    eventually,
    get,
    read_reply,
    request,
)

ENDED = ["closed", "(end)"]


@pytest.mark.process
def test_settings_of_other_servers_are_ignored(tmp_path: Path) -> None:
    env = {"GUNICORN_CMD_ARGS": "--bind 127.0.0.1:1 --threads 1", "SCRIPT_NAME": "/x", "HOME": "/nonexistent"}
    (tmp_path / "gunicorn.conf.py").write_text("bind = 'nonsense'\nworkers = 7\n")
    with ServerProcess("--api", "[::1]:0", "--inspect", "[::1]:0", env=env, cwd=tmp_path) as server:
        server.ready()
        assert server.api[0] == "::1"
        assert get(server.api, "/there").json() == {"path": "/there"}
        assert get(server.health, "/livez").body == b"ok"
        assert server.worker_pid() not in (0, server.process.pid)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert [bool(READY.match(line)) for line in server.lines] == [True, False, False]
        assert server.lines[1:] == ENDED
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"gunicorn.conf.py"}


@pytest.mark.process
def test_a_taken_port_is_one_message_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with ServerProcess("--health", taken) as server:
            assert server.wait() == 1
            assert server.lines[:-1] == [
                f"error: cannot listen on {taken} for health: Address already in use; choose another address "
                f"or stop what uses it"
            ]


@pytest.mark.process
def test_applications_that_cannot_be_built_are_one_message_and_status_1() -> None:
    with ServerProcess("--fail") as server:
        assert server.wait() == 1
        assert server.lines[:-1] == ["error: cannot start: the inventory\\x1b[31m cannot be read"]


@pytest.mark.process
def test_a_killed_worker_ends_the_server_with_status_1() -> None:
    with ServerProcess() as server:
        os.kill(server.ready().worker_pid(), signal.SIGKILL)
        assert server.wait() == 1
        assert "was sent SIGKILL" in server.lines[1]


@pytest.mark.process
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


@pytest.fixture(params=["over TLS", "plain"])
def server(request: pytest.FixtureRequest, authority: Authority, files: TlsFiles) -> Iterator[ServerProcess]:
    over_tls = request.param == "over TLS"
    arguments = ("--tls-folder", str(files.cert_file.parent)) if over_tls else ()
    # A client that the machine keeps from its next request for seconds has lost nothing.
    patient = ("--linger-s", "60", "--grace-s", "600")
    with ServerProcess(*arguments, *patient, tls=authority.client() if over_tls else None) as process:
        yield process.ready()


@pytest.mark.process
def test_no_answer_is_lost_when_a_server_under_load_stops(server: ServerProcess) -> None:
    raws = [request(path, b"x" * 2000) for path in ("/length", "/sleep/3", "/now")]
    raws.append(request("/length", b"x", "Connection: close"))
    clients = [Client(server, raw) for raw in raws * 2]
    for client in clients:
        client.start()
    eventually(lambda: all(client.answers > 1 or client.failure for client in clients))
    server.signal(signal.SIGTERM)
    code = server.wait()
    for client in clients:
        client.join()
    assert [client.failure for client in clients if client.failure] == []
    assert (code, server.lines[-2:]) == (0, ENDED)


@pytest.mark.process
@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([signal.SIGINT], id="SIGINT"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], id="SIGTERM twice"),
        pytest.param([signal.SIGINT, signal.SIGINT], id="SIGINT twice"),
        pytest.param(
            [signal.SIGHUP, signal.SIGTTIN, signal.SIGUSR2, signal.SIGTERM], id="ignored ones first"
        ),
    ],
)
def test_a_request_in_flight_is_answered(signals: list[signal.Signals]) -> None:
    with ServerProcess("--grace-s", "600") as server:
        server.ready()
        with connect(server.api) as busy:
            # It waits until the server stops to listen.
            busy.sendall(request("/wait-for-stop", method="GET"))
            server.wait_for_line("waits")
            for number in signals:
                server.signal(number)
            assert read_reply(busy).status == 200
            assert server.wait() == 0
            assert server.lines[-2:] == ENDED


@pytest.mark.process
def test_sigterm_while_starting_is_not_lost() -> None:
    with ServerProcess("--slow-start-s", "0.3") as server:
        server.wait_for_line("building")
        server.signal(signal.SIGTERM)
        assert server.wait() in (0, -signal.SIGTERM)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org", ""])
def test_inspection_refuses_addresses_that_another_host_could_reach(host: str) -> None:
    with pytest.raises(ValueError, match="loopback address only"):
        ServerOptions(("", 0), ("0.0.0.0", 0), (host, 0))


@pytest.mark.parametrize(
    ("environ", "flag", "refused"),
    [
        pytest.param(
            {"WEB_CONCURRENCY": "1", "GUNICORN_CMD_ARGS": "-w 1"}, 1, False, id="one in all settings"
        ),
        pytest.param({"WEB_CONCURRENCY": "", "GUNICORN_CMD_ARGS": ""}, None, False, id="empty settings"),
        pytest.param({}, 2, True, id="two by flag"),
        pytest.param({}, 0, True, id="none by flag"),
        pytest.param({"WEB_CONCURRENCY": "many"}, 1, True, id="a word as WEB_CONCURRENCY"),
        pytest.param({"GUNICORN_CMD_ARGS": "-b :1 -w2"}, None, True, id="-wN"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers=1 -w 3"}, None, True, id="the second of two"),
        pytest.param({"GUNICORN_CMD_ARGS": "--workers"}, None, True, id="--workers without a number"),
        pytest.param({"GUNICORN_CMD_ARGS": "-w '2"}, None, True, id="an open quote"),
    ],
)
def test_more_than_one_worker_is_refused(environ: dict[str, str], flag: int | None, refused: bool) -> None:
    assert (refuse_workers(environ, flag) is not None) == refused
