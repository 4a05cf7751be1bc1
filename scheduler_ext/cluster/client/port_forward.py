"""A GET from one port of a pod, through the API server, as `kubectl port-forward` does it."""

from __future__ import annotations

import http.client
import io
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from websocket import ABNF, WebSocketConnectionClosedException

from scheduler_ext.cluster.client.connection_errors import in_words, without_numbers
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError

if TYPE_CHECKING:
    import socket

    from websocket import WebSocket

ANSWER_S = 30.0
# The first byte of each message.
_DATA, _ERRORS = 0, 1
# Each channel begins with its port.
_PORT_BYTES = 2
# The inspection listener accepts requests on loopback by this name.
_HOST = "localhost"


def get_from_pod(
    transport: Transport, namespace: str, pod: str, port: int, path: str, timeout_s: float = ANSWER_S
) -> tuple[int, bytes]:
    """The status and body of a GET on a pod's loopback; no silence may last longer than ``timeout_s``.

    Raises ClusterError where no answer comes.
    """
    url = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward"
    asked = f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\nConnection: close\r\n\r\n"
    where = f"pod {namespace}/{pod}, port {port}"
    try:
        with transport.websocket(url, {"ports": str(port)}, timeout_s) as websocket:
            websocket.send_binary(bytes((_DATA,)) + asked.encode())
            answer, errors = _received(websocket)
    except ClusterError as error:
        # Not UnreachableError: the API server itself may well answer.
        raise ClusterError(f"{where}: {error}") from None
    if errors:
        raise ClusterError(f"{where}: {without_numbers(errors.decode(errors='replace'))[:300]}")
    try:
        response = http.client.HTTPResponse(cast("socket.socket", _Whole(answer)))
        response.begin()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise ClusterError(f"{where}: no whole answer: {in_words(error)}") from None


def _received(websocket: WebSocket) -> tuple[bytes, bytes]:
    """All data and errors until the other side ends."""
    channels: defaultdict[int, bytearray] = defaultdict(bytearray)
    while True:
        try:
            kind, message = websocket.recv_data()
        except (WebSocketConnectionClosedException, ConnectionError):
            # Some end without a closing frame; the answer itself shows whether it is whole.
            break
        if kind == ABNF.OPCODE_CLOSE:
            break
        if message:
            channels[message[0]] += message[1:]
    return bytes(channels[_DATA][_PORT_BYTES:]), bytes(channels[_ERRORS][_PORT_BYTES:])


class _Whole:
    """Stands in for the socket that http.client reads from."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._answer)
