"""Clients that send or read too slowly, dozens of each kind at once."""

from __future__ import annotations

import contextlib
import socket
import threading

CLIENTS = 64


class SlowClients:
    """Many clients of each kind on one listener, fed by one thread."""

    def __init__(self, address: tuple[str, int], kinds: dict[str, tuple[bytes, bytes]]) -> None:
        self.sockets: dict[str, list[socket.socket]] = {kind: [] for kind in kinds}
        for kind, (first, _) in kinds.items():
            for _ in range(CLIENTS):
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.settimeout(60)
                sock.connect(address)
                sock.sendall(first)
                self.sockets[kind].append(sock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._trickle, args=(kinds,))
        self._thread.start()

    def _trickle(self, kinds: dict[str, tuple[bytes, bytes]]) -> None:
        position = 0
        while not self._stop.wait(0.1):
            for kind, (_, rest) in kinds.items():
                for sock in self.sockets[kind] if rest else ():
                    with contextlib.suppress(OSError):
                        sock.send(rest[position : position + 1])
            for sock in self.sockets.get("reads byte by byte", ()):
                with contextlib.suppress(OSError):
                    sock.recv(1)
            position += 1

    def __enter__(self) -> SlowClients:
        return self

    def stop(self) -> None:
        """Neither send nor read any more: the kernel reports a reset only once, which is for the caller."""
        self._stop.set()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.stop()
        for sockets in self.sockets.values():
            for sock in sockets:
                sock.close()
