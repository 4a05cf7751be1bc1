"""Which of several extenders is the active one: that whose own pod holds kube-scheduler's Lease."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.cluster.transport import ServerClock, Transport
from scheduler_ext.wire.lease import Lease
from scheduler_ext.wire.watching import Broken, Decoder

log = logging.getLogger(__name__)


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
        self._listed = False
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.reflectors = (
            Reflector("leases", transport, path, Decoder(Lease), self, fieldSelector=f"metadata.name={name}"),
        )

    @property
    def active(self) -> bool:
        """Whether our own pod holds it."""
        return self._holder.startswith(self._prefix)

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
            self._held_by((lease.spec.holder_identity if lease.spec else None) or "")

    def gone(self, item: Lease | Broken) -> None:
        """Nobody leads."""
        self._held_by("")

    def broken(self, item: Broken) -> None:
        """A Lease that cannot be read says nothing new."""
        self._listed = True
        log.error("Lease %s cannot be read: %s", item.name, item.problem)

    def _held_by(self, holder: str) -> None:
        was, now = self.active, holder.startswith(self._prefix)
        if now and not was:
            # Before anybody can see it: whoever binds has to list anew first.
            self._changed(True)
        self._holder = holder
        if was and not now:
            self._changed(False)
        if now != was:
            log.info("this extender is %s now; the Lease is held by %r", _WORD[now], holder)


_WORD = {True: "active", False: "a standby"}
