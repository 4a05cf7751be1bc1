"""Evictions through the Eviction API, which keeps PodDisruptionBudgets."""

import time

from scheduler_ext.cluster.api_paths import pod_path
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Transport, is_transient
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.wire.reclaim import eviction_body

_TOO_MANY = 429
NOT_FOUND = 404
POLL_S = 0.5
# The longest pause that the API server may ask for.
_PAUSE_S = 5.0


def evict(transport: Transport, pod: BoundPod, until: float) -> str | None:
    """Ask for the eviction of this pod and no other of its name, again until that monotonic time while a
    budget refuses it. Returns why it is refused for good; None if it is granted or the pod is gone. Raises
    ClusterError."""
    body = eviction_body(pod.namespace, pod.name, pod.uid)
    while True:
        pause_s = POLL_S
        try:
            transport.send("POST", f"{pod_path(pod.namespace, pod.name)}/eviction", body, JSON)
            return None
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            if error.status != _TOO_MANY or time.monotonic() > until:
                return str(error)
            pause_s = max(POLL_S, min(error.retry_after_s or 0.0, _PAUSE_S))
        except ClusterError as error:
            # It may have been granted: the same request again does no harm.
            if not is_transient(error) or time.monotonic() > until:
                raise
        time.sleep(pause_s)
