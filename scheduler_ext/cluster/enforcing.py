"""Enforcing mode on a live cluster: this extender binds, and advertises what there is to bind.

Only the active one does. One that becomes active lists pods and reservations anew before its first bind:
what a standby knew may be as old as its watches are late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.book import Book
from scheduler_ext.cluster.advertise import Advertiser, Seen
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.cluster.rate_limiter import RateLimiter
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.extender.record import Record
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.durations import duration_s
from scheduler_ext.wire.reservation import RESERVATIONS, GpuReservation, reservation
from scheduler_ext.wire.watching import Broken, Decoder

log = logging.getLogger(__name__)


class ReservationHandler:
    """GPUReservations: what any extender wrote of Bindings that may be on their way."""

    together = 100

    def __init__(self, book: Book, changed: Callable[[], None]) -> None:
        self._book = book
        self._changed = changed
        self._known: set[str] = set()
        self._listed: set[str] = set()

    def begin(self) -> None:
        """A list begins."""
        self._listed = set()

    def seen(self, items: Sequence[GpuReservation], clock: ServerClock) -> None:
        """Reservations as they are now."""
        for item in items:
            found = reservation(item)
            self._listed.add(found.node)
            self._known.add(found.node)
            self._book.heard(found.node, found.intents)
        self._changed()

    def gone(self, item: GpuReservation | Broken) -> None:
        """Deleted with its node, or by somebody's hand."""
        name = item.name if isinstance(item, Broken) else item.metadata.name if item.metadata else None
        self._listed.discard(name or "")
        self._forget([name or ""])

    def broken(self, item: Broken) -> None:
        """It is there, and nothing is bound on its node until it can be read."""
        self._listed.add(item.name)
        log.error("GPUReservation %s cannot be read, what was known of it stays: %s", item.name, item.problem)

    def end(self) -> None:
        """The list is complete."""
        self._forget(self._known - self._listed)

    def _forget(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._known.discard(name)
            self._book.heard(name, ())
        self._changed()


class Enforcing:
    """Binds and advertises while ``active``. ``pods`` is the reflector that follows them."""

    def __init__(
        self,
        transport: Transport,
        book: Book,
        config: Configuration,
        active: Callable[[], bool],
        trusted: Callable[[], str | None],
        pods: Reflector[Any],
        changed: Callable[[], None],
        rate_limiter: RateLimiter,
        record: Record,
    ) -> None:
        """``trusted`` says why what is known is too old to bind on; None when it is not."""
        resources = config.resource_names()
        self._book = book
        self._active = active
        self._trusted = trusted
        self.reflector: Reflector[GpuReservation] = Reflector(
            "gpureservations",
            transport,
            RESERVATIONS,
            Decoder(GpuReservation),
            ReservationHandler(book, changed),
            rate_limiter,
        )
        self._relisted: tuple[Reflector[Any], ...] = (pods, self.reflector)
        self.binder = Binder(
            book,
            Bindings(transport),
            resources,
            config.scheduler_names,
            self.why_not,
            duration_s("bind.deadline", config.bind.deadline, 0.1, 60),
            record,
        )
        self.advertiser = Advertiser(transport, active, resources, config.memory.headroom_percent)

    def start(self) -> None:
        """Bind and advertise from now on."""
        self.binder.start()
        self.advertiser.start()

    def stop(self) -> None:
        """Write no more."""
        self.binder.stop()
        self.advertiser.stop()

    def turned(self, active: bool) -> None:
        """This extender is active now, or is not any more."""
        if active:
            self._book.invalidate_fence()
            for reflector in self._relisted:
                reflector.relist()

    def why_not(self) -> str | None:
        """Why no pod is bound here now; None when pods are."""
        if not self._active():
            return "this extender is a standby; the active one binds"
        if not all(reflector.relisted for reflector in self._relisted):
            return "this extender has just become active and lists pods anew"
        return self._trusted()

    @property
    def listing(self) -> bool:
        """Whether binds wait for a list, which is then made without rests."""
        return self._active() and not all(reflector.relisted for reflector in self._relisted)

    def follow(self, infos: Mapping[str, NodeInfo | None], seen: Mapping[str, Seen]) -> None:
        """Nodes that changed, and what those advertise."""
        for name, info in infos.items():
            if info is None:
                self.advertiser.leave(name)
            else:
                self.advertiser.follow(info, seen.get(name, (None, None)))
