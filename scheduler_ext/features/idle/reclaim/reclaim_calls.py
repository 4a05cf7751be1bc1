"""The API server calls of reclaim. Each returns soon; all raise ClusterError."""

from http import HTTPStatus
from typing import NamedTuple

from scheduler_ext.cluster.api_paths import NAMESPACES, pod_path
from scheduler_ext.cluster.client.transport import JSON, MERGE, RefusedError, Transport
from scheduler_ext.cluster.evictions import eviction_body
from scheduler_ext.cluster.reflector import PAGE
from scheduler_ext.features.idle.reclaim.reclaim_policy import RECLAIM_LABEL
from scheduler_ext.features.idle.reclaim.reclaim_wire import warning_patch
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import read_pod
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.watching import Decoder

_CALL_S = 5.0


class FoundPod(NamedTuple):
    """A pod as it is, and the server's time."""

    pod: kube.Pod
    uid: str
    version: str
    now: float


class ReclaimCalls:
    """Safe to use from several threads."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._namespaces = Decoder(kube.Namespace)

    def namespaces(self) -> tuple[dict[str, str], float]:
        """The value of the label in each namespace that has it, and the server's time."""
        query = {"labelSelector": RECLAIM_LABEL, "limit": str(PAGE)}
        found: dict[str, str] = {}
        while True:
            reply = self._transport.get(NAMESPACES, query, _CALL_S)
            page = self._namespaces.page(reply.body)
            for item in page.items:
                metadata = item.metadata or kube.ObjectMeta()
                found[metadata.name or ""] = strings(metadata.labels).get(RECLAIM_LABEL, "")
            if not page.next:
                return found, reply.clock.server_time
            query["continue"] = page.next

    def pod(self, namespace: str, name: str) -> FoundPod | None:
        """A pod as it is now; None if it does not exist."""
        try:
            reply = self._transport.get(pod_path(namespace, name), timeout_s=_CALL_S)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        pod = read_pod(reply.body)
        metadata = pod.metadata or kube.ObjectMeta()
        return FoundPod(pod, metadata.uid or "", metadata.resource_version or "", reply.clock.server_time)

    def warn(self, namespace: str, name: str, found: FoundPod, evict_at: float | None) -> float:
        """Set the time of the eviction on a pod, or remove it; refused with 409 if the pod changed. Returns
        the server's time afterwards."""
        body = warning_patch(found.uid, found.version, evict_at)
        reply = self._transport.send("PATCH", pod_path(namespace, name), body, MERGE, timeout_s=_CALL_S)
        return reply.clock.server_time

    def evict(self, namespace: str, name: str, found: FoundPod) -> None:
        """Evict a pod; refused with 409 if it changed, with 429 by a budget."""
        body = eviction_body(namespace, name, found.uid, found.version)
        self._transport.send("POST", f"{pod_path(namespace, name)}/eviction", body, JSON, timeout_s=_CALL_S)
