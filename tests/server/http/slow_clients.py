"""Clients that send or read too slowly."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Mapping
from typing import Self

CLIENTS = 4


class SlowClients:
    """Some clients of each kind on one listener: what each sends, and what it trickles afterwards, which one
    thread does for all."""

    def __init__(self, address: tuple[str, int], kinds: Mapping[str, tuple[bytes, bytes]]) -> None:
        self.sockets = {kind: [small_window(address) for _ in range(CLIENTS)] for kind in kinds}
        for kind, (first, _) in kinds.items():
            for sock in self.sockets[kind]:
                sock.sendall(first)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._trickle, args=(kinds,))
        self._thread.start()

    def _trickle(self, kinds: Mapping[str, tuple[bytes, bytes]]) -> None:
        for position in itertools.count():
            if self._stop.wait(0.05):
                return
            for kind, (_, rest) in kinds.items():
                for sock in self.sockets[kind] if rest else ():
                    with contextlib.suppress(OSError):
                        sock.send(rest[position : position + 1])
            for sock in self.sockets.get("reads byte by byte", ()):
                with contextlib.suppress(OSError):
                    sock.recv(1)

    def __enter__(self) -> Self:
        return self

    def stop(self) -> None:
        """Neither send nor read any more: the kernel reports a reset only once, which is for the caller."""
        self._stop.set()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.stop()
        for sock in itertools.chain(*self.sockets.values()):
            sock.close()


def small_window(address: tuple[str, int]) -> socket.socket:
    """A connection of a client for which the kernel keeps few unread bytes."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect(address)
    return sock
