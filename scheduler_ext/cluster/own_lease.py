"""Leader election by a Lease of the extender's own, if no kube-scheduler runs in its pod. As in
kube-scheduler, a candidate that finds the Lease unchanged for its whole duration takes it. Times are by the
candidate's monotonic clock since it saw the last change, never by the times in the Lease. The holder counts
as active from before its write was sent until `renew_s` later, which ends before another candidate may take
the Lease."""

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Reply, Transport
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.cluster.scheduler_lease import WORD
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.kube import HeldLease, LeaseSpec, new_lease, read_lease, renewed_lease
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

# kube-scheduler's defaults.
LEASE_S = 15.0
RENEW_S = 10.0
RETRY_S = 2.0
# The longest duration that is respected: a Lease edited by mistake must not keep every candidate passive.
_LONGEST_S = 300.0
# How long a stop waits for the Lease to be released.
_RELEASE_S = 2.0
# How many unanswered writes are remembered: the server may have done them, or still do them.
_UNANSWERED = 16
_NEVER = -math.inf


class Election(Background):
    """One candidate; `identity` is unique, also among restarts. `changed` is called in the election's
    thread before the candidate becomes active, and after it ceased to be."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        identity: str,
        changed: Callable[[bool], None] = lambda active: None,
        *,
        lease_s: float = LEASE_S,
        renew_s: float = RENEW_S,
        retry_s: float = RETRY_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not lease_s > renew_s > retry_s:
            raise ValueError(f"a lease of {lease_s} s, renewed within {renew_s} s, tried every {retry_s} s")
        super().__init__("election")
        self._transport = transport
        self.namespace, self._name, self._identity = namespace, name, identity
        self._changed = changed
        self._lease_s, self._renew_s, self._retry_s = lease_s, renew_s, retry_s
        self._monotonic = monotonic
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._leases}/{quote(name, safe='')}"
        # The Lease as last seen, when it last changed, and whether its content is our own write.
        self._seen: HeldLease | None = None
        self._seen_at = _NEVER
        self._mine = False
        # False while a write may have been done unseen: the Lease has to be read first.
        self._sure = False
        # When each of our writes was sent, by the renew time it carries; its answer may have been lost.
        self._sent: deque[tuple[str, float]] = deque(maxlen=_UNANSWERED)
        self._until = _NEVER
        self._reported = False
        # Why the Lease cannot be read or written; None when it can.
        self.problem: str | None = None
        self.reflectors: tuple[Reflector[Any], ...] = ()

    @property
    def active(self) -> bool:
        """Whether this candidate holds the Lease; ends by itself `renew_s` after the last renewal."""
        return self._monotonic() < self._until and not self.stopped.is_set()

    def stop(self, wait_s: float = _RELEASE_S) -> None:
        """Cease to be active, and release the Lease so that another candidate can take it at once."""
        super().stop(wait_s)
        self._report()
        # With a request in flight the version of the Lease is not known.
        if not (self._mine and self._sure and self._seen is not None) or self.is_alive:
            return
        now = micro_time(time.time())
        try:
            self._write(LeaseSpec("", 1, now, now, self._seen.spec.lease_transitions), wait_s)
        except ClusterError as error:
            log.warning("Lease %s/%s was not released: %s", self.namespace, self._name, error)

    def attempt(self) -> None:
        """Acquire the Lease if it is free, or renew it if this candidate holds it."""
        # A process that was paused was not active meanwhile, even if it becomes active at once.
        self._report()
        try:
            # After a conflict the Lease is read, and may be ours nevertheless: its labels may have changed.
            if not self._try():
                self._try()
        except ClusterError as error:
            if self.problem is None:
                log.warning("Lease %s/%s: %s", self.namespace, self._name, error)
            self.problem = str(error)
        else:
            if self.problem is not None:
                log.info("Lease %s/%s can be read and written again", self.namespace, self._name)
            self.problem = None
        self._report()

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.attempt()
            except Exception:
                log.exception("unexpected error in the election; trying again")
            left_s = self._until - self._monotonic()
            # Wakes when the term ends, so that `changed` is called then.
            wait_s = min(self._retry_s, left_s) if left_s > 0 else self._retry_s * random.uniform(1.0, 1.2)
            self.stopped.wait(wait_s)

    def _try(self) -> bool:
        """One try; False after a conflict."""
        if not (self._mine and self._sure):
            self._look()
        if self.stopped.is_set() or not (self._mine or self._is_free()):
            return True
        try:
            self._take()
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    def _look(self) -> None:
        """Read the Lease, and note when it changed."""
        found, sent_at = None, None
        try:
            found = read_lease(self._transport.get(self._path, timeout_s=self._timeout_s()).body)
        except RefusedError as error:
            if error.status != 404:
                raise
        if found is not None and found.spec.holder_identity == self._identity:
            # When this candidate sent this content; another one may use its name.
            sent_at = next((at for renewed, at in self._sent if renewed == found.spec.renew_time), None)
        if found is None:
            # Deleted by hand. Another holder may not know yet.
            if self._seen is not None:
                self._seen_at = _NEVER if self._mine else self._monotonic()
        elif self._seen is None or found.version != self._seen.version:
            self._seen_at = self._monotonic()
        self._seen, self._mine, self._sure = found, sent_at is not None, True
        # A write of ours whose answer was lost holds from when it was sent.
        self._hold_until(sent_at + self._renew_s if sent_at is not None else _NEVER)

    def _is_free(self) -> bool:
        """Whether no candidate can be active by it."""
        good_for_s = self._lease_s
        if self._seen is not None:
            said_s = self._seen.spec.lease_duration_seconds or 0
            if not self._seen.spec.holder_identity and said_s <= 1:
                # As a holder leaves it on release. An empty holder alone may be a manual edit.
                return True
            good_for_s = max(good_for_s, min(said_s, _LONGEST_S))
        elif self._seen_at == _NEVER:
            return True
        return self._monotonic() >= self._seen_at + good_for_s

    def _take(self) -> None:
        """Write this candidate as the holder. Raises ClusterError."""
        before = self._seen.spec if self._seen is not None else None
        now = micro_time(time.time())
        acquired = before.acquire_time if self._mine and before is not None else None
        changes = 0 if before is None else (before.lease_transitions or 0) + (0 if self._mine else 1)
        duration_s = max(1, math.ceil(self._lease_s))
        spec = LeaseSpec(self._identity, duration_s, acquired or now, now, changes)
        sent_at = self._monotonic()
        self._sent.append((now, sent_at))
        # Until an answer confirms it.
        self._sure = False
        reply = self._write(spec, self._timeout_s())
        self._seen = read_lease(reply.body)
        self._seen_at = self._monotonic()
        self._mine = self._sure = True
        self._hold_until(sent_at + self._renew_s)

    def _write(self, spec: LeaseSpec, timeout_s: float) -> Reply:
        if self._seen is None:
            body = new_lease(self.namespace, self._name, spec)
            return self._transport.send("POST", self._leases, body, JSON, timeout_s=timeout_s)
        body = renewed_lease(self._seen, spec)
        return self._transport.send("PUT", self._path, body, JSON, timeout_s=timeout_s)

    def _timeout_s(self) -> float:
        """Leaves time for two tries, and ends with the term."""
        left_s = self._until - self._monotonic()
        return min(self._renew_s / 2, left_s) if left_s > 0 else self._renew_s / 2

    def _hold_until(self, until: float) -> None:
        """Set the end of the term; `changed` is called before `active` can be seen."""
        if not self._reported and self._monotonic() < until and not self.stopped.is_set():
            self._turn(True)
        self._until = until
        self._report()

    def _report(self) -> None:
        if (active := self.active) != self._reported:
            self._turn(active)

    def _turn(self, active: bool) -> None:
        self._reported = active
        holder = self._seen.spec.holder_identity if self._seen is not None else None
        log.info("this extender is %s now; the Lease is held by %r", WORD[active], holder or "")
        self._changed(active)
