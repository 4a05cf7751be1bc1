"""The ports of one pod, which has no network of its own here: each is another, free one of loopback."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
# What a container can name its own addresses by.
_OWN_ADDRESS = re.compile(r"(?:127\.0\.0\.1|0\.0\.0\.0|\[::\]):(\d{2,5})\b")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on now; taken together, so that none comes twice."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind((LOOPBACK, 0))
        return [sock.getsockname()[1] for sock in sockets]


class Ports:
    """From ports as the pod names them, by number or by name, to those of this machine."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self._names = names
        self._local: dict[int, int] = {}

    def local(self, port: int | str) -> int:
        """The port of loopback that stands for a port of the pod."""
        number = self._names[port] if isinstance(port, str) else port
        if number not in self._local:
            (self._local[number],) = free_ports(1)
        return self._local[number]

    def localize(self, text: str) -> str:
        """`text` with every address of the pod's own replaced by the one that stands for it."""
        return _OWN_ADDRESS.sub(lambda found: f"{LOOPBACK}:{self.local(int(found[1]))}", text)
