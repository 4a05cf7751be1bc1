"""Requests to a Kubernetes API as bytes, over the official client's connections. The client renews tokens,
runs exec plugins, and handles TLS and proxies. Its models are not used: 50,000 pods would take 5 GB as
models."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3
from kubernetes import config as kubernetes_config
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject, RESTResponse
from urllib3.connection import HTTPConnection

from scheduler_ext import __version__
from scheduler_ext.cluster.client.availability import QUIET_S, Availability
from scheduler_ext.cluster.client.connection_errors import in_words
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.kube import read_status

if TYPE_CHECKING:
    from websocket import WebSocket

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
# Only the metadata of each object, if the server supports it.
_METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
_NAMES = 500
CONNECT_S = 5.0
_OPENING = Lock()
# The time between two bytes of an answer. A page of 500 objects takes a busy API server a second or two.
READ_S = 30.0
# A watch with bookmarks sends data every minute; a connection that is silent for longer is dead. A report may
# be 72 s old when it falls silent, and must not be stale (150 s) before another watch brings the next.
SILENCE_S = 75.0
# A watch is answered at once; otherwise it is begun again, with a longer limit each time.
ANSWER_S = 10.0
# Detects a host that is gone: (idle, interval, probes) of keepalive, and how long, in milliseconds, sent data
# may stay without the acknowledgement that even a busy host gives.
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
_CHUNK = 1 << 16
_CONNECTIONS = 100
Query = Mapping[str, str]
NOTHING: Query = {}
# No object is larger: etcd accepts 1.5 MiB.
_MAX_LINE = 64 << 20


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The API server's clock: its time, and our monotonic time when that arrived. Its data was not written
    before `not_before` (ours), even if the server's clock has jumped."""

    server_time: float
    received_at: float
    not_before: float = -math.inf

    def monotonic(self, stamp: float) -> float:
        """Our time when the server's clock was at `stamp`; never later than `received_at`."""
        return max(self.not_before, self.received_at - max(0.0, self.server_time - stamp))


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer, and the server's clock at that moment."""

    body: bytes
    clock: ServerClock


class RefusedError(ClusterError):
    """The API server answered with an error; `retry_after_s` is the pause that it asks for."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason or 'error'}: {message}")
        self.status = status
        self.retry_after_s = retry_after_s


class UnreachableError(ClusterError):
    """No answer, or a part of one: the server may have carried out the request."""


class UnsentError(UnreachableError):
    """The request was not sent: the server has not carried it out, and will not."""


class SilentError(UnreachableError):
    """A connection that brought nothing for too long."""


def is_transient(error: ClusterError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, RefusedError):
        return error.status in (409, 429) or error.status >= 500
    return isinstance(error, UnreachableError)


@dataclass(frozen=True, slots=True)
class Stream:
    """The lines of a streamed answer; `received` is called for each piece that comes."""

    response: urllib3.BaseHTTPResponse
    clock: ServerClock
    received: Callable[[], None]

    def batches(self) -> Iterator[list[bytes]]:
        """Whole lines as they arrive, in batches. Raises UnreachableError; SilentError when nothing comes."""
        unfinished = bytearray()
        while True:
            with _translated():
                chunk = self.response.read1(_CHUNK)
            if not chunk:
                return
            self.received()
            unfinished += chunk
            end = unfinished.rfind(b"\n")
            if end >= 0:
                lines = bytes(unfinished[:end]).split(b"\n")
                del unfinished[: end + 1]
                yield [line for line in lines if line]
            elif len(unfinished) > _MAX_LINE:
                raise UnreachableError(f"a line of more than {_MAX_LINE >> 20} MiB")

    def stop(self) -> None:
        """End it from another thread."""
        with contextlib.suppress(Exception):
            self.response.shutdown()


class Transport:
    """One API server; safe to use from several threads."""

    def __init__(self, configuration: Configuration, monotonic: Callable[[], float] = time.monotonic) -> None:
        configuration.socket_options = [
            *HTTPConnection.default_socket_options,
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            # Those that the platform has.
            *(
                (socket.IPPROTO_TCP, getattr(socket, name), value)
                for name, value in _KEEPALIVE.items()
                if hasattr(socket, name)
            ),
        ]
        # More than the concurrent requests: a connection beyond it would be closed after its answer.
        configuration.connection_pool_maxsize = _CONNECTIONS
        # Callers decide when to retry.
        configuration.retries = False
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._monotonic = monotonic
        self.server = Availability(monotonic)

    @classmethod
    def from_kubeconfig(cls, path: Path, context: str | None = None) -> Transport:
        """The cluster of a kubeconfig's context. Raises ClusterError naming the file."""
        return cls(Kubeconfig((path,), context).configuration())

    @classmethod
    def in_cluster(cls) -> Transport:
        """The cluster this pod runs in. Raises ClusterError."""
        configuration = Configuration()
        try:
            kubernetes_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        except Exception as error:
            fix = "run in a pod with a ServiceAccount token, or give --kubeconfig"
            raise ClusterError(f"not in a cluster: {in_words(error)}; {fix}") from None
        return cls(configuration)

    def close(self) -> None:
        """Close idle connections."""
        self._rest.close()

    def get(self, path: str, query: Query = NOTHING, timeout_s: float | None = None) -> Reply:
        """One GET, within `timeout_s` if given. Raises RefusedError, UnreachableError."""
        return self.send("GET", path, None, JSON, query, timeout_s)

    def get_metadata(self, path: str, query: Query = NOTHING, timeout_s: float | None = None) -> Reply:
        """As `get`, of a list, with only the metadata of its objects if the server supports that."""
        return self.send("GET", path, None, JSON, query, timeout_s, _METADATA)

    def names(self, path: str, timeout_s: float) -> list[str]:
        """The names of a list's objects, one page of them. Raises ClusterError."""
        body = self.get_metadata(path, {"limit": str(_NAMES)}, timeout_s).body
        try:
            return [item["metadata"]["name"] for item in json.loads(body)["items"]]
        except (ValueError, KeyError, TypeError):
            raise ClusterError(f"{path}: no list came") from None

    def metadata(self, path: str) -> list[dict[str, Any]]:
        """The metadata of all objects of a list. Raises ClusterError."""
        body = self.get_metadata(path).body
        try:
            return [item["metadata"] for item in json.loads(body)["items"]]
        except (ValueError, KeyError, TypeError):
            raise ClusterError(f"{path}: no list came") from None

    def send(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | list[Any] | None,
        content_type: str,
        query: Query = NOTHING,
        timeout_s: float | None = None,
        accept: str = JSON,
    ) -> Reply:
        """One request, within `timeout_s` if given; types of JSON take objects (JSON_PATCH a list), others
        bytes. Raises RefusedError; UnsentError if the server cannot have received it; UnreachableError if
        it may have."""
        end = None if timeout_s is None else self._monotonic() + timeout_s
        timeouts = (CONNECT_S, READ_S) if timeout_s is None else timeout_s
        response = self._request(method, path, query, body, content_type, timeouts, accept)
        try:
            if not 200 <= response.status < 300:
                self._refuse(response, end)
            clock = self._clock(response)
            return Reply(self._body(response, end), clock)
        finally:
            response.response.release_conn()

    def json(self, path: str, query: Query = NOTHING, timeout_s: float | None = None) -> dict[str, Any]:
        """A GET of one JSON object. Raises as `get` does; ClusterError if the answer is something
        else."""
        body = self.get(path, query, timeout_s).body
        found = None
        with contextlib.suppress(ValueError):
            found = json.loads(body)
        if not isinstance(found, dict):
            raise ClusterError(f"{path}: no JSON object came; is this an API server's address?")
        return found

    @contextlib.contextmanager
    def watch(
        self, path: str, query: Query, silence_s: float = SILENCE_S, answer_s: float = ANSWER_S
    ) -> Iterator[Stream]:
        """A streamed GET, answered within `answer_s` and then silent for at most `silence_s`. Raises
        RefusedError, UnreachableError."""
        response = self._request("GET", path, query, None, JSON, (CONNECT_S, answer_s))
        try:
            if response.status != 200:
                self._refuse(response)
            connection = response.response.connection
            if connection is not None and connection.sock is not None:
                connection.sock.settimeout(silence_s)
            yield Stream(response.response, self._clock(response), self.server.responded)
        finally:
            # A watch is not read to its end, so its connection cannot be used again.
            response.response.close()

    @contextlib.contextmanager
    def websocket(self, path: str, query: Query, silence_s: float) -> Iterator[WebSocket]:
        """A WebSocket, silent for at most `silence_s`. Raises RefusedError, UnreachableError, also of what
        fails while it is open."""
        # Imported here: servers do not need it.
        from kubernetes.stream.ws_client import create_websocket, get_websocket_url
        from websocket import (
            WebSocketBadStatusException,
            WebSocketException,
            WebSocketTimeoutException,
            setdefaulttimeout,
        )

        headers = self._bearer()
        url = get_websocket_url(f"{self._configuration.host}{path}", query.items())  # type: ignore[no-untyped-call]
        with _translated():
            try:
                # The client sets no time-out of its own; this one applies to the whole process.
                with _OPENING:
                    setdefaulttimeout(CONNECT_S)
                    try:
                        websocket: WebSocket = create_websocket(self._configuration, url, headers)  # type: ignore[no-untyped-call]
                    finally:
                        setdefaulttimeout(None)
                try:
                    websocket.settimeout(silence_s)
                    yield websocket
                finally:
                    websocket.shutdown()  # type: ignore[no-untyped-call]
            except WebSocketBadStatusException as error:
                status = read_status(error.resp_body or b"")
                message = (status.message or "").strip()[:500]
                raise RefusedError(error.status_code, status.reason or "", message) from None
            except WebSocketTimeoutException:
                raise SilentError("no answer in time") from None
            except WebSocketException as error:
                raise UnreachableError(in_words(error)) from None

    def _body(self, response: RESTResponse, end: float | None) -> bytes:
        """The body, if it is complete by `end`: a dripping answer must not block the caller."""
        body = bytearray()
        with _translated():
            if end is None:
                return bytes(response.response.data)
            while (left_s := end - self._monotonic()) > 0:
                # None as soon as all is read: another request may use the connection then.
                connection = response.response.connection
                if connection is not None and connection.sock is not None:
                    connection.sock.settimeout(left_s)
                chunk = response.response.read1(_CHUNK)
                if not chunk:
                    return bytes(body)
                body += chunk
        # The rest of it would be read as the start of the next answer.
        response.response.close()
        raise SilentError("the answer was not whole in time")

    def _request(
        self,
        method: str,
        path: str,
        query: Query,
        body: Any,
        content_type: str,
        timeouts: float | tuple[float, float],
        accept: str = JSON,
    ) -> RESTResponse:
        """Send a request; `timeouts` are to connect and between two bytes, or one for both together."""
        url = f"{self._configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        agent = f"scheduler-ext/{__version__}"
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": agent, **self._bearer()}
        try:
            with _translated():
                response: RESTResponse = self._rest.request(  # type: ignore[no-untyped-call]
                    method, url, headers=headers, body=body, _request_timeout=timeouts
                )
        except UnreachableError:
            # The failure of a call with little time left shows nothing about the server.
            if (timeouts if isinstance(timeouts, int | float) else timeouts[0]) >= QUIET_S:
                self.server.unanswered()
            raise
        self.server.responded()
        return response

    def _bearer(self) -> dict[str, str]:
        """The header with the token; renews an expired one, which may run a program. Raises UnsentError."""
        try:
            bearer = self._configuration.auth_settings().get("BearerToken")
        except (*_CLIENT_ERRORS, kubernetes_config.ConfigException) as error:
            words = in_words(error)
            prefix = "" if words.startswith("no credentials") else "no credentials: "
            raise UnsentError(prefix + words) from None
        return {"authorization": bearer["value"]} if bearer is not None and bearer["value"] else {}

    def _clock(self, response: RESTResponse) -> ServerClock:
        try:
            server_time = parsedate_to_datetime(response.response.headers["Date"]).timestamp()
        except (KeyError, TypeError, ValueError):
            server_time = time.time()
        return ServerClock(server_time, self._monotonic())

    def _refuse(self, response: RESTResponse, end: float | None = None) -> None:
        status = read_status(self._body(response, end))
        retry_after_s = None
        with contextlib.suppress(urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
            retry_after_s = urllib3.Retry(0).get_retry_after(response.response)
        message = (status.message or "").strip()[:500]
        raise RefusedError(response.status, status.reason or response.reason or "", message, retry_after_s)


# Errors before a byte of the request is sent. A failed TLS handshake looks like any other failure.
_NOT_CONNECTED = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_CLIENT_ERRORS = (urllib3.exceptions.HTTPError, ApiException, OSError)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Translate the client's exceptions into ours."""
    try:
        yield
    except _NOT_CONNECTED as error:
        raise UnsentError(in_words(error)) from None
    except urllib3.exceptions.ProxyError as error:
        # Also raised if a proxy closed the connection after it had the request.
        unsent = isinstance(error.original_error, _NOT_CONNECTED)
        raise (UnsentError if unsent else UnreachableError)(in_words(error)) from None
    except urllib3.exceptions.ReadTimeoutError as error:
        raise SilentError(in_words(error)) from None
    except _CLIENT_ERRORS as error:
        raise UnreachableError(in_words(error)) from None
