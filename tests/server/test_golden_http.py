"""The bodies of a real kube-scheduler, over HTTP: the answers equal those of the extender."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.http.in_process import Address, running
from tests.server.process.product import GOLDEN, INVENTORY, answers_of
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


def expected(*names: str) -> list[bytes]:
    return answers_of(INVENTORY.read_bytes(), [(verb_of(name), BODIES[name]) for name in names])


def verb_of(name: str) -> str:
    return name.split(".")[1]


def assert_success(reply: Reply, body: bytes) -> None:
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["content-length"] == str(len(body))
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["connection"] == "keep-alive"
    assert not {"transfer-encoding", "content-encoding"} & reply.headers.keys()


def test_every_body_twice_on_one_connection(server: Address) -> None:
    assert len(REPEATABLE) >= 15
    names = [*REPEATABLE, *reversed(REPEATABLE)]
    with connect(server) as sock:
        for name, answer in zip(names, expected(*names), strict=True):
            raw = request(f"/{verb_of(name)}", BODIES[name], *GO_HEADERS)
            assert_success(call(sock, raw), answer)


@pytest.mark.parametrize("name", PREEMPT)
def test_victims_that_are_named_first(name: str) -> None:
    with served() as there:
        assert there.post("preempt", BODIES[name]).data == expected(name)[0]
