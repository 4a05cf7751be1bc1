"""`scheduler-ext serve` as a process: how it starts, what it refuses to start with, and its log."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.server.http.authority import Authority, flags
from tests.server.process.product import FREE_NODE, GOOD, Product, assert_well, config_file, usage_error
from tests.server.process.server_process import READY, connect, get

CERT, KEY, CA = "--tls-cert-file", "--tls-key-file", "--client-ca-file"


@pytest.mark.parametrize(
    ("arguments", "env", "problem"),
    [
        pytest.param(["--workers", "2"], {}, "--workers 2: the inventory", id="two workers by flag"),
        pytest.param([], {"GUNICORN_CMD_ARGS": "-w 3"}, "GUNICORN_CMD_ARGS asks", id="by a variable"),
        pytest.param(["--inspect-listen", "0.0.0.0:0"], {}, "loopback address only", id="for others"),
        pytest.param([CERT, "x", KEY, "x"], {}, f"missing {CA}: TLS takes", id="no CA of clients"),
    ],
)
def test_a_contradictory_command_line_is_a_usage_error(
    arguments: list[str], env: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_ext.logs.configure_logs", lambda form: None)
    assert problem in usage_error(*arguments, env=env)


def test_a_configuration_that_cannot_be_meant_is_one_line(tmp_path: Path) -> None:
    path = config_file(tmp_path, server={"maxBodyBytes": 1})
    problem = "server.maxBodyBytes: Expected `int` >= 1024"
    assert usage_error("--config", path, code=1).startswith(f"Error: {path}: {problem}")


@pytest.mark.process
def test_a_certificate_that_cannot_be_used_is_one_line_and_status_1(
    authority: Authority, tmp_path: Path
) -> None:
    own = authority.write_server(tmp_path / "own")
    own.client_ca_file.write_text("?")
    with Product(*flags(own)) as server:
        assert server.wait() == 1
        (line,) = server.lines[:-1]
        assert line.startswith(f"error: cannot start: {CA} {own.client_ca_file}: no certificate can be")


@pytest.mark.process
@pytest.mark.parametrize("form", ["json", "text"])
def test_the_log_of_a_server_and_names_that_cannot_forge_lines(tmp_path: Path, form: str) -> None:
    config = config_file(tmp_path, server={"readTimeout": "200ms"})
    # With the text, on an address that others reach.
    listen = {"json": "localhost:0", "text": "0.0.0.0:0"}[form]
    with Product("--log-format", form, "--listen", listen, config=config) as server:
        server.ready()
        server.api = ("127.0.0.1", server.api[1])
        assert server.post("filter", b"{").status == 400
        forged = json.dumps("-1\n2026-01-01 00:00:00,000 CRITICAL root: on fire\x1b[2J\r\u2028").encode()
        assert server.post("filter", GOOD.replace(b'"1"', forged)).status == 200
        assert get(server.inspect, "/nowhere").status == 404
        with connect(server.api) as slow:
            slow.sendall(b"POST /filter HTT")
            assert b"408" in slow.recv(1000)
        assert server.samples()['gpu_extender_connections_cut_total{reason="head"}'] == 1
        with connect(server.api) as strange:
            strange.sendall(b"\x16\x03\x01 TLS\r\n")
            assert b"400" in strange.recv(1000)
        assert_well(server.post("filter", GOOD))
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        lines = [line for line in server.lines[:-1] if not READY.match(line)]
    assert len(server.lines) - len(lines) == 2
    if form == "json":
        messages = [json.loads(line) for line in lines]
        assert all({"ts", "level", "logger", "msg"} <= set(message) for message in messages)
        told = [message["msg"] for message in messages]
    else:
        assert all(line.isprintable() for line in lines)
        told = [line.split(": ", 1)[1] for line in lines]
    open_to_all = ["--listen 0.0.0.0:0 without TLS"] if form == "text" else []
    assert [text.split(": ")[0] for text in told] == [
        *open_to_all,
        "inventory read",
        "filter refused with 400",
        "GPU request is invalid",
        "inspect refused",
        "slow client 127.0.0.1 cut off",
        "request from 127.0.0.1 refused",
    ]
    assert FREE_NODE not in server.stderr
