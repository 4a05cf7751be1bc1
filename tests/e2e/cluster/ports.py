"""The ports of one pod, which has no network of its own here: each is mapped to a free port of loopback."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
# Names of a container's own addresses.
_OWN_ADDRESS = re.compile(r"(?:127\.0\.0\.1|0\.0\.0\.0|\[::\]):(\d{2,5})\b")
# Linux takes 32768 and up for outgoing connections, other systems 49152 and up.
_NOT_EPHEMERAL = (10_000, 32_768)
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports of loopback without a listener, each given once.

    The caller may listen only seconds later, like a pod that waits for a Secret. Until then no outgoing
    connection must get the port, so it is outside the range for these.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*_NOT_EPHEMERAL)
        if port not in _given and _is_free(port):
            _given.add(port)
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class Ports:
    """From ports as the pod names them, by number or by name, to those of this machine."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self._names = names
        self._local: dict[int, int] = {}

    def local(self, port: int | str) -> int:
        """The loopback port for a port of the pod."""
        number = self._names[port] if isinstance(port, str) else port
        if number not in self._local:
            (self._local[number],) = free_ports(1)
        return self._local[number]

    def localize(self, text: str) -> str:
        """`text` with every own address of the pod replaced by the mapped one."""
        return _OWN_ADDRESS.sub(lambda found: f"{LOOPBACK}:{self.local(int(found[1]))}", text)
