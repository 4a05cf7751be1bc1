"""The no-op extender as kube-scheduler meets it: over HTTP, and in its pure replies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from benchmarks.connection import Connection, Reply, exchange
from benchmarks.noop import NamesError, filter_reply, prioritize_reply
from benchmarks.processes import noop_command, running_server
from benchmarks.replies import read_filter, read_prioritize
from benchmarks.workload import Workload

NAMES = 250


@pytest.fixture(scope="module", params=[100, 0], ids=["noop-100", "noop-all"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[int, str]]:
    with running_server(noop_command(request.param), "api") as url:
        yield request.param, url


def _ask(url: str, path: str, body: bytes) -> Reply:
    connection = Connection(url)
    (reply,) = exchange([connection], [connection.request(path, body)], timeout_s=60)
    connection.close()
    return reply


def _request() -> tuple[bytes, list[str]]:
    workload = Workload("whole", NAMES, seed=3)
    body = workload.filter_body(next(workload.pods()))
    return body, json.loads(body)["NodeNames"]


def test_filter_returns_exactly_the_first_names_that_were_sent(server: tuple[int, str]) -> None:
    max_names, url = server
    body, sent = _request()
    reply = _ask(url, "/filter", body)
    answer = read_filter(reply.body)
    assert reply.status == 200
    assert answer.returned == sent[: max_names or NAMES]
    assert answer.rejected == []


def test_prioritize_scores_every_name_that_was_sent_alike(server: tuple[int, str]) -> None:
    _, url = server
    body, sent = _request()
    reply = _ask(url, "/prioritize", body)
    assert reply.status == 200
    assert read_prioritize(reply.body) == sent
    assert {entry["Score"] for entry in json.loads(reply.body)} == {0}


def test_a_request_with_whole_nodes_is_refused_with_the_fix(server: tuple[int, str]) -> None:
    reply = _ask(server[1], "/filter", b'{"Pod":{},"Nodes":{"items":[]},"NodeNames":null}')
    assert reply.status == 400
    assert b"set nodeCacheCapable: true" in reply.body


def test_the_route_of_the_latency_suite_stays_as_it_was(server: tuple[int, str]) -> None:
    reply = _ask(server[1], "/", b"anything at all")
    assert (reply.status, reply.body) == (200, b'{"ok":true}')


def _args(*names: str, pod: str = "{}") -> bytes:
    return f'{{"Pod":{pod},"Nodes":null,"NodeNames":{json.dumps(names, separators=(",", ":"))}}}'.encode()


@pytest.mark.parametrize(
    ("names", "max_names", "returned"),
    [
        pytest.param(("a", "b", "c"), 2, ["a", "b"], id="more names than wanted are cut"),
        pytest.param(("a", "b"), 2, ["a", "b"], id="exactly as many names come back"),
        pytest.param(("a",), 2, ["a"], id="fewer names come back as they are"),
        pytest.param(("a", "b", "c"), 0, ["a", "b", "c"], id="without a limit all come back"),
        pytest.param((), 2, [], id="no names give no names"),
        pytest.param((), 0, [], id="no names and no limit give no names"),
    ],
)
def test_filter_reply(names: tuple[str, ...], max_names: int, returned: list[str]) -> None:
    assert read_filter(filter_reply(_args(*names), max_names)).returned == returned


def test_prioritize_reply_of_no_names_is_an_empty_array() -> None:
    assert read_prioritize(prioritize_reply(_args())) == []


def test_a_pod_that_quotes_the_key_is_not_taken_for_it() -> None:
    quoted = json.dumps({"metadata": {"annotations": {"last": '"NodeNames":["x"]'}}}, separators=(",", ":"))
    assert read_filter(filter_reply(_args("a", "b", pod=quoted), 1)).returned == ["a"]


def test_random_lists_are_answered_as_a_json_reader_would() -> None:
    rng = random.Random(5)
    for _ in range(200):
        names = [f"node-{rng.randrange(10**6)}.internal" for _ in range(rng.randrange(12))]
        limit = rng.randrange(12)
        body = _args(*names)
        assert read_filter(filter_reply(body, limit)).returned == names[: limit or None]
        assert read_prioritize(prioritize_reply(body)) == names


def test_a_request_without_names_is_an_error() -> None:
    with pytest.raises(NamesError, match="no NodeNames"):
        prioritize_reply(b"{}")
