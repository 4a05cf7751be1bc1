"""Removes the startup taint of nodes whose GPUs are known and handed out. An autoscaler takes a node with the
taint for one that still starts: it places no pod there, and adds no second node for the pods that wait."""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from scheduler_ext.background import OnDemand
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import JSON_PATCH, RefusedError, Transport, is_transient
from scheduler_ext.cluster.events.event_recorder import WriteEvent, event_body
from scheduler_ext.cluster.following import NodeFollower
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node_labels import MANAGED_STARTING_TAINT, STARTING_TAINT
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.autoscaling.counters import STARTUP_TAINTS
from scheduler_ext.features.autoscaling.starting import missing_at_start
from scheduler_ext.wire import kube

log = logging.getLogger(__name__)

STARTED, NOT_STARTED = "GPUNodeStarted", "GPUNodeNotStarted"
TAINTS = (STARTING_TAINT, MANAGED_STARTING_TAINT)
# How often nodes are looked at.
EVERY_S = 1.0
# A node that starts for longer has a problem, which an Event names.
LATE_S = 600.0
# The most nodes between two looks.
_MOST = 20
_CALL_S = 5.0
_CHANGED = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
# In this time the watch brings a change.
WATCH_S = 10.0

Warn = Callable[[str, str | None, str, str], None]


class ActiveSnapshot(Protocol):
    """What the extender knows of the cluster."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def active(self) -> bool: ...


class StartupTaints(OnDemand, NodeFollower):
    """Writes while this extender is active in the `cluster`. `say` writes an Event, and `warn` one about a
    node, its uid, for a reason, with a note. The API server takes the write only where the taints are still
    those that were seen. Its thread starts with the first node that has such a taint."""

    taints = STARTUP_TAINTS

    def __init__(
        self,
        transport: Transport,
        cluster: ActiveSnapshot,
        resources: ResourceNames,
        say: WriteEvent,
        warn: Warn,
    ) -> None:
        super().__init__("startup-taints")
        self._transport = transport
        self._cluster = cluster
        self._resources = resources
        self._say = say
        self._warn = warn
        self._retry = Retry(transport.server, Backoff(), probes=False)
        # The nodes with the taint; replaced and never changed.
        self._tainted: Mapping[str, NodeFacts] = {}
        # Those that were seen since the last update; None: without the taint, or gone.
        self._read: dict[str, NodeFacts | None] = {}
        # Since when each node with the taint is seen.
        self._since: dict[str, float] = {}
        # When the write to such a node was last refused.
        self._refused_at: dict[str, float] = {}
        # Nodes that have changed, as the API server says: as they were known then, with the time.
        self._changed: dict[str, tuple[NodeFacts, float]] = {}
        self._problem: str | None = None

    def upsert(self, name: str, node: kube.NodeObject, facts: NodeFacts) -> None:
        self._read[name] = facts if any(taint.key in TAINTS for taint in facts.taints) else None

    def forget(self, names: Collection[str]) -> None:
        self._read.update(dict.fromkeys(names))

    def update(self) -> None:
        read, self._read = self._read, {}
        if any(facts is not None for facts in read.values()) or not self._tainted.keys().isdisjoint(read):
            both = {**self._tainted, **read}
            self._tainted = {name: facts for name, facts in both.items() if facts is not None}
        if self._tainted:
            self.need()

    def run(self) -> None:
        while not self.stopped.wait(EVERY_S):
            snapshot = self._cluster.snapshot
            if snapshot is not None and self._cluster.active() and not self._retry.left_s():
                try:
                    self._look(snapshot)
                except Exception:
                    log.exception("startup taints are not removed: unexpected error; trying again")

    def _look(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        tainted = self._tainted
        self._since = {name: self._since.get(name, now) for name in tainted}
        self._refused_at = {name: at for name, at in self._refused_at.items() if name in tainted}
        self._changed = {name: change for name, change in self._changed.items() if name in tainted}
        left = _MOST
        # What refuses one node, such as an admission webhook, may accept the others.
        for name in sorted(tainted, key=lambda name: self._refused_at.get(name, -math.inf)):
            facts, node = tainted[name], snapshot.nodes.get(name)
            if node is None or self.stopped.is_set():
                continue
            missing = missing_at_start(node.info, self._resources)
            if missing is None:
                left -= 1
                if not self._remove(name, node.info.uid, facts) or not left:
                    return
            elif now - self._since[name] >= LATE_S:
                note = f"the node has had its startup taint for {int(LATE_S / 60)} minutes: {missing}"
                self._warn(name, node.info.uid, NOT_STARTED, note)

    def _remove(self, name: str, uid: str | None, facts: NodeFacts) -> bool:
        """Remove the taint of one node; False where the next one has to wait as well."""
        # Another node of the same name has a taint of its own.
        patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid}] if uid else []
        patch += [operation for i in reversed(_places(facts)) for operation in _removal(i, facts)]
        try:
            self._transport.send(
                "PATCH",
                f"/api/v1/nodes/{quote(name, safe='')}",
                patch,
                JSON_PATCH,
                timeout_s=_CALL_S,
            )
        except ClusterError as error:
            return self._not_removed(name, facts, error)
        self._retry.reset()
        self.taints.inc("removed")
        if self._problem is not None:
            log.info("startup taints are removed again")
            self._problem = None
        self._say(lambda: _event(name, uid))
        return True

    def _not_removed(self, name: str, facts: NodeFacts, error: ClusterError) -> bool:
        status = error.status if isinstance(error, RefusedError) else None
        if status == HTTPStatus.NOT_FOUND:
            return True
        now = time.monotonic()
        if status in _CHANGED:
            # Its taints have changed since, and the watch brings them; or something refuses the write in the
            # same way, as an admission policy does.
            before, since = self._changed.get(name, (None, now))
            if before != facts:
                self._changed[name] = facts, now
                return True
            if now - since < WATCH_S:
                return True
        self._refused_at[name] = now
        self.taints.inc("failed" if is_transient(error) else "refused")
        if self._problem is None:
            log.warning("the startup taint of node %s is not removed, trying again: %s", name, error)
        self._problem = str(error)
        self._retry.failed(error)
        return False


def _places(facts: NodeFacts) -> list[int]:
    return [i for i, taint in enumerate(facts.taints) if taint.key in TAINTS]


def _removal(i: int, facts: NodeFacts) -> list[dict[str, Any]]:
    """The operations of a JSON patch (RFC 6902) that remove a taint, if it is still at its place."""
    path = f"/spec/taints/{i}"
    return [
        {"op": "test", "path": f"{path}/key", "value": facts.taints[i].key},
        {"op": "remove", "path": path},
    ]


def _event(name: str, uid: str | None) -> dict[str, Any]:
    note = "the GPUs of the node are known and handed out, so its startup taint is removed"
    regarding = {"kind": "Node", "name": name, "uid": uid or name}
    return event_body("Normal", STARTED, "RemoveTaint", note, regarding)
