"""Hostile manifests on POST /explain: one line each, and kube-scheduler and probes are answered meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.server.process.product import GOOD, Product, assert_well
from tests.server.process.server_process import Reply, call, connect, get, request
from tests.wire.hostile_texts import BOMBS, POD, SCALARS

pytestmark = pytest.mark.process

LARGEST = 256 * 1024
YAML = "Content-Type: application/yaml"


def filled(unit: str, head: str = POD, tail: str = "") -> bytes:
    """The largest permitted body."""
    text = head.encode() + unit.encode() * (LARGEST // len(unit.encode()))
    return text[: LARGEST - len(tail)] + tail.encode()


LARGE = {
    "values in a list": filled("a,", POD + "x: [", "]"),
    "lines of a list": filled("- a\n", POD + "x:\n"),
    "mappings": filled("{},", POD + "x: [", "]"),
    "keys": (POD + "x:\n" + "".join(f" k{i}: {i}\n" for i in range(18_000))).encode()[:LARGEST],
    "documents": filled("---\n", ""),
    "comments": filled("#\n", ""),
    "one text": filled("x", POD + "x: "),
    "escapes": filled("\\u0041", POD + 'x: "', '"'),
    "tags": filled("!!str a,", POD + "x: [", "]"),
    "anchors": filled("&a a,", POD + "x: [", "]"),
    "directives": "".join(f"%TAG !a{i}! b\n" for i in range(17_000)).encode(),
    "depth": filled("[", POD + "x: "),
    "digits": filled("9", POD + "x: "),
    "mappings of JSON": filled('{"a":[]},', '{"kind":"X","metadata":{"name":"p"},"a":[', "{}]}"),
    "JSON that does not end": filled("[", '{"kind":"Pod","a":'),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


def sent(server: Product, body: bytes) -> Reply:
    with connect(server.inspect, timeout_s=60) as sock:
        return call(sock, request("/explain", body, YAML))


def assert_one_line(reply: Reply, status: int = 400) -> str:
    assert reply.status == status, reply.body
    error: str = reply.json()["error"]
    assert "\n" not in error
    assert len(error) < 2000
    return error


def peak_mib(server: Product) -> int:
    """The peak memory of the worker process."""
    pid = server.process.pid
    (worker,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
    return int(kib) // 1024


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_for_its_aliases(server: Product, bomb: str) -> None:
    error = assert_one_line(sent(server, BOMBS[bomb].encode()))
    assert re.match(r"YAML, line \d+: (alias '\w+'|merge key <<): not read here; ", error)


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda text: repr(text[:40]))
def test_every_scalar_is_read_or_refused_in_one_line(server: Product, scalar: str) -> None:
    reply = sent(server, f"{POD}x: {scalar}\n".encode())
    if SCALARS[scalar]:
        assert reply.status == 200, reply.body
    else:
        assert_one_line(reply)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b'"\\ud800"', id="a lone surrogate"),
        pytest.param(b'"\xed\xa0\x80"', id="a surrogate in bytes"),
        pytest.param(b'"\xff"', id="no text"),
        pytest.param(b"1e999999999", id="a number beyond all"),
        pytest.param(b"9" * 100_000, id="100,000 digits"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"[" * 985 + b"]" * 985, id="a deep list"),
    ],
)
def test_json_is_read_or_refused_in_one_line(server: Product, value: bytes) -> None:
    for field in (b"x", b"nvidia.com/gpu"):
        limits = b'{"name":"c","resources":{"limits":{"%s":%s}}}' % (field, value)
        reply = sent(server, b'{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[%s]}}' % limits)
        if reply.status != 200:
            assert_one_line(reply)


def test_others_are_answered_while_hostile_bodies_are_read(server: Product) -> None:
    bodies = [*LARGE.values(), *(bomb.encode() for bomb in BOMBS.values())]
    for body in bodies:
        sent(server, body)
    before = peak_mib(server)
    done = Event()
    replies: list[Reply] = []

    def attack() -> None:
        try:
            replies.extend(sent(server, body) for body in bodies * 3)
        finally:
            done.set()

    attacker = Thread(target=attack)
    attacker.start()
    asked = 0
    with server.connect() as sock:
        while not done.is_set():
            assert_well(call(sock, request("/filter", GOOD)))
            assert get(server.health, "/livez").body == b"ok"
            asked += 1
    attacker.join()
    assert len(replies) == 3 * len(bodies)
    assert {reply.status for reply in replies} <= {200, 400}
    assert asked > 0
    assert peak_mib(server) - before < 64, "no body leaves more behind than the one before"


def test_all_of_it_left_no_traceback(server: Product) -> None:
    assert "Traceback" not in server.stderr
    assert "ERROR" not in server.stderr
    small = json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}})
    assert sent(server, small.encode()).status == 200
