"""The subresource portforward of a pod over a WebSocket, as a kubelet serves it through the API server.

Binary messages whose first byte is a channel: 0 is data, 1 is errors; each begins with the port, two bytes,
the lowest first (k8s.io/kubelet/pkg/cri/streaming/portforward, websocket.go).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
from collections.abc import Callable

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 0x2, 0x8


def accept_headers(key: str) -> dict[str, str]:
    accepted = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
    return {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accepted,
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
    }


def forward(
    connection: socket.socket, read: Callable[[int], bytes], port: int, target: tuple[str, int] | None
) -> None:
    """Carry one connection to the local stand-in of a pod's port; None: no listener there."""
    for channel in (0, 1):
        _send(connection, bytes((channel,)) + struct.pack("<H", port))
    try:
        if target is None:
            raise ConnectionRefusedError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")
        pod = socket.create_connection(target, timeout=60)
    except OSError as error:
        _send(connection, b"\x01" + str(error).encode())
        _frame(connection, _CLOSE, struct.pack(">H", 1000))
        return
    with pod, contextlib.suppress(OSError):
        back = threading.Thread(target=_answers, args=(connection, pod), daemon=True)
        back.start()
        while (message := _message(read)) is not None:
            if message[:1] == b"\x00":
                pod.sendall(message[1:])
        pod.shutdown(socket.SHUT_RDWR)
        back.join(60)


def _answers(connection: socket.socket, pod: socket.socket) -> None:
    try:
        while piece := pod.recv(1 << 16):
            _send(connection, b"\x00" + piece)
        _frame(connection, _CLOSE, struct.pack(">H", 1000))
    except OSError:
        # Either side is gone.
        return


def _send(connection: socket.socket, payload: bytes) -> None:
    _frame(connection, _BINARY, payload)


def _frame(connection: socket.socket, kind: int, payload: bytes) -> None:
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 127, size)
    connection.sendall(head + payload)


def _message(read: Callable[[int], bytes]) -> bytes | None:
    """The next binary message of the client, unmasked; None at its end."""
    while True:
        head = read(2)
        if len(head) < 2:
            return None
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(read(2 if size == 126 else 8), "big")
        mask = read(4)
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(read(size)))
        if head[0] & 0x0F == _CLOSE:
            return None
        if head[0] & 0x0F == _BINARY:
            return payload
