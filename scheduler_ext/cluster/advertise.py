"""Keeps the amount of memory shares right that nodes advertise, in capacity and allocatable alike.

A kubelet that registers its node anew sets what it does not know to 0, and copies capacity to allocatable.
So whoever follows Nodes tells what stands there, and what does not agree is written again, until the watch
says that it does: by a patch of that one amount, never two at once for one node. While all goes well several
nodes are written at once, for a patch is mostly waiting; until then, and after a pause, one by one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.client.backoff import Backoff
from scheduler_ext.cluster.client.retry import Retry
from scheduler_ext.cluster.client.transport import MERGE, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.advertised import advertised_mib, is_of_shares
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames

log = logging.getLogger(__name__)

# What stands in capacity and in allocatable; None: not there.
Seen = tuple[int | None, int | None]
# The least time between two writes to a node: the watch may still be telling what was before the first, and
# somebody else who writes another amount must not make two of us busy.
_AGAIN_S = 1.0
# For the watch to say that it stands there: as long, and longer each time.
_UNCONFIRMED_S = (2 * _AGAIN_S, 60.0)
# Whether we are active is asked this often while something is to be written.
_ASK_S = 0.25
# A patch takes milliseconds; one that hangs holds up one writer.
_PATCH_S = 5.0
# All nodes of a cluster may be zeroed at once, and are to be right within 2 s.
_WRITERS = 8
# No answer, no right to write, a server that is too busy, and one that is not there: not the node's trouble.
_ALL_WAIT = (None, 403, 429, 503)


@dataclass(slots=True)
class _Node:
    """A node whose amount is not as it is to be; ``wanted`` None: it is to go."""

    wanted: int | None
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*_UNCONFIRMED_S))
    failing: bool = False


@dataclass(frozen=True, slots=True)
class _Due:
    """One write: ``pauses`` is how many pauses there were when it began."""

    name: str
    node: _Node
    wanted: int | None
    pauses: int


class Advertiser:
    """Writes while ``active`` says that it is ours to write; what is wrong before waits until it does."""

    def __init__(
        self,
        transport: Transport,
        active: Callable[[], bool],
        resources: ResourceNames,
        headroom_percent: int,
    ) -> None:
        self._transport = transport
        self._active = active
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._wake = Condition()
        self._wrong: dict[str, _Node] = {}
        self._written_at: dict[str, float] = {}
        self._retry = Retry(transport.server, Backoff(), probes=False)
        self._problem: str | None = None
        self._stopped = False
        # The nodes that are being written, and how many may be: more than one where the last went well.
        self._busy: set[str] = set()
        self._at_once = 1
        self._pauses = 0
        self._threads = [
            Thread(target=self._run, name=f"advertise-{i}", daemon=True) for i in range(_WRITERS)
        ]
        self.writes = 0
        self.failures = 0

    def start(self) -> None:
        """Write from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Write no more."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    @property
    def wrong(self) -> int:
        """How many nodes do not advertise what they are to."""
        return len(self._wrong)

    def follow(self, info: NodeInfo, seen: Seen) -> None:
        """A node, its pods or its report is not what it was, or the amount that it advertises is not."""
        wanted = advertised_mib(info, self._resources, self._headroom_percent)
        if wanted is None and is_of_shares(info):
            # Nothing to count from: what stands there may stay.
            self.leave(info.name)
        else:
            self.tell(info.name, wanted, seen)

    def tell(self, node: str, wanted: int | None, seen: Seen) -> None:
        """What a node is to advertise (None: nothing) and what it does; of several words the last counts."""
        with self._wake:
            if seen == (wanted, wanted):
                self._wrong.pop(node, None)
                return
            again_at = self._written_at.get(node, 0.0) + _AGAIN_S
            known = self._wrong.get(node)
            if known is None:
                self._wrong[node] = _Node(wanted, again_at)
            else:
                known.wanted = wanted
                if not known.failing:
                    known.not_before = min(known.not_before, again_at)
            self._wake.notify()

    def leave(self, node: str) -> None:
        """A node is gone, or what it advertises may stay."""
        with self._wake:
            self._wrong.pop(node, None)
            self._written_at.pop(node, None)

    def _run(self) -> None:
        while True:
            with self._wake:
                while (due := self._due()) is None and not self._stopped:
                    self._wake.wait(self._wait_s())
                if self._stopped or due is None:
                    return
                self._busy.add(due.name)
            try:
                self._write(due)
            except Exception:
                log.exception("what node %s advertises was not written", due.name)
                with self._wake:
                    self.failures += 1
                    self._later(due.name, due.node, None)
            finally:
                with self._wake:
                    self._busy.discard(due.name)
                    self._wake.notify_all()

    def _due(self) -> _Due | None:
        """What to write now."""
        now = time.monotonic()
        if not self._wrong or len(self._busy) >= self._at_once or self._retry.left_s():
            return None
        if not self._active():
            return None
        for name, node in self._wrong.items():
            if node.not_before <= now and name not in self._busy:
                self._written_at[name] = now
                # Behind those that were not written yet: the next is found at once.
                self._wrong[name] = self._wrong.pop(name)
                return _Due(name, node, node.wanted, self._pauses)
        return None

    def _wait_s(self) -> float | None:
        if not self._wrong or len(self._busy) >= self._at_once:
            # Whoever tells of a node, or has written one, wakes us.
            return None
        now = time.monotonic()
        waiting = [node.not_before for name, node in self._wrong.items() if name not in self._busy]
        if not waiting:
            return None
        # A pause may end sooner than it is to: see Retry.
        return max(min(self._retry.left_s(), _ASK_S), min(waiting) - now, 0.0) or _ASK_S

    def _write(self, due: _Due) -> None:
        amount = None if due.wanted is None else str(due.wanted)
        amounts = {self._resources.share: amount}
        patch: dict[str, Any] = {"status": {"capacity": amounts, "allocatable": amounts}}
        path = f"/api/v1/nodes/{quote(due.name, safe='')}/status"
        try:
            self._transport.send("PATCH", path, patch, MERGE, timeout_s=_PATCH_S)
        except ClusterError as error:
            with self._wake:
                self._failed(due, error)
            return
        with self._wake:
            self.writes += 1
            if due.pauses == self._pauses:
                # One that was on its way before a pause says nothing of what comes after it.
                self._at_once = _WRITERS
                self._retry.reset()
                self._recovered(due.name, due.node)
            due.node.not_before = time.monotonic() + due.node.backoff.wait_s()

    def _failed(self, due: _Due, error: ClusterError) -> None:
        self.failures += 1
        status = error.status if isinstance(error, RefusedError) else None
        if status in _ALL_WAIT:
            if due.pauses == self._pauses:
                # Of several that were on their way the first says it for all.
                self._pause_after(error)
        elif status == 404:
            # Deleted, and the watch will say so.
            self._wrong.pop(due.name, None)
        else:
            self._later(due.name, due.node, error)

    def _pause_after(self, error: ClusterError) -> None:
        self._retry.failed(error)
        self._pauses += 1
        self._at_once = 1
        if self._problem is None:
            log.warning("what nodes advertise is not written, trying again: %s", error)
        self._problem = str(error)

    def _later(self, name: str, node: _Node, error: ClusterError | None) -> None:
        node.not_before = time.monotonic() + node.backoff.wait_s()
        if error is not None and not node.failing:
            log.warning("what node %s advertises is not written, trying again: %s", name, error)
            node.failing = True

    def _recovered(self, name: str, node: _Node) -> None:
        if self._problem is not None:
            log.info("what nodes advertise is written again")
            self._problem = None
        if node.failing:
            log.info("what node %s advertises is written again", name)
            node.failing = False
