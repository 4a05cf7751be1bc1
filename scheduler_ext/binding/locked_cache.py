"""The scheduler cache behind its lock, and the fence of each node: Reserve, Confirm, Forget. Memory is
promised only here, in one step with the decision that the node has it."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from uuid import uuid4

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.cycle.placement import place, with_promised
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.filters.fresh import FreshInventory
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.extender.extender import Extender

NEVER_WRITTEN = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A pod's place on a node, promised until its Binding is settled; `intent` holds its shares' GPUs."""

    node: str
    pending: PendingPod
    intent: Intent
    # Whether an earlier Binding of it may be in flight, from any extender.
    again: bool = False

    @property
    def devices(self) -> Mapping[str, tuple[str, ...]]:
        """The GPU of each share, by container; the choice of a device plugin is not known."""
        return self.intent.pod.devices

    @property
    def key(self) -> tuple[str, str]:
        """The key of the intent."""
        return self.intent.key


class LockedCache:
    """As a context, the cache under its lock. Its methods take the lock themselves, for a few milliseconds
    where a node has dozens of pods. Filter does not take it."""

    def __init__(
        self,
        cache: Cache,
        extender: Extender,
        name: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` identifies this extender in intents. It must be unique: two extenders of one name would
        take each other's intents for their own."""
        self.cache = cache
        self._lock = Lock()
        self._extender = extender
        self._name = name or uuid4().hex
        self._monotonic = monotonic
        # The version of each node's reservation that was read or written last.
        self._fences: dict[str, str] = {}
        # How often each node's reservation was read.
        self._reads: Counter[str] = Counter()
        # Held while nodes are in flight from the cache to the extender, so that none overtakes another.
        self.publishing = Lock()
        # Nodes that filter is to see as they are now, as soon as no other publication is in flight.
        self._owed: set[str] = set()

    def __enter__(self) -> Cache:
        self._lock.acquire()
        return self.cache

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def reserve(self, pending: PendingPod, node: str) -> Reserved | str:
        """Run the filters for the node on the current promises, choose the GPUs, promise them: Assume.
        Returns the reason if the pod does not fit. A Binding of this version of the pod that may be in
        flight is repeated unchanged: of two different ones either could succeed. It is repeated in this
        extender's name, so that the extender that posted it reads the new name before it drops the intent."""
        pod = pending.pod
        key = (pod.uid, pending.resource_version)
        with self as cache:
            before = cache.intents_on(node).get(key) or cache.assumed_on(node).get(key)
            if before is not None:
                intent = replace(before, extender=self._name, reads=self._reads[node])
                try:
                    cache.assume(intent, node)
                except OverAllocationError as error:
                    # Another pod was promised the place: one of the two is outdated, or not written yet.
                    return str(error)
            else:
                info = cache.info(node)
                if info is None:
                    return FreshInventory.reason.text
                sizing = self._extender.sizing
                known = self._extender.preemption_answers.over(with_promised(info, sizing))
                seen = with_nominated_pods(known, pod.uid, pod.priority)
                found = place(seen, pod.request, sizing, within=self._extender.snapshot)
                if isinstance(found, str):
                    return found
                placed = replace(pod, devices=found.devices)
                intent = Intent(placed, pending.resource_version, self._name, self._reads[node])
                cache.assume(intent, node)
        self._publish(node)
        return Reserved(node, pending, intent, again=before is not None)

    def confirm(self, pod: BoundPod, node: str) -> None:
        """A pod is bound to a node, as the API server answered; the watch may have reported newer facts.
        Filter already sees the place as taken: this is published with the next changes."""
        with self:
            self._confirm(pod, node)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone."""
        with self as cache:
            cache.remove_pod(uid, self._monotonic())

    def withdraw(self, reserved: Reserved) -> None:
        """Give up a place: no Binding was posted for it, or the API server refused the Binding. Where another
        extender may have posted the same Binding, or is about to, the written intent stays until its outcome
        is known; where none is written, the promise stays."""
        key, node = reserved.key, reserved.node
        with self as cache:
            written = cache.intents_on(node).get(key)
            if not reserved.again and (written is None or written.extender == self._name):
                cache.forget(key, node)
            elif written is not None:
                cache.withdraw(key, node)
        self._publish(node)

    def forget(self, key: tuple[str, str], node: str) -> None:
        """A Binding can no longer succeed: Forget, seen by filter at once."""
        with self as cache:
            cache.forget(key, node)
        self._publish(node)

    def fence_of(self, node: str) -> str | None:
        """The version of a node's reservation that was read or written last; None if it must be read
        first, `NEVER_WRITTEN` where the node has none yet."""
        with self:
            return self._fences.get(node)

    def with_intent(self, reserved: Reserved) -> Reservation:
        """A node's reservation to write: all open intents, this one, and as many of the binds that wait for
        their turn as there is room for, so that one write serves them all. Left out are binds that were
        decided before the last read of the reservation, and those with a written intent: a Binding that
        another extender may post as well is written in its own turn, in its own name."""
        node = reserved.node
        with self as cache:
            # Where the fence was invalidated meanwhile, this tries to create an existing object, and is
            # refused.
            version = self._fences.get(node, NEVER_WRITTEN)
            others = cache.intents_on(node)
            for key, intent in cache.assumed_on(node).items():
                waits = intent.reads == self._reads[node] and intent.pod.request.asks_gpu
                if waits and key not in others and len(others) < MAX_INTENTS - 1:
                    others[key] = intent
            others.pop(reserved.key, None)
            info = cache.info(node)
        return Reservation(
            node,
            info.uid if info is not None else None,
            version if version != NEVER_WRITTEN else None,
            (*others.values(), reserved.intent),
            self._stamp(),
        )

    def fence(self, found: Reservation, pods: Iterable[BoundPod] | None = None) -> None:
        """Take over a node's reservation: as it was read, with the `pods` that were on the node when they
        were listed afterwards; or, with None for `pods`, as this extender has just written it."""
        with self as cache:
            for pod in pods or ():
                self._confirm(pod, found.node)
            self._reads[found.node] += pods is not None
            cache.update_intents(found.node, found.intents, ours=pods is None)
            self._fences[found.node] = found.resource_version or NEVER_WRITTEN
        if pods is not None:
            self._publish(found.node)

    def is_outdated(self, reserved: Reserved) -> bool:
        """Whether the node's reservation was read after this was decided."""
        with self:
            return self._reads[reserved.node] != reserved.intent.reads

    def is_written(self, reserved: Reserved) -> bool:
        """Whether another bind of this extender wrote this very intent with its own while this one waited. An
        intent whose Binding may be in flight (`again`) is written again by the bind that posts it."""
        with self as cache:
            written = cache.intents_on(reserved.node).get(reserved.key)
            return reserved.node in self._fences and not reserved.again and written == reserved.intent

    def invalidate_fence(self, node: str | None = None) -> None:
        """Forget the last known version of a node's reservation, or of every node's."""
        with self:
            if node is None:
                self._fences.clear()
            else:
                self._fences.pop(node, None)

    def update_intents(self, node: str, intents: Iterable[Intent]) -> None:
        """Take over a node's reservation from the watch, unless this extender has its version already."""
        with self as cache:
            if node not in self._fences:
                cache.update_intents(node, intents)

    @staticmethod
    def _stamp() -> str:
        """A text that no other write carries."""
        return uuid4().hex

    def _confirm(self, pod: BoundPod, node: str) -> None:
        # The watch knows more about a pod that is known to be bound there: an answer may be older.
        if self.cache.node_of(pod.uid) != node:
            self.cache.confirm(pod, node, self._monotonic())

    def publish_owed(self) -> None:
        """Publish the nodes that changed while other nodes were in flight to the extender."""
        while self._owed and self.publishing.acquire(blocking=False):
            try:
                with self as cache:
                    owed, self._owed = self._owed, set()
                    infos = {node: cache.info(node) for node in owed}
                self._extender.update_nodes(infos)
            finally:
                self.publishing.release()

    def publish(self, nodes: Iterable[str]) -> None:
        """Publish nodes at once, or by the thread whose publication is in flight, as soon as that ends."""
        if self._extender.snapshot is None:
            return
        with self:
            self._owed.update(nodes)
        self.publish_owed()

    def _publish(self, node: str) -> None:
        self.publish((node,))
