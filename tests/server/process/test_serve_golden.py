"""The bodies of a real kube-scheduler, over HTTP: the answers equal those of the extender in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from scheduler_ext.extender.answer import Answer
from scheduler_ext.server.app import NO_BIND, Verb
from tests.server.process.product import GOLDEN, INVENTORY, Product, extender_on
from tests.server.process.server_process import Reply, call, connect, request

BODIES = {path.name: path.read_bytes() for path in sorted(GOLDEN.glob("*.json"))}
# preempt remembers named nodes, so that answers for other pods change for a while.
PREEMPT = {name: body for name, body in BODIES.items() if name.endswith(".preempt.json")}
REPEATABLE = {name: body for name, body in BODIES.items() if name not in PREEMPT}
# The headers kube-scheduler's client sends (Go's net/http).
GO_HEADERS = (
    "User-Agent: Go-http-client/1.1",
    "Content-Type: application/json",
    "Accept-Encoding: gzip",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    """The answer of a fresh extender to each body."""
    until = time.monotonic() + 60
    answers = {}
    for name, body in BODIES.items():
        extender = extender_on(INVENTORY.read_bytes())
        verbs: dict[str, Verb] = {
            "filter": extender.filter,
            "prioritize": extender.prioritize,
            "preempt": extender.preemptor.preempt,
            # No cluster for binds.
            "bind": lambda body, deadline: Answer(NO_BIND, 1, 0),
        }
        answers[name] = verbs[verb_of(name)](body, until).body
    return answers


def verb_of(name: str) -> str:
    return name.split(".")[1]


def assert_success(reply: Reply, body: bytes) -> None:
    assert reply.status == 200
    assert reply.body == body
    assert reply.headers["content-length"] == str(len(body))
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["connection"] == "keep-alive"
    assert "transfer-encoding" not in reply.headers
    assert "content-encoding" not in reply.headers


def test_every_body_twice_on_one_connection(server: Product, expected: dict[str, bytes]) -> None:
    assert len(REPEATABLE) >= 15
    with connect(server.api) as sock:
        for name, body in [*REPEATABLE.items(), *reversed(REPEATABLE.items())]:
            reply = call(sock, request(f"/{verb_of(name)}", body, *GO_HEADERS))
            assert_success(reply, expected[name])
    assert server.logged() == []


@pytest.mark.process
@pytest.mark.parametrize("name", PREEMPT)
def test_victims_that_are_named_first(expected: dict[str, bytes], name: str) -> None:
    with Product() as server:
        assert_success(server.ready().post("preempt", BODIES[name], *GO_HEADERS), expected[name])


@pytest.mark.parametrize("name", REPEATABLE)
def test_each_body_on_a_connection_of_its_own(server: Product, expected: dict[str, bytes], name: str) -> None:
    assert_success(server.post(verb_of(name), BODIES[name], *GO_HEADERS), expected[name])


def test_the_same_request_in_chunks_gets_the_same_answer(server: Product, expected: dict[str, bytes]) -> None:
    name = "full-01-gpu1.filter.json"
    body = BODIES[name]
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(server.api) as sock:
        assert_success(call(sock, head + chunks), expected[name])


def test_keys_have_the_capitals_go_expects(server: Product) -> None:
    with connect(server.api) as sock:
        result = call(sock, request("/filter", BODIES["cache-01-gpu1.filter.json"])).json()
        scores = call(sock, request("/prioritize", BODIES["cache-01-gpu1.prioritize.json"])).json()
    assert list(result) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
    assert {tuple(score) for score in scores} == {("Host", "Score")}
    assert all(type(score["Score"]) is int for score in scores)
    asked = json.loads(BODIES["cache-01-gpu1.prioritize.json"])["NodeNames"]
    assert [score["Host"] for score in scores] == asked
