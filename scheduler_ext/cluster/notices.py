"""What is written to the cluster beside decisions: nudges on Nodes, and Events. Never in anybody's way.

A nudge is an annotation on one Node: kube-scheduler looks at refused pods again when a Node changes. Writing
happens in a thread of its own, from queues of bounded length. An event that fails is logged and let go; so is
a nudge that will never succeed, and others are tried again for as long as the pods would wait without.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any

from cachetools import TTLCache

from scheduler_ext.cluster.backoff import Backoff
from scheduler_ext.cluster.transport import JSON, MERGE, RefusedError, Transport, passes
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

NUDGE_ANNOTATION = "gpu.scheduler-ext.io/inventory-changed"
_EVENTS = "/apis/events.k8s.io/v1"
_QUEUED = 100
# Events about pods, of which hundreds may be bound at once: so many in a second, and so many more at first.
_POD_EVENTS_PER_S = 10.0
_POD_EVENTS_AT_ONCE = 50.0
# The same event about the same node is written once in this time.
_EVENT_EVERY_S = 600.0
# An account that may not write is not asked again for this long.
_FORBIDDEN_S = 300.0
# kube-scheduler looks at refused pods again after this time by itself.
_LET_GO_S = 300.0


class Notices:
    """Writes when ``active`` says that it is ours to write."""

    def __init__(self, transport: Transport, active: Callable[[], bool]) -> None:
        self._transport = transport
        self._active = active
        self._wake = Condition()
        # Node to the time after which it is not tried again.
        self._nudges: OrderedDict[str, float] = OrderedDict()
        self._backoff = Backoff()
        self._nudge_at = 0.0
        self._events: deque[Callable[[], dict[str, Any]]] = deque(maxlen=_QUEUED)
        self._tokens, self._tokens_at = _POD_EVENTS_AT_ONCE, time.monotonic()
        self._told: TTLCache[tuple[str, str, str], bool] = TTLCache(1000, _EVENT_EVERY_S)
        self._forbidden: dict[str, float] = {}
        self._stopped = False
        self._thread = Thread(target=self._run, name="notices", daemon=True)
        self.nudges = 0
        # How many ended how: written, dropped (too many at once), failed.
        self.events: Counter[str] = Counter()

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
                self._queue(node, time.monotonic() + _LET_GO_S)
                self._wake.notify()

    def warn(self, node: str, uid: str | None, reason: str, note: str, about: str = "") -> None:
        """A Warning event on a Node, unless one of the same reason and ``about`` was written lately."""
        with self._wake:
            if not self._active() or (node, reason, about) in self._told:
                return
            self._told[node, reason, about] = True
            event = _event(node, uid, reason, note)
            self._put(lambda: event)

    def tell(self, event: Callable[[], dict[str, Any]]) -> None:
        """An event about a pod, unless too many were told lately; it is made when it is written."""
        with self._wake:
            if not self._active():
                return
            now = time.monotonic()
            earned = (now - self._tokens_at) * _POD_EVENTS_PER_S
            self._tokens, self._tokens_at = min(_POD_EVENTS_AT_ONCE, self._tokens + earned), now
            if self._tokens < 1:
                self.events["dropped"] += 1
                return
            self._tokens -= 1
            self._put(event)

    def _put(self, event: Callable[[], dict[str, Any]]) -> None:
        self.events["dropped"] += len(self._events) == _QUEUED
        self._events.append(event)
        self._wake.notify()

    def _queue(self, node: str, until: float) -> None:
        """Last of all; where too many wait, without the first."""
        self._nudges[node] = until
        if len(self._nudges) > _QUEUED:
            self._nudges.popitem(last=False)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stopped and (wait_s := self._wait_s()) != 0.0:
                    self._wake.wait(wait_s)
                if self._stopped:
                    return
                due = self._nudges and self._nudge_at <= time.monotonic()
                nudge = self._nudges.popitem(last=False) if due else None
                event = self._events.popleft() if nudge is None else None
            try:
                if nudge is not None:
                    self._annotate(*nudge)
                elif event is not None:
                    self._post(event())
            except Exception:
                log.exception("a notice was not written")

    def _post(self, event: dict[str, Any]) -> None:
        path = f"{_EVENTS}/namespaces/{event['metadata']['namespace']}/events"
        error = self._write("events", "POST", path, event, JSON)
        self.events["failed" if error is not None else "written"] += 1

    def _wait_s(self) -> float | None:
        """Until there is something to write; None while nothing is known that will be."""
        if self._events:
            return 0.0
        return max(0.0, self._nudge_at - time.monotonic()) if self._nudges else None

    def _annotate(self, node: str, until: float) -> None:
        if not self._active():
            return
        stamp = micro_time(time.time())
        patch = {"metadata": {"annotations": {NUDGE_ANNOTATION: stamp}}}
        error = self._write("nodes", "PATCH", f"/api/v1/nodes/{node}", patch, MERGE)
        if error is None:
            self._backoff.reset()
            return
        if not passes(error):
            return
        # The request that it is for is forgotten: nobody else would ask for this nudge again.
        wait_s = self._backoff.wait_s(error.retry_after_s if isinstance(error, RefusedError) else None)
        with self._wake:
            self._nudge_at = time.monotonic() + wait_s
            if self._nudge_at < until:
                self._queue(node, max(until, self._nudges.get(node, until)))

    def _write(
        self, what: str, method: str, path: str, body: dict[str, Any], content_type: str
    ) -> ClusterError | None:
        """What came in between; None when it was written, or may not be for now."""
        if self._forbidden.get(what, 0.0) > time.monotonic():
            return None
        try:
            self._transport.send(method, path, body, content_type)
        except ClusterError as error:
            if isinstance(error, RefusedError) and error.status == 403:
                self._forbidden[what] = time.monotonic() + _FORBIDDEN_S
                log.warning("may not write %s, will not for %d s: %s", what, _FORBIDDEN_S, error)
            else:
                log.warning("%s %s: %s", method, path, error)
            return error
        self.nudges += what == "nodes"
        return None


def _event(node: str, uid: str | None, reason: str, note: str) -> dict[str, Any]:
    """An Event about a Node; those of cluster-scoped objects lie in the namespace default."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node[:200].rstrip('.-')}-", "namespace": "default"},
        "eventTime": micro_time(time.time()),
        "reportingController": "scheduler-ext.io/extender",
        "reportingInstance": "scheduler-ext",
        "type": "Warning",
        "reason": reason,
        "action": "ReadReport",
        "note": note[:1024],
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid or node},
    }
