"""What binding a pod asks of the API server: each call ends by its deadline, and says how it ended.

Nothing is tried again here, but for a list that was overtaken: whoever asked holds promises, and knows what
an answer that did not come means for them. All reads are consistent: none comes from a cache that is behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Reply, Transport, UnsentError
from scheduler_ext.cluster.reflector import PAGE
from scheduler_ext.core.cache.intent import Reservation
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import read_pod
from scheduler_ext.wire.reservation import RESERVATIONS, read_reservation, reservation_body
from scheduler_ext.wire.watching import EXPIRED, Broken, Decoder

T = TypeVar("T")
_PODS = "/api/v1/pods"
# Lists of a node's pods that one call begins: such a list is seldom of more than a page.
_LISTS = 3
_NOT_FOUND = 404
_REQUEST_TIMEOUT = 408
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class NodePods:
    """The unfinished pods of a node at one version; ``broken`` ones are there and cannot be read."""

    pods: list[kube.Pod]
    broken: list[Broken]
    resource_version: str


class Bindings:
    """The calls; ``deadline`` is by ``monotonic``. Safe to use from several threads."""

    def __init__(self, transport: Transport, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._monotonic = monotonic
        self._pods = Decoder(kube.Pod)

    def get_pod(self, namespace: str, name: str, deadline: float) -> Outcome[kube.Pod | None]:
        """A pod as it is now; None when there is none of that name."""
        return self._found(_pod_path(namespace, name), deadline, read_pod)

    def pods_on(self, node: str, deadline: float) -> Outcome[NodePods]:
        """Every unfinished pod that is bound to a node, whoever bound it."""
        found = self._list(node, deadline)
        for _ in range(_LISTS - 1):
            # Its next page was forgotten meanwhile: from the start.
            if isinstance(found, Refused) and found.status == EXPIRED:
                found = self._list(node, deadline)
        return found

    def get_reservation(self, node: str, deadline: float) -> Outcome[Reservation | None]:
        """The intents of a node; None when nobody ever wrote one."""
        return self._found(f"{RESERVATIONS}/{quote(node, safe='')}", deadline, read_reservation)

    def put_reservation(self, wanted: Reservation, deadline: float) -> Outcome[Reservation]:
        """Write the intents of a node, if they are still at the version they were read at; what is there now.

        Without a version it is created. Refused with 409 where somebody else was first, with 404 where it is
        gone. Raises ValueError for what must not be written.
        """
        body = reservation_body(wanted)
        if wanted.resource_version is None:
            reply = self._ask(deadline, lambda left_s: self._send("POST", RESERVATIONS, body, left_s), True)
        else:
            path = f"{RESERVATIONS}/{quote(wanted.node, safe='')}"
            reply = self._ask(deadline, lambda left_s: self._send("PUT", path, body, left_s), True)
        return _read(reply, read_reservation)

    def post_binding(self, namespace: str, name: str, body: dict[str, Any], deadline: float) -> Outcome[None]:
        """Bind a pod. Refused with 409 where it is another one, at another version, bound or deleting."""
        path = f"{_pod_path(namespace, name)}/binding"
        reply = self._ask(deadline, lambda left_s: self._send("POST", path, body, left_s), True)
        return Done(None) if isinstance(reply, Done) else reply

    def _found(self, path: str, deadline: float, read: Callable[[bytes], T]) -> Outcome[T | None]:
        reply = self._ask(deadline, lambda left_s: self._transport.get(path, timeout_s=left_s))
        if isinstance(reply, Refused) and reply.status == _NOT_FOUND:
            return Done(None)
        return _read(reply, read)

    def _list(self, node: str, deadline: float) -> Outcome[NodePods]:
        query = {"limit": str(PAGE), "fieldSelector": f"spec.nodeName={node},{_UNFINISHED}"}
        found = NodePods([], [], "")
        while True:
            reply = self._ask(deadline, lambda left_s: self._transport.get(_PODS, query, left_s))
            page = _read(reply, self._pods.page)
            if not isinstance(page, Done):
                return page
            found.pods.extend(page.value.items)
            found.broken.extend(page.value.broken)
            if not page.value.next:
                return Done(NodePods(found.pods, found.broken, page.value.resource_version))
            query["continue"] = page.value.next

    def _send(self, method: str, path: str, body: dict[str, Any], left_s: float) -> Reply:
        return self._transport.send(method, path, body, JSON, timeout_s=left_s)

    def _ask(self, deadline: float, call: Callable[[float], Reply], writing: bool = False) -> Outcome[Reply]:
        """One request, with the seconds that are left."""
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
    """Whether a write may have been done, or still be, though this was answered: whoever says so may be a
    server that lost sight of its storage, or a balancer that lost sight of the server."""
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
