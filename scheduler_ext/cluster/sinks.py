"""What is heard of Nodes, GPUNodes and Pods, told to the inventory.

Objects are read before the lock is taken, so that it is held for microseconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from scheduler_ext.cluster.transport import ServerClock
from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.inventory import Inventory
from scheduler_ext.core.node import BoundPod, PendingPod
from scheduler_ext.core.quantity import QuantityError
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta
from scheduler_ext.wire.node import node_record
from scheduler_ext.wire.pod import asks_gpu, bound_pod, is_finished, pending_pod
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.times import seconds
from scheduler_ext.wire.watching import Broken

log = logging.getLogger(__name__)

Refuse = Callable[[str, str], None]
"""Told of a report that was refused: the node, and why."""


class _Sink:
    """What is common: the inventory under its lock, and whom to wake when something was told."""

    def __init__(
        self, inventory: Inventory, lock: Lock, resources: ResourceNames, changed: Callable[[], None]
    ) -> None:
        self._inventory = inventory
        self._lock = lock
        self._resources = resources
        self._changed = changed
        self._listed: set[str] = set()
        self._before: set[str] = set()

    def begin(self) -> None:
        self._listed = set()

    def broken(self, item: Broken) -> None:
        # It is there; what was known of it before is the best there is.
        self._listed.add(self.key(item))
        log.error("%s %s cannot be read, what was known of it stays: %s", self.kind, item.name, item.problem)

    kind = "object"
    together = 100

    def key(self, item: Broken) -> str:
        """What a broken object is listed by."""
        return item.name


class NodeSink(_Sink):
    """Nodes: amounts and labels."""

    kind = "Node"
    together = 50

    def seen(self, items: Sequence[kube.Node], clock: ServerClock) -> None:
        records = []
        for node in items:
            name = _name(node.metadata)
            self._listed.add(name)
            try:
                records.append((name, node_record(node, self._resources)))
            except QuantityError as error:
                self.broken(Broken(name, "", str(error)))
        now = time.monotonic()
        with self._lock:
            for name, record in records:
                self._inventory.node_seen(name, record, now)
        self._changed()

    def gone(self, item: kube.Node | Broken) -> None:
        name = item.name if isinstance(item, Broken) else _name(item.metadata)
        self._listed.discard(name)
        with self._lock:
            self._inventory.node_gone(name)
        self._changed()

    def end(self) -> None:
        with self._lock:
            for name in self._inventory.nodes() - self._listed:
                self._inventory.node_gone(name)
        self._changed()


class ReportSink(_Sink):
    """GPUNodes: what agents reported, and when the API server heard it."""

    kind = "GPUNode"
    together = 15

    def __init__(
        self,
        inventory: Inventory,
        lock: Lock,
        resources: ResourceNames,
        changed: Callable[[], None],
        refuse: Refuse,
    ) -> None:
        super().__init__(inventory, lock, resources, changed)
        self._refuse = refuse

    def seen(self, items: Sequence[GpuNode], clock: ServerClock) -> None:
        for node in items:
            self._take(node, clock)
        self._changed()

    def gone(self, item: GpuNode | Broken) -> None:
        name = item.name if isinstance(item, Broken) else _name(item.metadata)
        self._listed.discard(name)
        with self._lock:
            self._inventory.report_gone(name, time.monotonic())
        self._changed()

    def broken(self, item: Broken) -> None:
        self._listed.add(item.name)
        self._refuse(item.name, f"GPUNode {item.name}: {item.problem}; the report is refused")

    def end(self) -> None:
        now = time.monotonic()
        with self._lock:
            for name in self._inventory.reports() - self._listed:
                self._inventory.report_gone(name, now)
        self._changed()

    def _take(self, node: GpuNode, clock: ServerClock) -> None:
        metadata = node.metadata or GpuNodeMeta()
        name = _name(metadata)
        self._listed.add(name)
        with self._lock:
            previous = self._inventory.last_report(name)
        try:
            report = read_report(node, previous)
        except ImpossibleReportError as error:
            self._refuse(name, str(error))
            return
        now = time.monotonic()
        with self._lock:
            if report is None:
                self._inventory.report_gone(name, now)
            else:
                owner = owner_uid(metadata)
                self._inventory.report_seen(name, report, received_at(metadata, clock, now), now, owner)


class PodSink(_Sink):
    """Pods that ask for GPUs: those on a node hold some there, the others wait."""

    kind = "Pod"
    together = 250

    def key(self, item: Broken) -> str:
        return item.uid

    def begin(self) -> None:
        super().begin()
        with self._lock:
            # Whoever is bound or heard of while the list is read may be newer than it.
            self._before = self._inventory.known_pods()

    def seen(self, items: Sequence[kube.Pod], clock: ServerClock) -> None:
        # By uid: of several words on one pod, which come in one piece, the last counts.
        told: dict[str, tuple[BoundPod, str] | PendingPod | None] = {}
        for pod in items:
            metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
            if not asks_gpu(spec, self._resources):
                continue
            uid = metadata.uid or ""
            try:
                if spec.node_name:
                    told[uid] = (bound_pod(pod, self._resources), spec.node_name)
                elif is_finished(pod):
                    told[uid] = None
                else:
                    told[uid] = pending_pod(pod, self._resources)
            except QuantityError as error:
                self.broken(Broken(f"{metadata.namespace}/{metadata.name}", uid, str(error)))
        self._tell(told)

    def gone(self, item: kube.Pod | Broken) -> None:
        uid = item.uid if isinstance(item, Broken) else item.metadata.uid if item.metadata else None
        self._tell({uid or "": None})

    def end(self) -> None:
        self._tell(dict.fromkeys(self._before - self._listed))

    def _tell(self, told: Mapping[str, tuple[BoundPod, str] | PendingPod | None]) -> None:
        for uid, word in told.items():
            # Without the second it would grow for as long as no list begins, which may be months.
            (self._listed.discard if word is None else self._listed.add)(uid)
        now = time.monotonic()
        with self._lock:
            for uid, word in told.items():
                if word is None:
                    self._inventory.pod_gone(uid, now)
                elif isinstance(word, PendingPod):
                    self._inventory.pod_pending(word)
                else:
                    self._inventory.pod_seen(*word, now)
        if told:
            self._changed()


def _name(metadata: kube.ObjectMeta | None) -> str:
    return (metadata.name if metadata else None) or ""


def received_at(metadata: GpuNodeMeta, clock: ServerClock, now: float) -> float:
    """When the API server took the last status, by our monotonic clock: neither the agent's clock nor the
    moment we happened to read it counts. Now, where no entry of managedFields tells."""
    stamps = [seconds(entry.time) for entry in metadata.managed_fields or () if entry.subresource == "status"]
    known = [stamp for stamp in stamps if stamp is not None]
    if not known:
        return now
    # The server's clock as it is now: a stream says it only once, when it begins.
    later = ServerClock(clock.said + (now - clock.heard_at), now)
    return later.monotonic(max(known))


def owner_uid(metadata: GpuNodeMeta) -> str | None:
    """The uid of the Node that a GPUNode is of, where it says."""
    return next((owner.uid for owner in metadata.owner_references or () if owner.kind == "Node"), None)
