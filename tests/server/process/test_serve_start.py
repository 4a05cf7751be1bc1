"""`scheduler-ext serve`: how it starts, what it refuses to start with, and what is where."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext import __version__
from tests.server.process.product import GOOD, Product, assert_well, config_file, usage_error
from tests.server.process.server_process import READY, call, connect, get, request

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


def test_the_server_logs_its_addresses_once_and_answers_there() -> None:
    with Product("--log-format", "text") as server:
        server.ready()
        assert len({server.api[1], server.health[1], server.inspect[1]} - {0}) == 3
        assert_well(server.post("filter", GOOD))
        assert get(server.api, "/version").json() == {"name": "scheduler-ext", "version": __version__}
        assert get(server.health, "/livez").body == b"ok"
        assert get(server.inspect, "/nowhere").status == 404
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert len([line for line in server.lines if READY.match(line)]) == 1
        assert server.stderr.count("ready api=") == 1


def test_a_loaded_inventory_makes_it_ready(server: Product) -> None:
    plain, verbose = get(server.health, "/readyz"), get(server.health, "/readyz?verbose")
    assert (plain.status, plain.body) == (200, b"ok")
    assert verbose.status == 200
    assert verbose.body.decode().splitlines() == ["[+]inventory ok", "readyz check passed"]
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("listener", "method", "path", "status", "allow"),
    [
        pytest.param("api", "GET", "/filter", 405, {"POST", "OPTIONS"}, id="filter accepts only POST"),
        pytest.param(
            "api", "PUT", "/prioritize", 405, {"POST", "OPTIONS"}, id="prioritize accepts only POST"
        ),
        pytest.param(
            "api", "POST", "/version", 405, {"GET", "HEAD", "OPTIONS"}, id="the version accepts only GET"
        ),
        pytest.param("api", "GET", "/bind", 405, {"POST", "OPTIONS"}, id="bind accepts only POST"),
        pytest.param("api", "GET", "/preempt", 405, {"POST", "OPTIONS"}, id="preempt accepts only POST"),
        pytest.param("api", "GET", "/metrics", 404, None, id="metrics are elsewhere"),
        pytest.param("api", "POST", "/filter/", 404, None, id="a slash too many"),
        pytest.param("api", "POST", "/%ff%00%0a", 404, None, id="a path that is no text"),
        pytest.param("api", "BREW", "/filter", 405, {"POST", "OPTIONS"}, id="an unknown method"),
        pytest.param(
            "health", "POST", "/livez", 405, {"GET", "HEAD", "OPTIONS"}, id="liveness accepts only GET"
        ),
        pytest.param(
            "health", "DELETE", "/metrics", 405, {"GET", "HEAD", "OPTIONS"}, id="metrics accept only GET"
        ),
        pytest.param("health", "POST", "/filter", 404, None, id="health does not filter"),
        pytest.param(
            "inspect",
            "PUT",
            "/explain",
            405,
            {"GET", "HEAD", "OPTIONS", "POST"},
            id="explain changes nothing",
        ),
        pytest.param(
            "inspect",
            "PUT",
            "/debug/ledger",
            405,
            {"GET", "HEAD", "OPTIONS"},
            id="the ledger accepts only GET",
        ),
        pytest.param(
            "inspect",
            "POST",
            "/debug/snapshot",
            405,
            {"GET", "HEAD", "OPTIONS"},
            id="the snapshot accepts only GET",
        ),
    ],
)
def test_other_paths_and_methods_are_json_and_keep_the_connection(
    server: Product, listener: str, method: str, path: str, status: int, allow: set[str] | None
) -> None:
    with connect(getattr(server, listener)) as sock:
        # The body is longer than a socket's buffer: left unread, it would be taken for the next request.
        for body in (b"", b"x" * 3_000_000):
            reply = call(sock, request(path, body, method=method))
            assert (reply.status, reply.headers["content-type"]) == (status, "application/json")
            assert reply.headers["connection"] == "keep-alive"
            assert list(reply.json()) == ["error"]
            assert reply.json()["error"].startswith(f"{status} ")
            assert method in reply.json()["error"]
            assert set(reply.headers.get("allow", "").split(", ")) == (allow or {""})
    lines = server.logged()
    assert len(lines) == 2
    assert all(f"{listener} refused: {status} " in line for line in lines)


@pytest.mark.parametrize("listener", ["api", "health", "inspect"])
def test_a_body_beyond_the_limit_costs_the_connection_but_not_the_answer(
    server: Product, listener: str
) -> None:
    head = request("/nowhere").replace(b"Content-Length: 0", b"Content-Length: 100000000")
    with connect(getattr(server, listener)) as sock:
        reply = call(sock, head + b"x" * 100_000)
        assert (reply.status, reply.headers["connection"]) == (404, "close")
    assert_well(server.post("filter", GOOD))
    assert len(server.logged()) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "needle"),
    [
        pytest.param(["--workers", "2"], {}, "--workers 2: the inventory", id="two workers by flag"),
        pytest.param(
            [], {"GUNICORN_CMD_ARGS": "-w 3"}, "GUNICORN_CMD_ARGS asks", id="by gunicorn's variable"
        ),
        pytest.param([], {"WEB_CONCURRENCY": "2"}, "WEB_CONCURRENCY asks", id="by the platforms' variable"),
        pytest.param(["--listen", "127.0.0.1:70000"], {}, "is no HOST:PORT", id="a port that is none"),
    ],
)
def test_a_contradictory_command_line_is_a_usage_error(
    arguments: list[str], env: dict[str, str], needle: str
) -> None:
    assert needle in usage_error(*arguments, env=env)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"], ids=["all", "and by IPv6"])
def test_inspection_for_others_is_a_usage_error(address: str) -> None:
    with Product("--inspect-listen", address) as server:
        assert server.wait() == 2
        (error,) = [line for line in server.lines if line.startswith("Error: ")]
        assert "loopback address only" in error
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize(
    ("inventory", "problem"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param("a: [b", "neither YAML nor JSON", id="no YAML"),
        pytest.param("kind: GPUNode", "GPUNode without metadata.name", id="a node without name"),
    ],
)
def test_an_inventory_that_cannot_be_read_is_one_line_and_status_1(
    tmp_path: Path, inventory: str | None, problem: str
) -> None:
    path = tmp_path / "inventory.yaml"
    if inventory is not None:
        path.write_text(inventory)
    with Product(inventory=path) as server:
        assert server.wait() == 1
        (line,) = server.lines[:-1]
        assert line.startswith(f"error: cannot start: {path}: ")
        assert problem in line


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        pytest.param({"maxBodyBytes": 1}, "server.maxBodyBytes: Expected `int` >= 1024", id="out of bounds"),
        pytest.param({"readTimeout": "5"}, "server.readTimeout: '5' is no duration", id="without a unit"),
        pytest.param({"workers": 2}, "server.workers: unknown key", id="a key that does not exist"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_one_line_and_status_1(
    tmp_path: Path, section: dict[str, object], problem: str
) -> None:
    path = config_file(tmp_path, server=section)
    with Product(config=path) as server:
        assert server.wait() == 1
        (line,) = server.lines[:-1]
        assert line.startswith(f"Error: {path}: {problem}")


@pytest.mark.parametrize(("option", "name"), [("--listen", "the API"), ("--inspect-listen", "inspection")])
def test_a_taken_port_is_one_line_and_status_1(server: Product, option: str, name: str) -> None:
    taken = f"127.0.0.1:{server.api[1]}"
    with Product(option, taken) as second:
        assert second.wait() == 1
        (line,) = second.lines[:-1]
        assert line.startswith(f"error: cannot listen on {taken} for {name}: Address already in use")


def test_json_logs_are_json_but_for_the_ready_line(tmp_path: Path) -> None:
    with Product(
        "--log-format", "json", config=config_file(tmp_path, server={"readTimeout": "200ms"})
    ) as server:
        server.ready()
        assert server.post("filter", b"{").status == 400
        assert server.post("filter", GOOD.replace(b'"1"', b'"-1\\n"')).status == 200
        assert get(server.api, "/nowhere").status == 404
        with connect(server.api) as slow:
            slow.sendall(b"POST /filter HTT")
            assert b"408" in slow.recv(1000)
        with connect(server.api) as strange:
            strange.sendall(b"\x16\x03\x01 TLS\r\n")
            assert b"400" in strange.recv(1000)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        lines = [line for line in server.lines[:-1] if not READY.match(line)]
        messages = [json.loads(line) for line in lines]
    assert all({"ts", "level", "logger", "msg"} <= set(message) for message in messages)
    assert len(server.lines) - len(lines) == 2
    told = [message["msg"] for message in messages]
    assert [text.split(": ")[0] for text in told] == [
        "inventory read",
        "filter refused with 400",
        "GPU request is invalid",
        "api refused",
        "slow client 127.0.0.1 cut off",
        "request from 127.0.0.1 refused",
    ]


def test_probes_may_be_asked_by_head(server: Product) -> None:
    with connect(server.health) as sock:
        sock.sendall(request("/livez", method="HEAD") + request("/livez", method="GET"))
        received = b""
        while not received.endswith(b"ok"):
            received += sock.recv(1000)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.count(b"ok") == 1
