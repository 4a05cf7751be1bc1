"""What is written to the cluster beside decisions: nudges on Nodes, and Events. Never in anybody's way.

A nudge is an annotation on one Node: kube-scheduler looks at refused pods again when a Node changes. Writing
happens in a thread of its own, from queues of bounded length; what fails is logged and let go.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any

from cachetools import TTLCache

from scheduler_ext.cluster.transport import JSON, MERGE, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

NUDGE_ANNOTATION = "gpu.scheduler-ext.io/inventory-changed"
_EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/default/events"
_QUEUED = 100
# The same event about the same node is written once in this time.
_EVENT_EVERY_S = 600.0
# An account that may not write is not asked again for this long.
_FORBIDDEN_S = 300.0


class Notices:
    """Writes when ``active`` says that it is ours to write."""

    def __init__(self, transport: Transport, active: Callable[[], bool]) -> None:
        self._transport = transport
        self._active = active
        self._wake = Condition()
        self._nudges: deque[str] = deque(maxlen=_QUEUED)
        self._events: deque[dict[str, Any]] = deque(maxlen=_QUEUED)
        self._told: TTLCache[tuple[str, str], bool] = TTLCache(1000, _EVENT_EVERY_S)
        self._forbidden: dict[str, float] = {}
        self._stopped = False
        self._thread = Thread(target=self._run, name="notices", daemon=True)
        self.nudges = 0

    def start(self) -> None:
        """Write from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def nudge(self, node: str) -> None:
        """Make kube-scheduler look at refused pods again."""
        with self._wake:
            if self._active() and node not in self._nudges:
                self._nudges.append(node)
                self._wake.notify()

    def warn(self, node: str, uid: str | None, reason: str, note: str) -> None:
        """A Warning event on a Node, unless one was written lately for the same reason."""
        with self._wake:
            if not self._active() or (node, reason) in self._told:
                return
            self._told[node, reason] = True
            self._events.append(_event(node, uid, reason, note))
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._nudges or self._events or self._stopped):
                    self._wake.wait()
                if self._stopped:
                    return
                node = self._nudges.popleft() if self._nudges else None
                event = self._events.popleft() if node is None else None
            try:
                if node is not None:
                    self._annotate(node)
                elif event is not None:
                    self._write("events", "POST", _EVENTS_PATH, event, JSON)
            except Exception:
                log.exception("a notice was not written")

    def _annotate(self, node: str) -> None:
        stamp = micro_time(time.time())
        patch = {"metadata": {"annotations": {NUDGE_ANNOTATION: stamp}}}
        if self._write("nodes", "PATCH", f"/api/v1/nodes/{node}", patch, MERGE):
            self.nudges += 1

    def _write(self, what: str, method: str, path: str, body: dict[str, Any], content_type: str) -> bool:
        if self._forbidden.get(what, 0.0) > time.monotonic():
            return False
        try:
            self._transport.send(method, path, body, content_type)
        except RefusedError as error:
            if error.status == 403:
                self._forbidden[what] = time.monotonic() + _FORBIDDEN_S
                log.warning("may not write %s, will not for %d s: %s", what, _FORBIDDEN_S, error)
            else:
                log.warning("%s %s: %s", method, path, error)
            return False
        except ClusterError as error:
            log.warning("%s %s: %s", method, path, error)
            return False
        return True


def _event(node: str, uid: str | None, reason: str, note: str) -> dict[str, Any]:
    """An Event about a Node; those of cluster-scoped objects lie in the namespace default."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node[:200]}-", "namespace": "default"},
        "eventTime": micro_time(time.time()),
        "reportingController": "scheduler-ext.io/extender",
        "reportingInstance": "scheduler-ext",
        "type": "Warning",
        "reason": reason,
        "action": "ReadReport",
        "note": note[:1024],
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid or node},
    }
