"""The API server calls of binding a pod: each ends by its deadline, and returns its outcome.

Only an expired list is retried here: the caller holds promises, and decides what a missing answer means for
them. All reads are consistent: none comes from a stale cache of the API server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from scheduler_ext.binding.outcome import Done, ListedPods, Outcome, Refused, Unknown, Unsent
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Reply, Transport, UnsentError
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
    """The calls; ``deadline`` is by ``monotonic``. Safe to use from several threads."""

    def __init__(self, transport: Transport, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._monotonic = monotonic
        self._pods = Decoder(kube.Pod)

    def get_pod(self, namespace: str, name: str, deadline: float) -> Outcome[kube.Pod | None]:
        """A pod as it is now; None when it does not exist."""
        return self._found(_pod_path(namespace, name), deadline, read_pod)

    def pods_on(self, node: str, deadline: float) -> Outcome[ListedPods]:
        """Every unfinished pod that is bound to a node, by any binder."""
        found = self._list(node, deadline)
        for _ in range(_LISTS - 1):
            # The next page has expired: list again from the start.
            if isinstance(found, Refused) and found.status == EXPIRED:
                found = self._list(node, deadline)
        return found

    def get_reservation(self, node: str, deadline: float) -> Outcome[Reservation | None]:
        """The reservation of a node; None when it does not exist."""
        return self._found(f"{RESERVATIONS}/{quote(node, safe='')}", deadline, read_reservation)

    def put_reservation(self, wanted: Reservation, deadline: float) -> Outcome[Reservation]:
        """Write a node's reservation, if it still has the version it was read at; returns it as written.

        Without a version it is created. Refused with 409 where another writer was first, with 404 where it is
        gone. Raises ValueError for content that must not be written.
        """
        body = reservation_body(wanted)
        if wanted.resource_version is None:
            reply = self._write("POST", RESERVATIONS, body, deadline)
        else:
            reply = self._write("PUT", f"{RESERVATIONS}/{quote(wanted.node, safe='')}", body, deadline)
        return _read(reply, read_reservation)

    def post_binding(self, namespace: str, name: str, body: dict[str, Any], deadline: float) -> Outcome[None]:
        """Bind a pod. Refused with 409 where its uid or version differs, or it is bound or being deleted."""
        reply = self._write("POST", f"{_pod_path(namespace, name)}/binding", body, deadline)
        return Done(None) if isinstance(reply, Done) else reply

    def _found(self, path: str, deadline: float, read: Callable[[bytes], T]) -> Outcome[T | None]:
        reply = self._ask(deadline, lambda left_s: self._transport.get(path, timeout_s=left_s))
        if isinstance(reply, Refused) and reply.status == _NOT_FOUND:
            return Done(None)
        return _read(reply, read)

    def _list(self, node: str, deadline: float) -> Outcome[ListedPods]:
        query = {"limit": str(PAGE), "fieldSelector": f"spec.nodeName={node},{_UNFINISHED}"}
        found = ListedPods([], [], "")
        while True:
            reply = self._ask(deadline, lambda left_s: self._transport.get(_PODS, query, left_s))
            page = _read(reply, self._pods.page)
            if not isinstance(page, Done):
                return page
            found.pods.extend(page.value.items)
            found.broken.extend(page.value.broken)
            if not page.value.next:
                return Done(replace(found, resource_version=page.value.resource_version))
            query["continue"] = page.value.next

    def _write(self, method: str, path: str, body: dict[str, Any], deadline: float) -> Outcome[Reply]:
        send = partial(self._transport.send, method, path, body, JSON)
        return self._ask(deadline, lambda left_s: send(timeout_s=left_s), True)

    def _ask(self, deadline: float, call: Callable[[float], Reply], writing: bool = False) -> Outcome[Reply]:
        """One request, with the seconds that are left; ``writing``: a server error leaves its outcome
        open."""
        left_s = deadline - self._monotonic()
        if left_s <= 0:
            return Unsent("no time was left")
        try:
            return Done(call(left_s))
        except RefusedError as error:
            if writing and _may_be_done(error.status):
                return Unknown(str(error), error.retry_after_s)
            return Refused(error.status, str(error), error.retry_after_s)
        except UnsentError as error:
            return Unsent(str(error))
        except ClusterError as error:
            return Unknown(str(error))


def _may_be_done(status: int) -> bool:
    """Whether a write may have been done, or may still be done, after this answer: it may come from a server
    that lost its storage, or from a load balancer that lost the server."""
    return status >= 500 or status == _REQUEST_TIMEOUT


def _read(reply: Outcome[Reply], read: Callable[[bytes], T]) -> Outcome[T]:
    if not isinstance(reply, Done):
        return reply
    try:
        return Done(read(reply.value.body))
    except ClusterError as error:
        return Unknown(str(error))


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
