"""Keeps the amount of memory shares that nodes advertise correct, in capacity and in allocatable. A kubelet
that registers its node again sets resources it does not know to 0, and copies capacity to allocatable.
Therefore every observed amount that differs is written again until the watch shows it as wanted: by a patch
of that one amount, never two at once for one node. After a success several nodes are written at once, because
a patch is mostly waiting; before it, and after a pause, one by one."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any
from urllib.parse import quote

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import MERGE, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.promisable import advertised_mib, is_of_shares
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.counters import Counter

log = logging.getLogger(__name__)

# The amounts in capacity and in allocatable; None: absent.
Advertised = tuple[int | None, int | None]
# The least time between two writes to a node: the watch may still show the amount from before the first, and
# another component that writes another amount must not keep both busy.
_AGAIN_S = 1.0
# The time for the watch to show a written amount: longer each time.
_UNCONFIRMED_S = (2 * _AGAIN_S, 60.0)
# How often a standby with amounts to write checks whether it is active.
_ASK_S = 0.25
# A patch takes milliseconds; a patch that hangs blocks one writer.
_PATCH_S = 5.0
# All nodes of a cluster may be zeroed at once, and must be correct within 2 s.
_WRITERS = 8
# No answer, no right to write, a busy server, and an absent one: failures that concern all nodes.
_ALL_WAIT = (None, 403, 429, 503)


@dataclass(slots=True)
class _NodeToPatch:
    """A node with a wrong amount; `wanted` None: the amount has to be removed."""

    wanted: int | None
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*_UNCONFIRMED_S))
    failing: bool = False


class Advertiser(Background):
    """Writes while `active` says that this extender writes to the cluster; wrong amounts wait."""

    writes = Counter("gpu_extender_advertise_writes", "Amounts of shares written to nodes.")
    failures = Counter(
        "gpu_extender_advertise_failures", "Amounts of shares that could not be written to nodes."
    )

    def __init__(
        self,
        transport: Transport,
        active: Callable[[], bool],
        resources: ResourceNames,
        headroom_percent: int,
    ) -> None:
        super().__init__("advertise", _WRITERS)
        self._transport = transport
        self._active = active
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._wake = Condition()
        self._wrong: dict[str, _NodeToPatch] = {}
        self._written_at: dict[str, float] = {}
        self._retry = Retry(transport.server, Backoff(), probes=False)
        self._problem: str | None = None
        # The nodes that are being written, and how many may be: more than one after a success.
        self._busy: set[str] = set()
        self._at_once = 1
        self._pauses = 0

    def stop(self, wait_s: float = 0.0) -> None:
        with self._wake:
            self.stopped.set()
            self._wake.notify_all()
        super().stop(wait_s)

    @property
    def wrong(self) -> int:
        """The number of nodes that advertise a wrong amount."""
        return len(self._wrong)

    def follow(self, info: NodeInfo, seen: Advertised) -> None:
        """A node, its pods, its report or the amount that it advertises has changed."""
        wanted = advertised_mib(info, self._resources, self._headroom_percent)
        if wanted is None and is_of_shares(info):
            # There is nothing to compute an amount from: the present one may stay.
            self.leave(info.name)
        else:
            self.update(info.name, wanted, seen)

    def update(self, node: str, wanted: int | None, seen: Advertised) -> None:
        """The amount that a node should advertise (None: none) and the amounts it does advertise."""
        with self._wake:
            if seen == (wanted, wanted):
                self._wrong.pop(node, None)
                return
            again_at = self._written_at.get(node, 0.0) + _AGAIN_S
            known = self._wrong.get(node)
            if known is None:
                self._wrong[node] = _NodeToPatch(wanted, again_at)
            else:
                known.wanted = wanted
                if not known.failing:
                    known.not_before = min(known.not_before, again_at)
            self._wake.notify()

    def leave(self, node: str) -> None:
        """A node is gone, or its present amount may stay."""
        with self._wake:
            self._wrong.pop(node, None)
            self._written_at.pop(node, None)

    def run(self) -> None:
        while True:
            with self._wake:
                while (name := self._due()) is None and not self.stopped.is_set():
                    self._wake.wait(self._wait_s())
                if self.stopped.is_set() or name is None:
                    return
                self._busy.add(name)
                self._written_at[name] = time.monotonic()
                # Moved behind the nodes that were not written yet, so that the next is found at once.
                self._wrong[name] = node = self._wrong.pop(name)
                wanted, pauses = node.wanted, self._pauses
            try:
                self._write(name, node, wanted, pauses)
            except Exception:
                log.exception("what node %s advertises was not written", name)
                with self._wake:
                    self.failures.inc()
                    self._later(name, node, None)
            finally:
                with self._wake:
                    self._busy.discard(name)
                    self._wake.notify_all()

    def _due(self) -> str | None:
        """The node to write now."""
        now = time.monotonic()
        if not self._wrong or len(self._busy) >= self._at_once or self._retry.left_s() or not self._active():
            return None
        due = (
            name for name, node in self._wrong.items() if node.not_before <= now and name not in self._busy
        )
        return next(due, None)

    def _wait_s(self) -> float | None:
        if not self._wrong or len(self._busy) >= self._at_once:
            # An update, or the end of a write, wakes this thread.
            return None
        now = time.monotonic()
        waiting = [node.not_before for name, node in self._wrong.items() if name not in self._busy]
        if not waiting:
            return None
        # A pause may end sooner than it is to: see Retry.
        return max(min(self._retry.left_s(), _ASK_S), min(waiting) - now, 0.0) or _ASK_S

    def _write(self, name: str, node: _NodeToPatch, wanted: int | None, pauses: int) -> None:
        """Write an amount; `pauses` counts the pauses before this write began."""
        amounts = {self._resources.share: None if wanted is None else str(wanted)}
        patch: dict[str, Any] = {"status": {"capacity": amounts, "allocatable": amounts}}
        path = f"/api/v1/nodes/{quote(name, safe='')}/status"
        try:
            self._transport.send("PATCH", path, patch, MERGE, timeout_s=_PATCH_S)
        except ClusterError as error:
            with self._wake:
                self._failed(name, node, error, pauses)
            return
        with self._wake:
            self.writes.inc()
            if pauses == self._pauses:
                # A write that was in flight before a pause shows nothing about the time after it.
                self._at_once = _WRITERS
                self._retry.reset()
                if self._problem is not None:
                    log.info("what nodes advertise is written again")
                    self._problem = None
                if node.failing:
                    log.info("what node %s advertises is written again", name)
                    node.failing = False
            node.not_before = time.monotonic() + node.backoff.wait_s()

    def _failed(self, name: str, node: _NodeToPatch, error: ClusterError, pauses: int) -> None:
        self.failures.inc()
        status = error.status if isinstance(error, RefusedError) else None
        if status == 404:
            # Deleted, as the watch will report.
            self._wrong.pop(name, None)
        elif status not in _ALL_WAIT:
            self._later(name, node, error)
        elif pauses == self._pauses:
            # Of several writes in flight, the first failure counts for all.
            self._retry.failed(error)
            self._pauses += 1
            self._at_once = 1
            if self._problem is None:
                log.warning("what nodes advertise is not written, trying again: %s", error)
            self._problem = str(error)

    def _later(self, name: str, node: _NodeToPatch, error: ClusterError | None) -> None:
        node.not_before = time.monotonic() + node.backoff.wait_s()
        if error is not None and not node.failing:
            log.warning("what node %s advertises is not written, trying again: %s", name, error)
            node.failing = True
