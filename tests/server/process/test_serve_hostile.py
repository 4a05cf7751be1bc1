"""Hostile manifests, while others are answered."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.server.process.product import GOOD, Product, assert_well
from tests.server.process.server_process import Reply, call, connect, get, request
from tests.wire.hostile_texts import BOMBS, POD

pytestmark = pytest.mark.process

LARGEST = 256 * 1024
YAML = "Content-Type: application/yaml"
FILTER = request("/filter", GOOD)


def filled(unit: str, head: str = POD, tail: str = "") -> bytes:
    """The largest permitted body."""
    text = head.encode() + unit.encode() * (LARGEST // len(unit.encode()))
    return text[: LARGEST - len(tail)] + tail.encode()


BODIES = [
    filled("a,", POD + "x: [", "]"),
    filled("- a\n", POD + "x:\n"),
    filled("{},", POD + "x: [", "]"),
    filled("---\n", ""),
    filled("\\u0041", POD + 'x: "', '"'),
    filled("!!str a,", POD + "x: [", "]"),
    filled("&a a,", POD + "x: [", "]"),
    "".join(f"%TAG !a{i}! b\n" for i in range(17_000)).encode(),
    filled("[", POD + "x: "),
    filled('{"a":[]},', '{"kind":"X","metadata":{"name":"p"},"a":[', "{}]}"),
    filled("[", '{"kind":"Pod","a":'),
    *(bomb.encode() for bomb in BOMBS.values()),
]


def peak_mib(server: Product) -> int:
    """The peak memory of the worker process."""
    pid = server.process.pid
    (worker,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
    return int(kib) // 1024


def sent(server: Product, body: bytes) -> Reply:
    with connect(server.inspect) as sock:
        return call(sock, request("/explain", body, YAML))


def test_others_are_answered_while_hostile_bodies_are_read() -> None:
    with Product() as server:
        server.ready()
        first = [sent(server, body) for body in BODIES]
        before = peak_mib(server)
        done = Event()
        replies: list[Reply] = []

        def attack() -> None:
            try:
                replies.extend(sent(server, body) for body in BODIES)
            finally:
                done.set()

        attacker = Thread(target=attack)
        attacker.start()
        with server.connect() as sock:
            while not done.is_set():
                assert_well(call(sock, FILTER))
                assert get(server.health, "/livez").body == b"ok"
        attacker.join()
        assert [reply.status for reply in replies] == [reply.status for reply in first]
        assert {reply.status for reply in replies} <= {200, 400}
        assert all(len(reply.body) < 4000 for reply in replies if reply.status == 400)
        assert peak_mib(server) - before < 64, "no body leaves more behind than the one before"
        assert "Traceback" not in server.stderr
