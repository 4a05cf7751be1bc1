"""The inventory behind the one lock, and the extender that decides on it: Reserve, Confirm, Forget.

Whoever promises memory does it here, in one step with the decision that there is some.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from uuid import uuid4

from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.cache.inventory import Inventory
from scheduler_ext.core.cycle.placement import place, place_nominated
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.node.nominated import seen_by
from scheduler_ext.extender.extender import Extender

NEVER_WRITTEN = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A pod's place on a node, promised until its Binding is settled; ``intent`` holds its shares' GPUs."""

    node: str
    pending: PendingPod
    intent: Intent
    # Whether a Binding of it may be on its way already, which somebody posted before.
    again: bool = False

    @property
    def devices(self) -> Mapping[str, tuple[str, ...]]:
        """The GPU of each share, by container; what a device plugin picks is not known."""
        return self.intent.pod.devices

    @property
    def key(self) -> tuple[str, str]:
        """What it is settled by."""
        return self.intent.key


class Book:
    """What extenders know and have promised. Safe to use from several threads; the lock is held for a few
    milliseconds where a node has dozens of pods. Filter does not take it."""

    def __init__(
        self,
        inventory: Inventory,
        extender: Extender,
        name: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.inventory = inventory
        self.lock = Lock()
        self._extender = extender
        # Two of one name would each take for their own what the other wrote.
        self._name = name or uuid4().hex
        self._monotonic = monotonic
        self._fences: dict[str, str] = {}
        # How often we read what others wrote, by node.
        self._reads: Counter[str] = Counter()
        # Held while nodes are on their way from the inventory to the extender, so that none is overtaken.
        self.publishing = Lock()
        # Nodes that filter is to see as they are now, once nothing else is on its way.
        self._owed: set[str] = set()

    def pending(self, uid: str) -> PendingPod | None:
        """A pod that waits for a node, as it was last heard of."""
        with self.lock:
            return self.inventory.pending(uid)

    def node_of(self, uid: str) -> str | None:
        """Where a pod is bound; None when it is not, as far as is known."""
        with self.lock:
            return self.inventory.node_of(uid)

    def reserve(self, pending: PendingPod, node: str) -> Reserved | str:
        """Run the filters for the node on what is promised now, choose the GPUs, promise them: Assume.

        The reason, where the pod does not fit. A Binding of this very pod that may be on its way already is
        done again as it was: were it another one, both might be believed. It is done in our name, so that
        whoever posted it reads of us before it drops what it thinks is its own.
        """
        pod = pending.pod
        key = (pod.uid, pending.resource_version)
        with self.lock:
            before = self.inventory.intents_on(node).get(key) or self.inventory.assumed_on(node).get(key)
            if before is not None:
                intent = replace(before, extender=self._name, reads=self._reads[node])
                try:
                    self.inventory.assume(intent, node)
                except OverAllocationError as error:
                    # Somebody else was promised the place: of the two one is history, or not written yet.
                    return str(error)
            else:
                info = self.inventory.info(node)
                if info is None:
                    return "node(s) had no fresh GPU inventory"
                sizing = self._extender.sizing
                known = self._extender.places.over(info)
                if known is info and info.nominated:
                    known = place_nominated(info, sizing)
                seen = seen_by(known, pod.uid, pod.priority)
                found = place(seen, pod.request, sizing, within=self._extender.snapshot)
                if isinstance(found, str):
                    return found
                placed = replace(pod, devices=found.devices)
                intent = Intent(placed, pending.resource_version, self._name, self._reads[node])
                self.inventory.assume(intent, node)
        self._publish(node)
        return Reserved(node, pending, intent, again=before is not None)

    def confirm(self, pod: BoundPod, node: str) -> None:
        """A pod is bound to a node; the watch may have told more of it since that was answered.

        What filter sees is as it was when the place was promised: this is published with the next lot.
        """
        with self.lock:
            self._bound(pod, node)

    def gone(self, uid: str) -> None:
        """A pod is no more."""
        with self.lock:
            self.inventory.pod_gone(uid, self._monotonic())

    def withdraw(self, reserved: Reserved) -> None:
        """A place is not needed: no Binding was posted, or it was refused.

        If somebody may have posted the same before, or is about to, what is written of it stays until its end
        is known; and where nothing is written, what we promised.
        """
        key, node = reserved.key, reserved.node
        with self.lock:
            written = self.inventory.intents_on(node).get(key)
            if not reserved.again and (written is None or written.extender == self._name):
                self.inventory.forget(key, node)
            elif written is not None:
                self.inventory.withdraw(key, node)
        self._publish(node)

    def forget(self, key: tuple[str, str], node: str) -> None:
        """A Binding can no longer succeed."""
        with self.lock:
            self.inventory.forget(key, node)
        self._publish(node)

    def version(self, node: str) -> str | None:
        """The version of a node's reservation that we read or wrote last, before which nobody else's count;
        None where it has to be read first. ``NEVER_WRITTEN`` where there is none yet."""
        with self.lock:
            return self._fences.get(node)

    def with_intent(self, reserved: Reserved) -> Reservation:
        """A node's reservation as it is to be written: all whose end is not known, this one, and as many as
        there is room for of those that wait for their turn: one write is enough for all of them.

        Left out are those that were decided before we read what others wrote, and those of which something is
        written: who posts one that another extender may post writes it in its own name, in its own turn.
        """
        node = reserved.node
        with self.lock:
            # Where it was lowered meanwhile this is the attempt to create one that exists, which is refused.
            version = self._fences.get(node, NEVER_WRITTEN)
            others = self.inventory.intents_on(node)
            for key, intent in self.inventory.assumed_on(node).items():
                waits = intent.reads == self._reads[node] and intent.pod.request.asks_gpu
                if waits and key not in others and len(others) < MAX_INTENTS - 1:
                    others[key] = intent
            others.pop(reserved.key, None)
            info = self.inventory.info(node)
        return Reservation(
            node,
            info.uid if info is not None else None,
            version if version != NEVER_WRITTEN else None,
            (*others.values(), reserved.intent),
            self._stamp(),
        )

    def fence(self, found: Reservation, pods: Iterable[BoundPod] | None = None) -> None:
        """What a node's reservation says: as we read it, with the ``pods`` found bound to it afterwards, or
        as we have just written it, without."""
        with self.lock:
            for pod in pods or ():
                self._bound(pod, found.node)
            self._reads[found.node] += pods is not None
            self.inventory.intents_seen(found.node, found.intents, ours=pods is None)
            self._fences[found.node] = found.resource_version or NEVER_WRITTEN
        if pods is not None:
            self._publish(found.node)

    def is_outdated(self, reserved: Reserved) -> bool:
        """Whether we read what others wrote of the node after this was decided."""
        with self.lock:
            return self._reads[reserved.node] != reserved.intent.reads

    def is_written(self, reserved: Reserved) -> bool:
        """Whether another bind of ours wrote this intent with its own while this one waited for its turn.

        One of which a Binding may be on its way already (``again``) is written anew by who posts it.
        """
        with self.lock:
            known = reserved.node in self._fences
            return known and not reserved.again and reserved.key in self.inventory.intents_on(reserved.node)

    def invalidate_fence(self, node: str | None = None) -> None:
        """What is written of a node, or of any, is not known any more."""
        with self.lock:
            if node is None:
                self._fences.clear()
            else:
                self._fences.pop(node, None)

    def heard(self, node: str, intents: Iterable[Intent]) -> None:
        """What a watch says of a node's reservation: nothing new, where we write it ourselves."""
        with self.lock:
            if node not in self._fences:
                self.inventory.intents_seen(node, intents)

    def unsettled(self) -> list[tuple[str, Intent]]:
        """Every promise whose end is not known, with its node."""
        with self.lock:
            return self.inventory.assumed()

    @staticmethod
    def _stamp() -> str:
        """What no other write has."""
        return uuid4().hex

    def _bound(self, pod: BoundPod, node: str) -> None:
        # Of a pod that is known to be bound the watch knows more, and at last: an answer may be older.
        if self.inventory.node_of(pod.uid) != node:
            self.inventory.pod_seen(pod, node, self._monotonic())

    def publish_owed(self) -> None:
        """Let filter see what was promised while other nodes were on their way; for whoever had them."""
        while self._owed and self.publishing.acquire(blocking=False):
            try:
                with self.lock:
                    owed, self._owed = self._owed, set()
                    infos = {node: self.inventory.info(node) for node in owed}
                self._extender.update_nodes(infos)
            finally:
                self.publishing.release()

    def _publish(self, node: str) -> None:
        """Let filter see it at once. Where others are on their way to it, who publishes them does it then."""
        if self._extender.snapshot is None:
            return
        with self.lock:
            self._owed.add(node)
        self.publish_owed()
