"""The page's part of the inspection listener: permitted clients, the stream, and the files."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scheduler_ext.explain.waiting import Waiting
from tests.explain.test_replay import running
from tests.kube_objects import gpu, gpu_node, inventory
from tests.pages import page
from tests.server.process.product import ONE_GPU, Product
from tests.server.process.server_process import Reply, call, connect, eventually, get, request

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


def ask(server: Product, path: str, *headers: str, host: str = "localhost") -> Reply:
    raw = request(path, b"", *headers, method="GET").replace(b"Host: localhost", f"Host: {host}".encode())
    with connect(server.inspect) as sock:
        return call(sock, raw)


def event(reply: Reply) -> tuple[str, str, Any]:
    """The id, the kind and the data of the one event of a reply."""
    body = gzip.decompress(reply.body) if reply.headers.get("content-encoding") else reply.body
    assert body.endswith(b"\n\n")
    fields = dict(line.split(": ", 1) for line in body.decode().rstrip("\n").split("\n"))
    assert int(fields["retry"]) > 0
    return fields.get("id", ""), fields["event"], json.loads(fields["data"])


def first(server: Product) -> tuple[str, Any]:
    """The whole state, and its id."""
    eventually(lambda: event(get(server.inspect, "/page/events"))[1] == "change")
    number, _, data = event(get(server.inspect, "/page/events"))
    return number, data


def after(server: Product, number: str) -> tuple[str, Any]:
    number, kind, data = event(ask(server, "/page/events", f"Last-Event-ID: {number}"))
    assert kind == "change"
    return number, data


def replaced(path: Path, content: bytes) -> None:
    """As one step, so that no reader sees half of it."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:8890", 200, id="localhost at any port"),
        pytest.param("LOCALHOST", 200, id="in any case"),
        pytest.param("127.0.0.1:1", 200, id="by address"),
        pytest.param("127.8.8.8", 200, id="any of loopback's"),
        pytest.param("[::1]:8890", 200, id="by IPv6"),
        pytest.param("[::1]", 200, id="without a port"),
        pytest.param("rebound.example:8890", 403, id="another name is a page that means harm"),
        pytest.param("localhost.example", 403, id="however it begins"),
        pytest.param("127.0.0.1.example", 403, id="or looks"),
        pytest.param("10.0.0.1", 403, id="another address"),
        pytest.param("", 403, id="no name at all"),
        pytest.param("localhost:8890@evil", 400, id="a host that is none"),
        pytest.param("localhost:evil", 400, id="a port that is none"),
    ],
)
@pytest.mark.parametrize("path", ["/page/", "/page/events", "/debug/ledger"])
def test_only_this_host_is_answered_for(server: Product, host: str, status: int, path: str) -> None:
    reply = ask(server, path, host=host)
    assert reply.status == status
    if status == 403:
        assert reply.json() == {
            "error": f"Host: {host!r} is not this host; use 127.0.0.1, [::1] or localhost"
        }


@pytest.mark.parametrize(
    "path", ["/page/", "/page/js/main.js", "/page/events", "/page/node?name=x", "/nowhere"]
)
def test_every_reply_restricts_browsers(server: Product, path: str) -> None:
    headers = get(server.inspect, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"GET /explain?pod=a/" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", id="too long a path"),
        pytest.param(b"GET /page/ HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", id="too many headers"),
        pytest.param(b"<script>\r\n\r\n", id="nothing of HTTP"),
    ],
)
def test_a_reply_to_an_unreadable_request_has_the_security_headers(server: Product, raw: bytes) -> None:
    with connect(server.inspect) as sock:
        headers = call(sock, raw).headers
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_the_page_is_at_the_root_and_its_files_are_its_own(server: Product) -> None:
    moved = get(server.inspect, "/")
    assert (moved.status, moved.headers["location"]) == (302, "page/")
    index = get(server.inspect, "/page/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert b"//" not in index.body.replace(b"<!doctype", b""), "nothing from another origin"
    script = get(server.inspect, "/page/js/main.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    known = request("/page/js/main.js", b"", f"If-None-Match: {script.headers['etag']}", method="GET")
    with connect(server.inspect) as sock:
        sock.sendall(known)
        assert sock.recv(1000).startswith(b"HTTP/1.1 304 "), "known already"


@pytest.mark.parametrize(
    "path",
    [
        "/page/nosuch.js",
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/vendor/LICENSE",
    ],
)
def test_nothing_else_is_served(server: Product, path: str) -> None:
    assert get(server.inspect, path).status == 404


def test_the_first_event_is_everything_and_the_next_is_no_more_than_a_sign_of_life(server: Product) -> None:
    number, state = first(server)
    assert state["full"] is True
    assert "gpu-node-00" in {row[0] for row in state["nodes"]}
    assert state["pending"] == {"total": 0, "lines": []}
    assert len(state["samples"][0]) == 7
    same, beat = after(server, number)
    assert same == number
    assert set(beat) == {"status"}


@pytest.mark.parametrize(
    "number",
    [
        "",
        "nonsense",
        "a.b.c.d.e",
        "0.0.0.0",
        "x.99.99.99.99",
        "x.-1.0.0.0",
        f"x.{'9' * 400}.0.0.0",
        "x.１.0.0.0",
    ],
)
def test_an_id_that_is_none_of_ours_gets_everything(server: Product, number: str) -> None:
    first(server)
    reply = ask(server, f"/page/events?seen={quote(number)}")
    _, kind, state = event(reply)
    assert (kind, state["full"]) == ("change", True)


def test_a_decision_is_reported_once(server: Product) -> None:
    number, _ = first(server)
    server.post(
        "filter", b'{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"}},"NodeNames":["gpu-node-00"]}'
    )
    number, state = after(server, number)
    (decision,) = state["decisions"]
    assert (decision["namespace"], decision["name"], decision["asked"]) == ("n", "p", 1)
    assert "decisions" not in after(server, number)[1]


def test_the_reference_names_every_field(server: Product) -> None:
    _, state = first(server)
    server.post("filter", b'{"Pod":{"metadata":{"name":"q","uid":"q"}},"NodeNames":["gpu-node-00"]}')
    decision = first(server)[1]["decisions"][0]
    there = running(ONE_GPU)
    (line,) = Waiting(there, there.extender.record, there.explainer()).lines()
    fields = {*state, *state["status"], *state["pending"], *decision, *line, "decisions"}
    named = {name.removesuffix("[]") for name in re.findall(r"`([^`]+)`", page("page-events"))}
    assert fields - named == set()


def test_a_large_state_is_compressed_for_those_who_take_it(server: Product) -> None:
    first(server)
    plain = ask(server, "/page/events")
    packed = ask(server, "/page/events", "Accept-Encoding: gzip, deflate")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 2
    assert event(packed)[2]["nodes"] == event(plain)[2]["nodes"]
    assert packed.headers["vary"] == "Accept-Encoding"


def test_a_changed_file_is_reported_as_a_change(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(1)])))
    with Product(inventory=path) as server:
        server.ready()
        number, state = first(server)
        assert [row[0] for row in state["nodes"]] == ["a", "b"]
        replaced(path, inventory(gpu_node("b", [gpu(1)]), gpu_node("c", [gpu(2)])))
        changes: list[Any] = []

        def told() -> bool:
            nonlocal number
            number, change = after(server, number)
            if "nodes" in change:
                changes.append(change)
            return bool(changes)

        eventually(told)
        (change,) = changes
        assert change["full"] is False
        assert [row[0] for row in change["nodes"]] == ["c"], "b is as it was"
        assert change["gone"] == ["a"]


def test_an_unreadable_file_is_reported_until_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    good = inventory(gpu_node("a", [gpu(0)]))
    path.write_bytes(good)
    with Product(inventory=path) as server:
        server.ready()

        def problems() -> list[Any]:
            found: list[Any] = first(server)[1]["status"]["problems"]
            return found

        assert (first(server)[1]["status"]["broken"], problems()) == (False, [])
        for broken in (b"{", None):
            since = time.time()
            replaced(path, broken) if broken is not None else path.unlink()
            eventually(lambda: bool(problems()))
            (problem,) = problems()
            assert problem["what"] == "inventory file"
            assert str(path) in problem["text"]
            assert since - 10 < problem["since"] <= time.time()
            assert [row[0] for row in first(server)[1]["nodes"]] == ["a"], "what was known stays"
            replaced(path, good)
            eventually(lambda: not problems())
            assert first(server)[1]["status"]["broken"] is False


def test_one_node_in_full(server: Product) -> None:
    node = get(server.inspect, "/page/node?name=gpu-node-00").json()
    assert node["node"]["node"] == "gpu-node-00"
    assert {device["uuid"] for device in node["node"]["devices"]} == set(node["ledger"]["devices"])
    missing = get(server.inspect, "/page/node?name=" + quote("<script>"))
    assert (missing.status, missing.json()) == (404, {"error": "no such node"})
