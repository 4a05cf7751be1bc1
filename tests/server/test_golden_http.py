"""The bodies of a real kube-scheduler, over HTTP: the answers equal those of the extender."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.app import NO_BIND, Verb
from tests.server.http.in_process import Address, running
from tests.server.process.product import GOLDEN, INVENTORY, extender_on
from tests.server.process.server_process import Reply, call, connect, request
from tests.server.served import served

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
def server() -> Iterator[Address]:
    with served() as there, running(there.apps.api) as found:
        yield found.address


@pytest.fixture
def extender() -> Extender:
    return extender_on(INVENTORY.read_bytes())


def expected(extender: Extender, name: str) -> bytes:
    verbs: dict[str, Verb] = {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "preempt": extender.preemptor.preempt,
        # No cluster for binds.
        "bind": lambda body, deadline: Answer(NO_BIND, 1, 0),
    }
    return verbs[verb_of(name)](BODIES[name], time.monotonic() + 60).body


def verb_of(name: str) -> str:
    return name.split(".")[1]


def assert_success(reply: Reply, body: bytes) -> None:
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["content-length"] == str(len(body))
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["connection"] == "keep-alive"
    assert not {"transfer-encoding", "content-encoding"} & reply.headers.keys()


def test_every_body_twice_on_one_connection(server: Address, extender: Extender) -> None:
    assert len(REPEATABLE) >= 15
    with connect(server) as sock:
        for name, body in [*REPEATABLE.items(), *reversed(REPEATABLE.items())]:
            assert_success(
                call(sock, request(f"/{verb_of(name)}", body, *GO_HEADERS)), expected(extender, name)
            )


@pytest.mark.parametrize("name", PREEMPT)
def test_victims_that_are_named_first(extender: Extender, name: str) -> None:
    with served() as there:
        assert there.post("preempt", BODIES[name]).data == expected(extender, name)


def test_the_same_request_in_chunks_gets_the_same_answer(server: Address, extender: Extender) -> None:
    name = "full-01-gpu1.filter.json"
    body = BODIES[name]
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(server) as sock:
        assert_success(call(sock, head + chunks), expected(extender, name))
