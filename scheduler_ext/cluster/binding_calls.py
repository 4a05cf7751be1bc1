"""The API server calls of binding a pod: each ends by its deadline, and returns its outcome. Only an expired
list is retried here: the caller holds promises, and decides what a missing answer means for them. All reads
are consistent: none comes from a stale cache of the API server."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from scheduler_ext.binding.outcome import Done, ListedPods, Outcome, Refused, Unknown, Unsent
from scheduler_ext.cluster.api_paths import pod_path
from scheduler_ext.cluster.client.transport import (
    JSON,
    NOTHING,
    Query,
    RefusedError,
    Reply,
    Transport,
    UnsentError,
)
from scheduler_ext.cluster.reflector import PAGE
from scheduler_ext.core.cache.intent import Reservation
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import read_pod
from scheduler_ext.wire.reservation import RESERVATIONS, read_reservation, reservation_body
from scheduler_ext.wire.watching import EXPIRED, Decoder

T = TypeVar("T")
_PODS = "/api/v1/pods"
# Tries of a list of a node's pods: such a list is seldom longer than a page.
_LISTS = 3
_NOT_FOUND = 404
_REQUEST_TIMEOUT = 408
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Bindings:
    """The calls; `deadline` is by `monotonic`. Safe to use from several threads."""

    def __init__(self, transport: Transport, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._monotonic = monotonic
        self._pods = Decoder(kube.Pod)

    def get_pod(self, namespace: str, name: str, deadline: float) -> Outcome[kube.Pod | None]:
        """A pod as it is now; None when it does not exist."""
        return self._found(pod_path(namespace, name), deadline, read_pod)

    def pods_on(self, node: str, deadline: float) -> Outcome[ListedPods]:
        """Every unfinished pod that is bound to a node, by any binder."""
        for _ in range(_LISTS):
            found = self._list(node, deadline)
            # The next page has expired: list again from the start.
            if not (isinstance(found, Refused) and found.status == EXPIRED):
                break
        return found

    def get_reservation(self, node: str, deadline: float) -> Outcome[Reservation | None]:
        """The reservation of a node; None when it does not exist."""
        return self._found(_reservation_path(node), deadline, read_reservation)

    def put_reservation(self, wanted: Reservation, deadline: float) -> Outcome[Reservation]:
        """Write a node's reservation, if it still has the version it was read at; returns it as written.
        Without a version it is created. Refused with 409 if another writer was first, with 404 if it is
        gone. Raises ValueError for content that must not be written."""
        body = reservation_body(wanted)
        if wanted.resource_version is None:
            reply = self._ask("POST", RESERVATIONS, deadline, body)
        else:
            reply = self._ask("PUT", _reservation_path(wanted.node), deadline, body)
        return _read(reply, read_reservation)

    def post_binding(self, namespace: str, name: str, body: dict[str, Any], deadline: float) -> Outcome[None]:
        """Bind a pod. Refused with 409 if its uid or version differs, or it is bound or being deleted."""
        reply = self._ask("POST", f"{pod_path(namespace, name)}/binding", deadline, body)
        return Done(None) if isinstance(reply, Done) else reply

    def _found(self, path: str, deadline: float, read: Callable[[bytes], T]) -> Outcome[T | None]:
        reply = self._ask("GET", path, deadline)
        if isinstance(reply, Refused) and reply.status == _NOT_FOUND:
            return Done(None)
        return _read(reply, read)

    def _list(self, node: str, deadline: float) -> Outcome[ListedPods]:
        query = {"limit": str(PAGE), "fieldSelector": f"spec.nodeName={node},{_UNFINISHED}"}
        found = ListedPods([], [], "")
        while True:
            page = _read(self._ask("GET", _PODS, deadline, query=query), self._pods.page)
            if not isinstance(page, Done):
                return page
            found.pods.extend(page.value.items)
            found.broken.extend(page.value.broken)
            if not page.value.next:
                return Done(replace(found, resource_version=page.value.resource_version))
            query["continue"] = page.value.next

    def _ask(
        self,
        method: str,
        path: str,
        deadline: float,
        body: dict[str, Any] | None = None,
        query: Query = NOTHING,
    ) -> Outcome[Reply]:
        """One request; with a body, a server error leaves its outcome open."""
        left_s = deadline - self._monotonic()
        if left_s <= 0:
            return Unsent("no time was left")
        try:
            return Done(self._transport.send(method, path, body, JSON, query, left_s))
        except RefusedError as error:
            # This answer may come from a server that lost its storage, or from a load balancer that lost the
            # server: a write may have been done, or may still be done.
            if body is not None and (error.status >= 500 or error.status == _REQUEST_TIMEOUT):
                return Unknown(str(error), error.retry_after_s)
            return Refused(error.status, str(error), error.retry_after_s)
        except UnsentError as error:
            return Unsent(str(error))
        except ClusterError as error:
            return Unknown(str(error))


def _read(reply: Outcome[Reply], read: Callable[[bytes], T]) -> Outcome[T]:
    if not isinstance(reply, Done):
        return reply
    try:
        return Done(read(reply.value.body))
    except ClusterError as error:
        return Unknown(str(error))


def _reservation_path(node: str) -> str:
    return f"{RESERVATIONS}/{quote(node, safe='')}"
