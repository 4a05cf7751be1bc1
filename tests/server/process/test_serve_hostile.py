"""Hostile requests: each gets one JSON error and one log line, and the next good one is served."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube_objects import pod
from tests.server.process.product import FREE_NODE, GOOD, WHOLE, Product, assert_well, config_file
from tests.server.process.server_process import Reply, call, connect, read_reply, read_to_end, request

pytestmark = pytest.mark.process

LIMIT = 2_000_000
DEEP = b"[" * 100_000
DEEP_CLOSED = DEEP + b"]" * 100_000
DEEP_OBJECTS = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
DIGITS = b"9" * 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("hostile")
    with Product(config=config_file(folder, server={"maxBodyBytes": LIMIT})) as process:
        yield process.ready()


def args(pod_json: bytes = b"{}", more: bytes = b'"NodeNames":["n"]') -> bytes:
    return b'{"Pod":%s,%s}' % (pod_json, more)


def spec(json_: bytes) -> bytes:
    return args(b'{"spec":{%s}}' % json_)


def limits(quantity: bytes) -> bytes:
    return spec(b'"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":%s}}}]' % quantity)


BAD_BODIES = [
    pytest.param(b"", "body: empty", id="nothing"),
    pytest.param(b" \n\t", "body: ", id="white space"),
    pytest.param(b"<!doctype html><html><p>hello</p></html>", "malformed", id="HTML"),
    pytest.param(b"Pod=x&NodeNames=y", "malformed", id="a form"),
    pytest.param(b"Pod: {}\nNodeNames: [n]\n", "malformed", id="YAML"),
    pytest.param(GOOD[:-1], "truncated", id="JSON cut short, sent whole"),
    pytest.param(GOOD + GOOD, "trailing", id="two requests in one body"),
    pytest.param(b"[" + GOOD + b"]", "Expected `object`", id="a list of requests"),
    pytest.param(b"null", "Expected `object`", id="null"),
    pytest.param(b'{"Pod":null,"NodeNames":["n"]}', "Pod: missing", id="no pod"),
    pytest.param(DEEP, "Expected `object`, got `array`", id="a depth bomb that does not end"),
    pytest.param(args(DEEP_CLOSED), "nested too deeply", id="a depth bomb as the pod"),
    pytest.param(args(b'{"x":%s}' % DEEP), "nested too deeply", id="in an unknown field, open"),
    pytest.param(args(b'{"x":%s}' % DEEP_CLOSED), "nested too deeply", id="in an unknown field, closed"),
    pytest.param(args(b'{"x":%s}' % DEEP_OBJECTS), "nested too deeply", id="of objects in an unknown field"),
    pytest.param(args(more=b'"Future":%s' % DEEP_CLOSED), "nested too deeply", id="beside the pod"),
    pytest.param(limits(DEEP_CLOSED), "nested too deeply", id="as a quantity"),
    pytest.param(spec(b'"volumes":[%s]' % DEEP_OBJECTS), "nested too deeply", id="as a volume"),
    pytest.param(args(more=b'"Nodes":{"items":[%s]}' % DEEP_OBJECTS), "nested too deeply", id="as a node"),
    pytest.param(spec(b'"priority":%s' % DIGITS), "Pod.spec.priority: ", id="a priority of 100,000 digits"),
    pytest.param(spec(b'"priority":-%s' % DIGITS), "Pod.spec.priority: ", id="and below zero"),
    pytest.param(spec(b'"priority":1e999999'), "Pod.spec.priority: ", id="with a huge exponent"),
    pytest.param(spec(b'"priority":NaN'), "malformed", id="NaN in a known field"),
    pytest.param(args(b'{"x":NaN}'), "malformed", id="NaN in an unknown field"),
    pytest.param(limits(b"NaN"), "malformed", id="NaN as a quantity"),
    pytest.param(args(b'{"x":-Infinity}'), "malformed", id="infinity"),
    pytest.param(args(b'{"metadata":{"name":"\xff"}}'), "not UTF-8 at byte", id="invalid UTF-8 in a name"),
    pytest.param(args(b'{"x":"\xc3("}'), "not UTF-8 at byte", id="in a skipped field"),
    pytest.param(args(b'{"\xed\xa0\x80":1}'), "not UTF-8 at byte", id="in a skipped key"),
    pytest.param(limits(b'"\xc0\xaf"'), "not UTF-8 at byte", id="in a quantity"),
    pytest.param(args(b'{"metadata":{"name":"\\ud800"}}'), "malformed", id="half a character, escaped"),
    pytest.param(GOOD.decode().encode("utf-16"), "UTF-16", id="UTF-16"),
    pytest.param(GOOD.decode().encode("utf-16-be"), "UTF-16", id="UTF-16 without a mark"),
    pytest.param(GOOD.decode().encode("utf-32"), "UTF-16 or UTF-32", id="UTF-32"),
    pytest.param(b"\xef\xbb\xbf" + GOOD, "malformed", id="a byte order mark"),
    pytest.param(b"\x00" * 1000, "UTF-16", id="zero bytes"),
    pytest.param(b"\x1f\x8b\x08\x00" + bytes(range(256)), "not UTF-8", id="gzip that does not say so"),
]


def typed(field: str, **wrong: Any) -> Any:
    """A request with one field of the wrong type, and how the error begins."""
    return pytest.param(json.dumps({"Pod": {}, "NodeNames": ["n"]} | wrong).encode(), f"{field}: ", id=field)


def container(**wrong: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c"}, wrong]}}


WRONG_TYPES = [
    typed("NodeNames", NodeNames="n"),
    typed("NodeNames[1]", NodeNames=["n", 5]),
    typed("Nodes", Nodes=[]),
    typed("Nodes.items", Nodes={"items": {}}),
    typed("Nodes.items[1]", Nodes={"items": [{}, 7]}),
    typed("Nodes.items[0].metadata.name", Nodes={"items": [{"metadata": {"name": []}}]}),
    typed("Pod", Pod="p"),
    typed("Pod.metadata", Pod={"metadata": []}),
    typed("Pod.metadata.annotations[...]", Pod={"metadata": {"annotations": {"a": 1}}}),
    typed("Pod.spec.containers", Pod={"spec": {"containers": {}}}),
    typed("Pod.spec.containers[1].name", Pod=container(name=True)),
    typed("Pod.spec.containers[1].resources.limits", Pod=container(resources={"limits": []})),
    typed("Pod.spec.initContainers[0]", Pod={"spec": {"initContainers": ["c"]}}),
    typed("Pod.spec.priority", Pod={"spec": {"priority": "high"}}),
    pytest.param(limits(b"{}"), "Pod.spec: container 'c': nvidia.com/gpu: ", id="a quantity of an object"),
    pytest.param(limits(b"true"), "Pod.spec: container 'c': nvidia.com/gpu: ", id="a quantity of a word"),
]


def assert_refused(server: Product, reply: Reply, status: int, needle: str) -> None:
    """One JSON error, and one short log line that says the same."""
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), reply.body
    assert list(reply.json()) == ["error"]
    error = reply.json()["error"]
    assert needle in error
    (line,) = server.logged()
    assert f"refused with {status}: {error}" in line
    assert len(line) < 400


@pytest.mark.parametrize(("body", "needle"), [*BAD_BODIES, *WRONG_TYPES])
def test_a_bad_body_is_a_400_on_a_connection_that_stays(server: Product, body: bytes, needle: str) -> None:
    with connect(server.api) as sock:
        for verb in ("filter", "prioritize"):
            reply = call(sock, request(f"/{verb}", body))
            assert reply.headers["connection"] == "keep-alive"
            assert_refused(server, reply, 400, needle)
        assert_well(call(sock, request("/filter", GOOD)))
    assert_well(server.post("filter", GOOD))


@pytest.mark.parametrize(("body", "needle"), WRONG_TYPES)
def test_the_field_of_the_wrong_type_comes_first(server: Product, body: bytes, needle: str) -> None:
    assert server.post("filter", body).json()["error"].startswith(needle)
    assert len(server.logged()) == 1


@pytest.mark.parametrize(
    ("header", "needle"),
    [
        pytest.param("Content-Type: text/html", "Content-Type: 'text/html'", id="HTML"),
        pytest.param("Content-Type: application/vnd.kubernetes.protobuf", "protobuf", id="protobuf"),
        pytest.param("Content-Type: multipart/form-data; boundary=x", "multipart", id="a form"),
        pytest.param("Content-Type: " + "x" * 5000, "Content-Type: 'xxx", id="a type of 5 kB"),
        pytest.param("Content-Encoding: gzip", "Content-Encoding: 'gzip'", id="compressed"),
        pytest.param("Content-Encoding: identity, br", "Content-Encoding", id="compressed in the end"),
    ],
)
def test_another_content_is_a_415(server: Product, header: str, needle: str) -> None:
    with connect(server.api) as sock:
        reply = call(sock, request("/filter", GOOD, header))
        assert reply.headers["connection"] == "keep-alive"
        assert_refused(server, reply, 415, needle)
        assert_well(call(sock, request("/filter", GOOD)))


@pytest.mark.parametrize(
    "header",
    [
        "Content-Type: application/json",
        "Content-Type: APPLICATION/JSON; charset=utf-8",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Encoding: identity",
        "X-Nothing: x",
    ],
)
def test_json_may_be_called_so_or_nothing(server: Product, header: str) -> None:
    assert_well(server.post("filter", GOOD, header))


def chunked(body: bytes, size: int = 65536) -> bytes:
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return (
        b"POST /filter HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    )


TOO_LARGE = GOOD + b" " * (LIMIT + 1 - len(GOOD))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(request("/filter", TOO_LARGE), id="announced"),
        pytest.param(request("/filter", b"").replace(b"Length: 0", b"Length: 99999999999999"), id="100 TB"),
        pytest.param(chunked(TOO_LARGE), id="in chunks"),
        pytest.param(chunked(TOO_LARGE)[: LIMIT + 60_000], id="in chunks without end"),
    ],
)
def test_a_body_above_the_limit_is_a_413(server: Product, raw: bytes) -> None:
    with connect(server.api) as sock:
        sock.sendall(raw)
        reply = read_reply(sock)
        assert reply.headers["connection"] == "close"
        assert_refused(server, reply, 413, f"larger than {LIMIT} bytes")
    assert_well(server.post("filter", GOOD))


@pytest.mark.parametrize("raw", [request("/filter", TOO_LARGE[:-1]), chunked(TOO_LARGE[:-1])])
def test_a_body_of_exactly_the_limit_is_read(server: Product, raw: bytes) -> None:
    with connect(server.api) as sock:
        assert_well(call(sock, raw))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(request("/filter", GOOD)[:-1], id="one byte before its announced end"),
        pytest.param(request("/filter", GOOD)[: -len(GOOD)], id="before its first byte"),
        pytest.param(chunked(GOOD)[:-7], id="in a chunk"),
        pytest.param(chunked(GOOD)[:-2], id="before the last empty line"),
    ],
)
def test_a_client_that_ends_its_side_early_gets_a_400(server: Product, raw: bytes) -> None:
    with connect(server.api) as sock:
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)
        reply = read_reply(sock)
        assert reply.headers["connection"] == "close"
        assert_refused(server, reply, 400, "ended before its announced length")
        assert read_to_end(sock) == b""
    assert_well(server.post("filter", GOOD))


def test_names_cannot_forge_log_lines(server: Product) -> None:
    forged = "p\n2026-01-01 00:00:00,000 CRITICAL root: on fire\x1b[2J\r\u2028"
    asking = pod(forged, {WHOLE: "-1"})
    body = json.dumps({"Pod": asking, "NodeNames": [FREE_NODE]}).encode()
    assert server.post("filter", body).status == 200
    (line,) = server.logged()
    assert "p\\x0a2026-01-01" in line
    assert not set("\x1b\r\u2028") & set(line)


def test_all_of_it_left_the_server_well(server: Product) -> None:
    assert "Traceback" not in server.stderr
    assert "ERROR" not in server.stderr
