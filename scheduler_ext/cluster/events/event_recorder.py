"""What is written to the cluster beside decisions: nudges on Nodes, and Events. Never in anybody's way.

A nudge is an annotation on one Node: kube-scheduler looks at refused pods again when a Node changes. Writing
happens in a thread of its own, from queues of bounded length. An event that fails is logged and let go; a
nudge that fails is tried again for as long as the pods would wait without it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from cachetools import TTLCache

from scheduler_ext.cluster.client.backoff import Backoff
from scheduler_ext.cluster.client.retry import LOOK_S, Retry
from scheduler_ext.cluster.client.transport import JSON, MERGE, RefusedError, Transport, passes
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
# kube-scheduler looks at refused pods again after this time by itself.
_LET_GO_S = 300.0
# A write takes milliseconds; one that hangs holds up the others.
_WRITE_S = 5.0
_FORBIDDEN = 403
_NOT_FOUND = 404
# What is wrong with one node's nudge alone.
_OF_ONE_NODE = (400, 413, 422)


@dataclass(slots=True)
class _Nudge:
    """A node to annotate; it is not tried before ``not_before``, nor after ``until`` (monotonic)."""

    until: float
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)


class EventRecorder:
    """Writes when ``active`` says that it is ours to write."""

    def __init__(self, transport: Transport, active: Callable[[], bool]) -> None:
        self._transport = transport
        self._active = active
        self._wake = Condition()
        # By node, the next in front.
        self._nudges: OrderedDict[str, _Nudge] = OrderedDict()
        self._nudging = Retry(transport.server, Backoff(), probes=False)
        # An account that may not write Events is seldom asked to.
        self._telling = Retry(transport.server, Backoff(), probes=False)
        self._events: deque[Callable[[], dict[str, Any]]] = deque(maxlen=_QUEUED)
        self._tokens, self._tokens_at = _POD_EVENTS_AT_ONCE, time.monotonic()
        self._told: TTLCache[tuple[str, str, str], bool] = TTLCache(1000, _EVENT_EVERY_S)
        # What keeps nudges, and Events, from being written; said once.
        self._nudge_problem: str | None = None
        self._event_problem: str | None = None
        self._stopped = False
        self._thread = Thread(target=self._run, name="notices", daemon=True)
        self.nudges = 0
        # How many tries failed: "refused" or "failed", and how many nudges were let go after all: "dropped".
        self.nudge_failures: Counter[str] = Counter()
        # How many ended how: "written"; "dropped", too many at once; "refused", with those that were not sent
        # because Events are forbidden; "failed".
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
                self._queue(node, _Nudge(time.monotonic() + _LET_GO_S))
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

    def _queue(self, node: str, nudge: _Nudge) -> None:
        """Last of all; where too many wait, without the first."""
        self._nudges[node] = nudge
        if len(self._nudges) > _QUEUED:
            self._nudges.popitem(last=False)
            self.nudge_failures["dropped"] += 1

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stopped and (wait_s := self._wait_s()) != 0.0:
                    self._wake.wait(wait_s)
                if self._stopped:
                    return
                node = self._due()
                nudge = self._nudges.pop(node) if node is not None else None
                event = self._events.popleft() if nudge is None and self._events else None
            try:
                if node is not None and nudge is not None:
                    self._annotate(node, nudge)
                elif event is not None:
                    self.events[self._post(event)] += 1
            except Exception:
                log.exception("a notice was not written")

    def _wait_s(self) -> float | None:
        """Until there is something to write; None while nothing is known that will be."""
        if self._events or self._due() is not None:
            return 0.0
        return LOOK_S if self._nudges else None

    def _due(self) -> str | None:
        """The node to annotate now."""
        if not self._nudges or self._nudging.left_s():
            return None
        now = time.monotonic()
        return next((node for node, nudge in self._nudges.items() if nudge.not_before <= now), None)

    def _post(self, make: Callable[[], dict[str, Any]]) -> str:
        """What became of an Event."""
        if self._telling.left_s():
            return "refused"
        try:
            event = make()
            path = f"{_EVENTS}/namespaces/{event['metadata']['namespace']}/events"
            self._transport.send("POST", path, event, JSON, timeout_s=_WRITE_S)
        except ClusterError as error:
            self._not_told(error)
            return _word(error)
        except Exception:
            log.exception("an Event was not written")
            return "failed"
        self._telling.reset()
        if self._event_problem is not None:
            log.info("Events are written again")
            self._event_problem = None
        return "written"

    def _not_told(self, error: ClusterError) -> None:
        if isinstance(error, RefusedError) and error.status == _FORBIDDEN:
            self._telling.failed(error)
        if self._event_problem is None:
            log.warning("Events are not written: %s", error)
        self._event_problem = str(error)

    def _annotate(self, node: str, nudge: _Nudge) -> None:
        if not self._active():
            return
        stamp = micro_time(time.time())
        patch = {"metadata": {"annotations": {NUDGE_ANNOTATION: stamp}}}
        try:
            self._transport.send("PATCH", f"/api/v1/nodes/{node}", patch, MERGE, timeout_s=_WRITE_S)
        except ClusterError as error:
            self._not_nudged(node, nudge, error)
            return
        self.nudges += 1
        self._nudging.reset()
        if self._nudge_problem is not None:
            log.info("nodes are annotated again")
            self._nudge_problem = None

    def _not_nudged(self, node: str, nudge: _Nudge, error: ClusterError) -> None:
        """Try it again later: the request that it is for is forgotten, and nothing would ask for it again."""
        status = error.status if isinstance(error, RefusedError) else None
        if status == _NOT_FOUND:
            # Without its node, nothing is left that a pod could wait for.
            return
        if self._nudge_problem is None:
            log.warning(
                "node %s is not annotated, trying again for %d s; until then refused pods may wait: %s",
                node,
                _LET_GO_S,
                error,
            )
        self._nudge_problem = str(error)
        with self._wake:
            self.nudge_failures[_word(error)] += 1
            if status in _OF_ONE_NODE:
                nudge.not_before = time.monotonic() + nudge.backoff.wait_s()
            else:
                self._nudging.failed(error)
            if max(nudge.not_before, time.monotonic() + self._nudging.left_s()) >= nudge.until:
                self.nudge_failures["dropped"] += 1
            elif node not in self._nudges:
                self._queue(node, nudge)


def _word(error: ClusterError) -> str:
    """Whether the server refused it, as without the right to, or could not do it now."""
    return "failed" if passes(error) else "refused"


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
