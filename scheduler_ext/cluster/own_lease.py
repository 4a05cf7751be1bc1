"""A Lease of the extender's own, where no kube-scheduler in its pod holds one: which of several is active.

As kube-scheduler does it: whoever finds the Lease unchanged for as long as it is good for takes it. Times are
by our monotonic clock since we saw the last change, never by what another wrote down. The holder takes itself
for active from before it asked until ``renew_s`` later, which is over before anybody else may take the Lease.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.client.transport import JSON, RefusedError, Reply, Transport
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.lease import HeldLease, LeaseSpec, new_lease, read_lease, renewed_lease
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

# kube-scheduler's defaults.
LEASE_S = 15.0
RENEW_S = 10.0
RETRY_S = 2.0
# However long a Lease says that it is good for: a slip of somebody's hand must not leave nobody active.
_LONGEST_S = 300.0
# A stop waits so long for the Lease to be given back.
_RELEASE_S = 2.0
# How many of our writes without an answer are remembered: they may have been done, or still be.
_UNANSWERED = 16
_NEVER = -math.inf
_WORD = {True: "active", False: "a standby"}


class Election:
    """One candidate; ``identity`` is no other's, nor that of a former life. ``changed`` is told of each turn,
    in the election's thread: before it is active, and after it was."""

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
        self._transport = transport
        self._namespace, self._name, self._identity = namespace, name, identity
        self._changed = changed
        self._lease_s, self._renew_s, self._retry_s = lease_s, renew_s, retry_s
        self._monotonic = monotonic
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        # The Lease as last seen, since when it has been so, and whether that was our own writing.
        self._seen: HeldLease | None = None
        self._seen_at = _NEVER
        self._mine = False
        # False after a write that may have been done: the Lease has to be read first.
        self._sure = False
        # When our writes were sent whose end may have been missed, by the times they carry.
        self._sent: deque[tuple[str, float]] = deque(maxlen=_UNANSWERED)
        self._until = _NEVER
        self._told = False
        self._problem: str | None = None
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="election", daemon=True)
        self.reflectors: tuple[Reflector[Any], ...] = ()

    @property
    def active(self) -> bool:
        """Whether it is us; False by itself when the Lease could not be renewed for ``renew_s``."""
        return self._monotonic() < self._until and not self._stopped.is_set()

    @property
    def problem(self) -> str | None:
        """What keeps us from asking for the Lease; None while all is well."""
        return self._problem

    def start(self) -> None:
        """Stand from now on."""
        self._thread.start()

    def stop(self, wait_s: float = _RELEASE_S) -> None:
        """Be active no longer, and let another be at once."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        self._tell()
        # With a request of ours on its way nobody knows the version.
        if self._mine and self._sure and not self._thread.is_alive():
            self._release(wait_s)

    def attempt(self) -> None:
        """Acquire or renew the Lease, if that may be."""
        # Who was paused for long was not active meanwhile, even if he is again at once.
        self._tell()
        try:
            # After a conflict the Lease is looked at, and may be ours nevertheless: somebody labelled it.
            if not self._try():
                self._try()
        except ClusterError as error:
            if self._problem is None:
                log.warning("Lease %s/%s: %s", self._namespace, self._name, error)
            self._problem = str(error)
        else:
            if self._problem is not None:
                log.info("Lease %s/%s: it goes on", self._namespace, self._name)
            self._problem = None
        self._tell()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.attempt()
            except Exception:
                log.exception("unexpected error in the election; trying again")
            self._stopped.wait(self._wait_s())

    def _wait_s(self) -> float:
        left_s = self._until - self._monotonic()
        # Whoever is told of the turn is told when it happens.
        return min(self._retry_s, left_s) if left_s > 0 else self._retry_s * random.uniform(1.0, 1.2)

    def _try(self) -> bool:
        """One try; False after a conflict."""
        if not (self._mine and self._sure):
            self._look()
        if self._stopped.is_set() or not (self._mine or self._is_free()):
            return True
        try:
            self._take()
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    def _look(self) -> None:
        """Read the Lease, and remember since when it has been what it is."""
        try:
            found = read_lease(self._transport.get(self._path, timeout_s=self._timeout_s()).body)
        except RefusedError as error:
            if error.status != 404:
                raise
            found = None
        sent_at = self._sent_at(found)
        if found is None:
            # Deleted by hand. Whoever held it may not know yet, unless that was us.
            if self._seen is not None:
                self._seen_at = _NEVER if self._mine else self._monotonic()
        elif self._seen is None or found.version != self._seen.version:
            self._seen_at = self._monotonic()
        self._seen, self._mine, self._sure = found, sent_at is not None, True
        # A write of ours whose answer was lost holds from when it was sent.
        self._hold_until(sent_at + self._renew_s if sent_at is not None else _NEVER)

    def _is_free(self) -> bool:
        """Whether nobody can be active by it."""
        good_for_s = self._lease_s
        if self._seen is not None:
            said_s = self._seen.spec.lease_duration_seconds or 0
            if not self._seen.spec.holder_identity and said_s <= 1:
                # As a holder leaves it that gives it back. An empty holder alone may be anybody's hand.
                return True
            good_for_s = max(good_for_s, min(said_s, _LONGEST_S))
        elif self._seen_at == _NEVER:
            return True
        return self._monotonic() >= self._seen_at + good_for_s

    def _take(self) -> None:
        """Write that it is ours from now on. Raises ClusterError."""
        before = self._seen.spec if self._seen is not None else None
        now = micro_time(time.time())
        kept = before if self._mine and before is not None else LeaseSpec()
        changes = 0 if before is None else (before.lease_transitions or 0) + (0 if self._mine else 1)
        spec = LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, math.ceil(self._lease_s)),
            acquire_time=kept.acquire_time or now,
            renew_time=now,
            lease_transitions=changes,
        )
        sent_at = self._monotonic()
        self._sent.append((now, sent_at))
        # Until an answer says so.
        self._sure = False
        reply = self._write(spec, self._timeout_s())
        self._seen = read_lease(reply.body)
        self._seen_at = self._monotonic()
        self._mine = self._sure = True
        self._hold_until(sent_at + self._renew_s)

    def _write(self, spec: LeaseSpec, timeout_s: float) -> Reply:
        if self._seen is None:
            body = new_lease(self._namespace, self._name, spec)
            return self._transport.send("POST", self._leases, body, JSON, timeout_s=timeout_s)
        body = renewed_lease(self._seen, spec)
        return self._transport.send("PUT", self._path, body, JSON, timeout_s=timeout_s)

    def _release(self, timeout_s: float) -> None:
        assert self._seen is not None
        now = micro_time(time.time())
        changes = self._seen.spec.lease_transitions
        try:
            self._write(LeaseSpec("", 1, now, now, changes), timeout_s)
        except ClusterError as error:
            log.warning("Lease %s/%s was not given back: %s", self._namespace, self._name, error)

    def _sent_at(self, found: HeldLease | None) -> float | None:
        """When we sent what stands there; None when it is not ours, whatever it says of the holder."""
        if found is None or found.spec.holder_identity != self._identity:
            return None
        return next((at for renewed, at in self._sent if renewed == found.spec.renew_time), None)

    @property
    def _path(self) -> str:
        return f"{self._leases}/{quote(self._name, safe='')}"

    def _timeout_s(self) -> float:
        """So that two tries find time, and no longer than we are active."""
        left_s = self._until - self._monotonic()
        return min(self._renew_s / 2, left_s) if left_s > 0 else self._renew_s / 2

    def _hold_until(self, until: float) -> None:
        """Be active until then. Whoever has to prepare for a turn is told of it before it can be seen."""
        if not self._told and self._monotonic() < until and not self._stopped.is_set():
            self._turn(True)
        self._until = until
        self._tell()

    def _tell(self) -> None:
        active = self.active
        if active != self._told:
            self._turn(active)

    def _turn(self, active: bool) -> None:
        self._told = active
        holder = self._seen.spec.holder_identity if self._seen is not None else None
        log.info("this extender is %s now; the Lease is held by %r", _WORD[active], holder or "")
        self._changed(active)
