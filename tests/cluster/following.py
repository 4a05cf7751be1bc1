"""The recorded events of a followed cluster, and how to wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.wire.kube import NodeObject
from scheduler_ext.wire.watching import Broken, Decoder
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request, lists, watches
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import node


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it holds, a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Heard(EventHandler[NodeObject]):
    """A handler that records its calls, one word each; `fail` is called before a word is handled."""

    together = 1000

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.clocks: list[ServerClock] = []
        self.fail: Callable[[str], None] = lambda word: None

    def begin(self) -> None:
        self._take("begin")

    def upsert(self, items: Sequence[NodeObject], clock: ServerClock) -> None:
        self.clocks.append(clock)
        for item in items:
            self._take(f"seen {_name(item)}")

    def gone(self, item: NodeObject | Broken) -> None:
        self._take(f"gone {item.name if isinstance(item, Broken) else _name(item)}")

    def broken(self, item: Broken) -> None:
        self._take(f"broken {item.name}")

    def end(self) -> None:
        self._take("end")

    def wait(self, *words: str) -> None:
        """Wait for exactly these words, and forget them."""
        eventually(lambda: len(self.words) >= len(words))
        assert self.words == list(words)
        self.words.clear()

    def _take(self, word: str) -> None:
        self.fail(word)
        self.words.append(word)


def _name(node: NodeObject) -> str | None:
    return node.metadata.name if node.metadata else None


# The events of the Nodes a and b.
LISTED = ("begin", "seen a", "seen b", "end")


class Followed:
    """A reflector of Nodes, its events, and its server."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.heard = Heard()
        self.reflector = Reflector("nodes", transport, NODES, Decoder(NodeObject), self.heard)
        self._watch: Request | None = None

    def start(self, *words: str) -> None:
        """Follow, receive the list and start the watch."""
        self.reflector.start()
        self.heard.wait(*words)
        self.watched()

    def put(self, name: str, **fields: Any) -> None:
        self.server.store.put(NODES, node(name, **fields))

    def watched(self) -> None:
        """Wait for the next watch, alone: an abandoned one stays connected for a moment, and could meet the
        fault for the next."""
        begun = watches(NODES)
        self.server.wait_for_watches(1, lambda watch: begun(watch) and watch is not self._watch)
        self.server.wait_for_watches(1, begun)
        self._watch = self.server.log.all(begun)[-1]

    def lists(self) -> int:
        return self.server.log.count(lists(NODES))

    def restarts(self, reason: str) -> int:
        return self.reflector.restarts[self.reflector.name, reason]
