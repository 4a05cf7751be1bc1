"""Enforcing mode on a live cluster: this extender binds pods, and advertises the memory shares of nodes. Only
the active extender does. An extender that becomes active lists pods and reservations again before its first
bind, because a standby's watches may be late."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_ext.background import RateLimiter
from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.advertise import Advertiser
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.extender.record import Record
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.reservation import RESERVATIONS, GpuReservation, reservation
from scheduler_ext.wire.watching import Decoder


@dataclass(eq=False)
class ReservationHandler(EventHandler[GpuReservation]):
    """The intents of all extenders. An unreadable GPUReservation keeps its node from binding anything."""

    kind = "GPUReservation"
    _locked: LockedCache
    _changed: Callable[[], None]
    _known: set[str] = field(default_factory=set, init=False)

    def upsert(self, items: Sequence[GpuReservation], clock: ServerClock) -> None:
        for item in items:
            found = reservation(item)
            self._unlisted.discard(found.node)
            self._known.add(found.node)
            self._locked.update_intents(found.node, found.intents)
        self._changed()

    def known(self) -> set[str]:
        return set(self._known)

    def remove(self, keys: Collection[str]) -> None:
        for name in keys:
            self._known.discard(name)
            self._locked.update_intents(name, ())
        self._changed()


class Enforcing:
    """Binds and advertises while `active`. `pods` is the reflector of pods."""

    def __init__(
        self,
        transport: Transport,
        locked: LockedCache,
        config: Configuration,
        active: Callable[[], bool],
        trusted: Callable[[], str | None],
        pods: Reflector[Any],
        changed: Callable[[], None],
        rate_limiter: RateLimiter,
        record: Record,
    ) -> None:
        """`trusted` returns why the cache is too old to bind on; None when it is not."""
        resources = config.resource_names()
        self._locked = locked
        self._active = active
        self._trusted = trusted
        handler, decoder = ReservationHandler(locked, changed), Decoder(GpuReservation)
        self.reflector = Reflector("gpureservations", transport, RESERVATIONS, decoder, handler, rate_limiter)
        self._relisted: tuple[Reflector[Any], ...] = (pods, self.reflector)
        self.binder = Binder(
            locked,
            Bindings(transport),
            resources,
            config.scheduler_names,
            self.why_not,
            config.bind.duration_s("deadline"),
            record,
        )
        self.advertiser = Advertiser(transport, active, resources, config.memory.headroom_percent)

    def start(self) -> None:
        """Begin to bind and to advertise."""
        self.binder.start()
        self.advertiser.start()

    def stop(self) -> None:
        """End both."""
        self.binder.stop(1.0)
        self.advertiser.stop()

    def turned(self, active: bool) -> None:
        """Follow the change of this extender between active and standby."""
        if active:
            self._locked.invalidate_fence()
            for reflector in self._relisted:
                reflector.relist()

    def why_not(self) -> str | None:
        """Why this extender binds no pod now; None when it binds."""
        if not self._active():
            return "this extender is a standby; the active one binds"
        if not all(reflector.relisted for reflector in self._relisted):
            return "this extender has just become active and lists pods again"
        return self._trusted()

    @property
    def listing(self) -> bool:
        """Whether binds wait for a list, which is then read without pauses."""
        return self._active() and not all(reflector.relisted for reflector in self._relisted)

    def follow(self, infos: Mapping[str, NodeInfo | None], records: Mapping[str, NodeRecord | None]) -> None:
        """Compare the advertised amounts of nodes that changed."""
        for name, info in infos.items():
            record = records.get(name)
            if info is None or record is None:
                self.advertiser.leave(name)
            else:
                self.advertiser.follow(info, record.advertised)
