"""Evicts one pod after the other, and waits while a budget refuses it."""

import time

from scheduler_ext.cluster.api_paths import pod_path
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Transport, is_transient
from scheduler_ext.cluster.evictions import eviction_body, is_held_by_budget
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import BoundPod

_TOO_MANY = 429
_CONFLICT = 409
NOT_FOUND = 404
# From this on, the API server failed, and may have done what was asked.
_FAILED = 500
POLL_S = 0.5
# The longest pause that the API server may ask for.
_PAUSE_S = 5.0


def evict(transport: Transport, pod: BoundPod, until: float) -> str | None:
    """Ask for the eviction of this pod and no other of its name, again until that monotonic time while a
    budget refuses it. Returns why it is refused for good; None if it is granted or the pod is gone. Raises
    ClusterError."""
    body = eviction_body(pod.namespace, pod.name, pod.uid)
    may_be_granted = False
    while True:
        pause_s = POLL_S
        try:
            transport.send("POST", f"{pod_path(pod.namespace, pod.name)}/eviction", body, JSON)
            return None
        except RefusedError as error:
            # A conflict after such an answer is another pod of the name, in the place of the evicted one.
            if error.status == NOT_FOUND or (may_be_granted and error.status == _CONFLICT):
                return None
            failed = error.status >= _FAILED and not is_held_by_budget(error)
            if not (failed or error.status == _TOO_MANY) or time.monotonic() > until:
                return str(error)
            may_be_granted = may_be_granted or failed
            pause_s = max(POLL_S, min(error.retry_after_s or 0.0, _PAUSE_S))
        except ClusterError as error:
            # It may have been granted: the same request again does no harm.
            if not is_transient(error) or time.monotonic() > until:
                raise
            may_be_granted = True
        time.sleep(pause_s)
