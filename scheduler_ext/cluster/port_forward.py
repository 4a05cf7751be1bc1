"""A question to one port of a pod, through the API server, as `kubectl port-forward` leads there."""

from __future__ import annotations

import http.client
import time
from urllib.parse import quote

from scheduler_ext.cluster.transport import Forwarded, Transport
from scheduler_ext.core.errors import ClusterError

_TIMEOUT_S = 30.0
_END_S = 2.0
_LOOK_S = 0.005
# The inspection listener answers whoever comes by loopback, and says so by this name.
_HOST = "localhost"


def get_from_pod(transport: Transport, namespace: str, pod: str, port: int, path: str) -> tuple[int, bytes]:
    """The status and body of a GET from a pod's own loopback. Raises ClusterError where none comes."""
    url = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward"
    forwarded = transport.forward(url, port)
    try:
        sock = forwarded.socket(port)
        sock.settimeout(_TIMEOUT_S)
        connection = http.client.HTTPConnection(_HOST, port)
        connection.sock = sock
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        why = str(forwarded.error(port) or error).strip() or type(error).__name__
        raise ClusterError(f"pod {namespace}/{pod}, port {port}: {' '.join(why.split())[:300]}") from None
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
