"""Writes nudges on Nodes, and Events, in a thread of its own, so that no decision waits for them. A nudge is
an annotation on one Node: kube-scheduler retries rejected pods when a Node changes. Both queues are bounded.
An Event that fails is logged and dropped; a nudge that fails is tried again for as long as the pods would
wait without it."""

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, TypeAlias

from cachetools import TTLCache

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.retry import LOOK_S, Backoff, Retry
from scheduler_ext.cluster.client.transport import JSON, MERGE, RefusedError, Transport, is_transient
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.counters import Counter
from scheduler_ext.printable import printable
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

NUDGE_ANNOTATION = "gpu.scheduler-ext.io/inventory-changed"
"""Written by the extender, so that kube-scheduler retries refused pods; the value is a time without meaning.
kube-scheduler retries only the pods that may fit on the changed Node, so the extender annotates the fewest
Nodes that cover all rejected pods, nearly always one. A failed write is retried for five minutes."""
_EVENTS = "/apis/events.k8s.io/v1"
_NOTE_CHARS = 1024
_QUEUED = 100
# Namespaces without Events that are remembered.
_NAMESPACES = 1000
# Events on pods, because hundreds may be bound at once: this many per second, after a first burst.
_POD_EVENTS_PER_S = 10.0
_POD_EVENTS_AT_ONCE = 50.0
# The same Event about the same node is written once in this time.
_EVENT_EVERY_S = 600.0
# kube-scheduler retries rejected pods by itself after this time.
_LET_GO_S = 300.0
# A write takes milliseconds; a write that hangs delays the others.
_WRITE_S = 5.0
_FORBIDDEN = 403
_NOT_FOUND = 404
# Statuses that concern the nudge of one node alone.
_OF_ONE_NODE = (400, 413, 422)


@dataclass(slots=True)
class _Nudge:
    """When a node is annotated, monotonic: not before `not_before`, and not after `until`."""

    until: float
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)


WriteEvent: TypeAlias = Callable[[Callable[[], dict[str, Any]]], None]
"""`EventRecorder.write`: takes a function that makes the Event when it is written."""


class EventRecorder(Background):
    """Writes while `active` says that this extender writes to the cluster."""

    # "refused" includes Events that are not sent while Events are forbidden.
    events = Counter(
        "gpu_extender_events",
        "Events by result: written; dropped (too many at once); refused by the API server, with those not "
        "sent for that reason; failed (no answer, or an error of the server).",
        ("result",),
        ("written", "dropped", "refused", "failed"),
    )
    nudges = Counter(
        "gpu_extender_nudges", "Node annotations written so that kube-scheduler retries refused pods."
    )
    nudge_failures = Counter(
        "gpu_extender_nudge_failures",
        "Node annotations that could not be written: refused by the API server, or failed (no answer, or an "
        "error of the server). Each is retried at growing intervals for five minutes, and then dropped, as "
        "are those beyond 100 that wait.",
        ("result",),
        ("refused", "failed", "dropped"),
    )

    def __init__(self, transport: Transport, active: Callable[[], bool]) -> None:
        super().__init__("notices")
        self._transport = transport
        self._active = active
        self._wake = Condition()
        # By node, the next one first.
        self._nudges: OrderedDict[str, _Nudge] = OrderedDict()
        self._nudge_retry = Retry(transport.server, Backoff(), probes=False)
        # By namespace: an account that may not write Events tries it seldom. A namespace that ends, or has a
        # quota of Events, takes none.
        self._event_retries: dict[str, Retry] = {}
        self._events: deque[Callable[[], dict[str, Any]]] = deque(maxlen=_QUEUED)
        self._tokens, self._tokens_at = _POD_EVENTS_AT_ONCE, time.monotonic()
        self._written: TTLCache[tuple[str, str, str], bool] = TTLCache(1000, _EVENT_EVERY_S)
        # Why nudges, and Events, by where, cannot be written; logged once.
        self._nudge_problem: str | None = None
        self._event_problems: dict[str, str] = {}

    def stop(self, wait_s: float = 0.0) -> None:
        with self._wake:
            self.stopped.set()
            self._wake.notify()
        super().stop(wait_s)

    def nudge(self, node: str) -> None:
        """Make kube-scheduler retry rejected pods."""
        with self._wake:
            if self._active() and node not in self._nudges:
                self._queue(node, _Nudge(time.monotonic() + _LET_GO_S))
                self._wake.notify()

    def warn(self, node: str, uid: str | None, reason: str, note: str, about: str = "") -> None:
        """Write a Warning Event on a Node, unless one of the same reason and `about` is recent."""
        with self._wake:
            if not self._active() or (node, reason, about) in self._written:
                return
            self._written[node, reason, about] = True
            regarding = {"kind": "Node", "name": node, "uid": uid or node}
            event = event_body("Warning", reason, "ReadReport", note, regarding)
            self._put(lambda: event)

    def write(self, event: Callable[[], dict[str, Any]]) -> None:
        """Write an Event on a pod, unless there were too many lately; `event` makes it when it is
        written."""
        with self._wake:
            if not self._active():
                return
            now = time.monotonic()
            earned = (now - self._tokens_at) * _POD_EVENTS_PER_S
            self._tokens, self._tokens_at = min(_POD_EVENTS_AT_ONCE, self._tokens + earned), now
            if self._tokens < 1:
                self.events.inc("dropped")
                return
            self._tokens -= 1
            self._put(event)

    def _put(self, event: Callable[[], dict[str, Any]]) -> None:
        if len(self._events) == _QUEUED:
            self.events.inc("dropped")
        self._events.append(event)
        self._wake.notify()

    def _queue(self, node: str, nudge: _Nudge) -> None:
        """Append a nudge; drops the first one of a full queue."""
        self._nudges[node] = nudge
        if len(self._nudges) > _QUEUED:
            self._nudges.popitem(last=False)
            self.nudge_failures.inc("dropped")

    def run(self) -> None:
        while True:
            with self._wake:
                while (node := self._due()) is None and not self._events and not self.stopped.is_set():
                    self._wake.wait(LOOK_S if self._nudges else None)
                if self.stopped.is_set():
                    return
                nudge = self._nudges.pop(node) if node is not None else None
                event = self._events.popleft() if nudge is None and self._events else None
            try:
                if node is not None and nudge is not None:
                    self._annotate(node, nudge)
                elif event is not None:
                    self.events.inc(self._post(event))
            except Exception:
                log.exception("a nudge or an Event was not written")

    def _due(self) -> str | None:
        """The node to annotate now."""
        if not self._nudges or self._nudge_retry.left_s():
            return None
        now = time.monotonic()
        return next((node for node, nudge in self._nudges.items() if nudge.not_before <= now), None)

    def _post(self, make: Callable[[], dict[str, Any]]) -> str:
        """Write an Event; returns the outcome."""
        try:
            event = make()
            namespace: str = event["metadata"]["namespace"]
            if namespace in self._event_retries and self._event_retries[namespace].left_s():
                return "refused"
            path = f"{_EVENTS}/namespaces/{namespace}/events"
            self._transport.send("POST", path, event, JSON, timeout_s=_WRITE_S)
        except ClusterError as error:
            self._not_posted(namespace, error)
            return _word(error)
        except Exception:
            log.exception("an Event was not written")
            return "failed"
        self._event_retries.pop(namespace, None)
        for where in ("", _in(namespace)):
            if self._event_problems.pop(where, None) is not None:
                log.info("Events are written again%s", where)
        return "written"

    def _not_posted(self, namespace: str, error: ClusterError) -> None:
        if len(self._event_problems) >= _NAMESPACES:
            self._event_retries.clear()
            self._event_problems.clear()
        where = ""
        if isinstance(error, RefusedError) and error.status == _FORBIDDEN:
            where = _in(namespace)
            retry = Retry(self._transport.server, Backoff(), probes=False)
            self._event_retries.setdefault(namespace, retry).failed(error)
        if where not in self._event_problems:
            log.warning("Events are not written%s: %s", where, error)
        self._event_problems[where] = str(error)

    def _annotate(self, node: str, nudge: _Nudge) -> None:
        if not self._active():
            return
        patch = {"metadata": {"annotations": {NUDGE_ANNOTATION: micro_time(time.time())}}}
        try:
            self._transport.send("PATCH", f"/api/v1/nodes/{node}", patch, MERGE, timeout_s=_WRITE_S)
        except ClusterError as error:
            self._not_nudged(node, nudge, error)
            return
        self.nudges.inc()
        self._nudge_retry.reset()
        if self._nudge_problem is not None:
            log.info("nodes are annotated again")
            self._nudge_problem = None

    def _not_nudged(self, node: str, nudge: _Nudge, error: ClusterError) -> None:
        """Try it again later: the rejected request that it is for is no longer remembered."""
        status = error.status if isinstance(error, RefusedError) else None
        # Without its node, no pod can be waiting for it.
        if status == _NOT_FOUND:
            return
        if self._nudge_problem is None:
            text = "node %s is not annotated, trying again for %d s; until then refused pods may wait: %s"
            log.warning(text, node, _LET_GO_S, error)
        self._nudge_problem = str(error)
        with self._wake:
            self.nudge_failures.inc(_word(error))
            if status in _OF_ONE_NODE:
                nudge.not_before = time.monotonic() + nudge.backoff.wait_s()
            else:
                self._nudge_retry.failed(error)
            if max(nudge.not_before, time.monotonic() + self._nudge_retry.left_s()) >= nudge.until:
                self.nudge_failures.inc("dropped")
            elif node not in self._nudges:
                self._queue(node, nudge)


def _in(namespace: str) -> str:
    return f" in namespace {namespace}"


def _word(error: ClusterError) -> str:
    """Whether the server refused the request for good, or failed to do it now."""
    return "failed" if is_transient(error) else "refused"


def event_body(kind: str, reason: str, action: str, note: str, regarding: dict[str, Any]) -> dict[str, Any]:
    """An Event about an object of the core API; those of cluster-scoped objects lie in namespace default."""
    namespace = regarding.get("namespace", "default")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{regarding['name'][:200].rstrip('.-')}-", "namespace": namespace},
        "eventTime": micro_time(time.time()),
        "reportingController": "scheduler-ext.io/extender",
        "reportingInstance": "scheduler-ext",
        "type": kind,
        "reason": reason,
        "action": action,
        "note": printable(note)[:_NOTE_CHARS],
        "regarding": {"apiVersion": "v1", **regarding},
    }
