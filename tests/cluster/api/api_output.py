"""Output of the server: at once, cut short, or in small pieces."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterable

from tests.cluster.api.api_faults import Cut, Drip

# The longest delay before a waiting thread notices that its client is gone.
LOOK_S = 0.1
# Pieces of a body are joined up to this size for one send; an object has some 8 kB.
_JOINED = 64


class ConnectionEndError(Exception):
    """The connection ends here, and nothing more is sent."""


class Output:
    """The output of one connection; `fault` applies to the bodies of the current answer."""

    def __init__(self, connection: socket.socket, stopping: threading.Event) -> None:
        self._connection = connection
        self._stopping = stopping
        self._sent = 0
        self._fault: Cut | Drip | None = None

    def begin(self, fault: Cut | Drip | None) -> None:
        """The next body meets this fault."""
        self._fault = fault
        self._sent = 0

    def raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def body(self, data: bytes) -> None:
        """Send a piece of a body; raises ConnectionEndError where it is to end in the middle."""
        if isinstance(self._fault, Cut):
            left = self._fault.after_bytes - self._sent
            self._sent += len(data)
            self._connection.sendall(data[:left])
            if len(data) >= left:
                self.end(reset=self._fault.reset)
        elif isinstance(self._fault, Drip):
            for start in range(0, len(data), self._fault.piece_bytes):
                self._connection.sendall(data[start : start + self._fault.piece_bytes])
                if self._stopping.wait(self._fault.pause_s):
                    self.end()
        else:
            self._connection.sendall(data)

    def bodies(self, pieces: list[bytes | memoryview]) -> None:
        """Send a body of many pieces, without a copy of the whole."""
        for start in range(0, len(pieces), _JOINED):
            self.body(b"".join(pieces[start : start + _JOINED]))

    def chunks(self, lines: Iterable[bytes]) -> None:
        """Send lines, each a chunk of its own."""
        rest = (b"%x\r\n%b\r\n" % (len(one), one) for one in lines)
        while data := b"".join(itertools.islice(rest, _JOINED)):
            self.body(data)

    def end(self, *, reset: bool = False) -> None:
        """End the connection: raises ConnectionEndError."""
        if reset:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionEndError

    def wait(self, event: threading.Event) -> None:
        """Wait for an event; raises ConnectionEndError if the client is gone or the server stops."""
        while not event.wait(LOOK_S):
            if self._stopping.is_set() or self.gone():
                self.end()

    def gone(self) -> bool:
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def is_reset(connection: socket.socket) -> bool:
    on, seconds = struct.unpack("ii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
    return bool(on) and seconds == 0
