"""Leader election by kube-scheduler's Lease: the extender in the pod that holds it is active. An extender
that receives no update of the Lease for longer than its duration is not active: another pod may hold it by
then."""

import logging
from collections.abc import Callable, Collection, Sequence
from threading import Lock

from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.wire.kube import Lease, LeaseSpec
from scheduler_ext.wire.watching import Decoder

log = logging.getLogger(__name__)

# The duration of a Lease that states none: kube-scheduler's default.
_GOOD_FOR_S = 15.0
WORD = {True: "active", False: "a standby"}


class Leadership(EventHandler[Lease]):
    """Follows one Lease. kube-scheduler's identity is its host name, which is its pod's, "_" and a uid."""

    kind = "Lease"

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        pod: str,
        changed: Callable[[bool], None] = lambda active: None,
    ) -> None:
        super().__init__()
        self._changed = changed
        self.namespace = namespace
        self._name = name
        self._prefix = f"{pod}_"
        self._holder = ""
        self._good_for_s = _GOOD_FOR_S
        # Whether no update came for too long, and none since.
        self._lapsed = False
        # An update of the Lease must not be undone by a thread that looked before it came.
        self._lock = Lock()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.reflectors = (
            Reflector("leases", transport, path, Decoder(Lease), self, fieldSelector=f"metadata.name={name}"),
        )

    @property
    def active(self) -> bool:
        """Whether our own pod holds it, as far as is known; ends by itself while its watch is lost."""
        if not self._holder.startswith(self._prefix):
            return False
        with self._lock:
            # Its holder renews it every few seconds, also while the watch hangs and seems to be connected.
            lost = self.reflectors[0].health().silent_s > self._good_for_s
            was_lapsed, self._lapsed = self._lapsed, self._lapsed or lost
            lapsed = self._lapsed
        if lapsed and not was_lapsed:
            log.warning(
                "this extender is a standby now: nothing was heard of the Lease for %.0f s", self._good_for_s
            )
            self._changed(False)
        return not lapsed

    def start(self) -> None:
        """Nothing to do: its reflector is started and stopped with the others."""

    stop = start

    def upsert(self, items: Sequence[Lease], clock: ServerClock) -> None:
        for lease in items:
            self._unlisted.discard(self._name)
            spec = lease.spec or LeaseSpec()
            good_for_s = spec.lease_duration_seconds or 0
            self._good_for_s = float(good_for_s) if good_for_s > 0 else _GOOD_FOR_S
            self._held_by(spec.holder_identity or "")

    def key(self, item: object) -> str:
        return self._name

    def known(self) -> set[str]:
        return {self._name}

    def remove(self, keys: Collection[str]) -> None:
        if keys:
            self._held_by("")

    def _held_by(self, holder: str) -> None:
        was, now = self.active, holder.startswith(self._prefix)
        if now and not was:
            # Before `active` can be seen: binding has to list again first.
            self._changed(True)
        with self._lock:
            self._holder, self._lapsed = holder, False
        if was and not now:
            self._changed(False)
        if now != was:
            log.info("this extender is %s now; the Lease is held by %r", WORD[now], holder)
