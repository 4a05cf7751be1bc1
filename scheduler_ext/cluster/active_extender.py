"""The active extender, found from outside the cluster and queried as `kubectl port-forward` does it."""

from __future__ import annotations

import http.client
import io
import json
import socket
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from websocket import ABNF, WebSocket, WebSocketConnectionClosedException

from scheduler_ext.cluster.client.connection_errors import in_words, without_numbers
from scheduler_ext.cluster.client.transport import RefusedError, Transport
from scheduler_ext.core.errors import ClusterError

ANSWER_S = 30.0
INSPECTION_PORT = 8890
# The names in the manifests: of pods with a kube-scheduler beside the extender, and of pods without.
_LABELS = "app.kubernetes.io/name=gpu-scheduler"
_LEASES = ("gpu-scheduler-extender", "gpu-scheduler")
# The first byte of each message.
_DATA, _ERRORS = 0, 1
# Each channel begins with its port.
_PORT_BYTES = 2
# The inspection listener accepts requests on loopback by this name.
_HOST = "localhost"


@dataclass(frozen=True, slots=True)
class ActiveExtender:
    """Made by `find`. Raises ClusterError if it cannot be queried."""

    transport: Transport
    namespace: str
    pod: str

    @classmethod
    def find(cls, transport: Transport, namespace: str, timeout_s: float) -> ActiveExtender:
        """The pod in a namespace that holds the Lease; where none is held, any that runs an extender. The API
        server has `timeout_s` for each answer. Raises ClusterError with the reason if there is none;
        UnreachableError if the API server does not answer."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        found = transport.json(path, {"labelSelector": _LABELS}, timeout_s)
        names = [pod["metadata"]["name"] for pod in found.get("items") or () if _runs_an_extender(pod)]
        if not names:
            raise ClusterError(f"no extender runs in namespace {namespace}")
        holder = _holder(transport, namespace, timeout_s)
        # Both kube-scheduler's identity and ours are the host name, "_" and a random id.
        active = [name for name in names if holder.startswith(f"{name}_")]
        return cls(transport, namespace, (active or sorted(names))[0])

    def get(self, path: str, timeout_s: float = ANSWER_S) -> dict[str, Any] | None:
        """The JSON answer to a GET, never silent for longer than `timeout_s`; None for 404."""
        status, body = get_from_pod(
            self.transport, self.namespace, self.pod, INSPECTION_PORT, path, timeout_s
        )
        try:
            answer: dict[str, Any] = json.loads(body)
        except ValueError:
            raise ClusterError(f"extender {self.pod} answered {status}, and no JSON") from None
        if status == 404:
            return None
        if status != 200:
            raise ClusterError(f"extender {self.pod} answered {status}: {answer.get('error', '')}")
        return answer


def _runs_an_extender(pod: dict[str, Any]) -> bool:
    containers = [container["name"] for container in pod["spec"]["containers"]]
    running = pod.get("status", {}).get("phase") == "Running"
    return running and "extender" in containers and "deletionTimestamp" not in pod["metadata"]


def _holder(transport: Transport, namespace: str, timeout_s: float) -> str:
    for name in _LEASES:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases/{name}"
        try:
            spec = transport.json(path, timeout_s=timeout_s).get("spec") or {}
        except RefusedError:
            continue
        if holder := spec.get("holderIdentity"):
            return str(holder)
    return ""


def get_from_pod(
    transport: Transport, namespace: str, pod: str, port: int, path: str, timeout_s: float = ANSWER_S
) -> tuple[int, bytes]:
    """The status and body of a GET on a pod's loopback; no silence may last longer than `timeout_s`. Raises
    ClusterError if no answer comes."""
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
        response = http.client.HTTPResponse(cast(socket.socket, _Whole(answer)))
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


class _Whole(io.BytesIO):
    """Stands in for the socket that http.client reads from."""

    def makefile(self, *_: Any) -> io.BytesIO:
        return self
