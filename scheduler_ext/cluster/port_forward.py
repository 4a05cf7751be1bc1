"""A question to one port of a pod, through the API server, as `kubectl port-forward` leads there."""

from __future__ import annotations

import http.client
import time
from urllib.parse import quote

from scheduler_ext.cluster.transport import Forwarded, Transport
from scheduler_ext.cluster.wording import in_words, without_numbers
from scheduler_ext.core.errors import ClusterError

_END_S = 2.0
_LOOK_S = 0.005
# The inspection listener answers whoever comes by loopback, and says so by this name.
_HOST = "localhost"


def get_from_pod(
    transport: Transport, namespace: str, pod: str, port: int, path: str, timeout_s: float
) -> tuple[int, bytes]:
    """The status and body of a GET from a pod's own loopback, never silent for longer than ``timeout_s``.

    Raises ClusterError where none comes.
    """
    where = f"pod {namespace}/{pod}, port {port}"
    try:
        forwarded = transport.forward(
            f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward", port
        )
    except ClusterError as error:
        # Whatever it is: the API server itself may well answer.
        raise ClusterError(f"{where}: {error}") from None
    try:
        sock = forwarded.socket(port)
        sock.settimeout(timeout_s)
        connection = http.client.HTTPConnection(_HOST, port)
        connection.sock = sock
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        why = without_numbers(str(forwarded.error(port) or "")) or in_words(error)
        raise ClusterError(f"{where}: {why[:300]}") from None
    finally:
        _end(forwarded)


def _end(forwarded: Forwarded) -> None:
    """Close it on both sides. The client's own thread ends when it sees that ours is closed; the WebSocket it
    then leaves open, where the server has closed it before."""
    forwarded.close()
    until = time.monotonic() + _END_S
    while forwarded.connected and time.monotonic() < until:
        time.sleep(_LOOK_S)
    forwarded.websocket.shutdown()
