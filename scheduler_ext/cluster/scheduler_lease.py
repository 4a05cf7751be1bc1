"""Which of several extenders is the active one: that whose own pod holds kube-scheduler's Lease.

Who does not hear of the Lease for longer than it is good for is not active: by then another may hold it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock

from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.wire.lease import Lease, LeaseSpec
from scheduler_ext.wire.watching import Broken, Decoder

log = logging.getLogger(__name__)

# Where a Lease does not say how long it is good for: kube-scheduler's default.
_GOOD_FOR_S = 15.0


class Leadership:
    """Follows one Lease. kube-scheduler's identity is its host name, which is its pod's, "_" and a uid."""

    together = 100

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        pod: str,
        changed: Callable[[bool], None] = lambda active: None,
    ) -> None:
        self._changed = changed
        self._prefix = f"{pod}_"
        self._holder = ""
        self._good_for_s = _GOOD_FOR_S
        # Whether nothing was heard of the Lease for too long, and nothing since.
        self._lapsed = False
        # A word on the Lease must not be taken back by somebody who looked before it came.
        self._lock = Lock()
        self._listed = False
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.reflectors = (
            Reflector("leases", transport, path, Decoder(Lease), self, fieldSelector=f"metadata.name={name}"),
        )

    @property
    def active(self) -> bool:
        """Whether our own pod holds it, as far as can be known; False by itself while its watch is lost."""
        if not self._is_ours(self._holder):
            return False
        with self._lock:
            lapsed_now = not self._lapsed and self._is_lost()
            self._lapsed = self._lapsed or lapsed_now
            lapsed = self._lapsed
        if lapsed_now:
            log.warning(
                "this extender is a standby now: nothing was heard of the Lease for %.0f s", self._good_for_s
            )
            self._changed(False)
        return not lapsed

    def _is_lost(self) -> bool:
        # Its holder renews it every few seconds, also while the watch hangs and seems to be connected.
        return self.reflectors[0].health().silent_s > self._good_for_s

    def _is_ours(self, holder: str) -> bool:
        return holder.startswith(self._prefix)

    def start(self) -> None:
        """Nothing to do: its reflector is started with the others."""

    def stop(self) -> None:
        """Nothing to do."""

    def begin(self) -> None:
        """A list begins; whoever held it holds it until we hear otherwise."""
        self._listed = False

    def end(self) -> None:
        """A list is complete; without the Lease nobody leads."""
        if not self._listed:
            self._held_by("")

    def seen(self, items: Sequence[Lease], clock: ServerClock) -> None:
        """The Lease changed, or is there."""
        for lease in items:
            self._listed = True
            spec = lease.spec or LeaseSpec()
            good_for_s = spec.lease_duration_seconds or 0
            self._good_for_s = float(good_for_s) if good_for_s > 0 else _GOOD_FOR_S
            self._held_by(spec.holder_identity or "")

    def gone(self, item: Lease | Broken) -> None:
        """Nobody leads."""
        self._held_by("")

    def broken(self, item: Broken) -> None:
        """A Lease that cannot be read says nothing new."""
        self._listed = True
        log.error("Lease %s cannot be read: %s", item.name, item.problem)

    def _held_by(self, holder: str) -> None:
        was, now = self.active, self._is_ours(holder)
        if now and not was:
            # Before anybody can see it: whoever binds has to list anew first.
            self._changed(True)
        with self._lock:
            self._holder, self._lapsed = holder, False
        if was and not now:
            self._changed(False)
        if now != was:
            log.info("this extender is %s now; the Lease is held by %r", _WORD[now], holder)


_WORD = {True: "active", False: "a standby"}
