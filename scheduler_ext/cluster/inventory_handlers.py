"""What is heard of Nodes, GPUNodes and Pods, told to the inventory.

Objects are read before the lock is taken, so that it is held for microseconds.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.events.report_problems import ReportProblems
from scheduler_ext.core.cache.inventory import Inventory
from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta
from scheduler_ext.wire.node_info import node_constraints, node_record
from scheduler_ext.wire.pod import asks_gpu, bound_pod, is_finished, pending_pod
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.times import seconds
from scheduler_ext.wire.watching import Broken

log = logging.getLogger(__name__)


class _Other(NamedTuple):
    """A pod without GPUs."""

    node: str
    cpu_milli: int


# What is heard of a pod: where it holds GPUs, that it waits for some, its place without any, or that it is
# no more.
_Word = tuple[BoundPod, str] | PendingPod | _Other | None


class _Handler:
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


class NodeHandler(_Handler):
    """Nodes: amounts and labels."""

    kind = "Node"
    together = 50

    def __init__(
        self, inventory: Inventory, lock: Lock, resources: ResourceNames, changed: Callable[[], None]
    ) -> None:
        super().__init__(inventory, lock, resources, changed)
        # What kube-scheduler's own filters compare, for explanations.
        self.facts: dict[str, NodeFacts] = {}

    def seen(self, items: Sequence[kube.Node], clock: ServerClock) -> None:
        records = []
        for node in items:
            name = _name(node.metadata)
            self._listed.add(name)
            self.facts[name] = node_constraints(node)
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
        self.facts.pop(name, None)
        with self._lock:
            self._inventory.node_gone(name)
        self._changed()

    def end(self) -> None:
        for name in self.facts.keys() - self._listed:
            del self.facts[name]
        with self._lock:
            for name in self._inventory.nodes() - self._listed:
                self._inventory.node_gone(name)
        self._changed()


class ReportHandler(_Handler):
    """GPUNodes: what agents reported, and when the API server heard it."""

    kind = "GPUNode"
    together = 15

    def __init__(
        self,
        inventory: Inventory,
        lock: Lock,
        resources: ResourceNames,
        changed: Callable[[], None],
        problems: ReportProblems,
    ) -> None:
        super().__init__(inventory, lock, resources, changed)
        self._problems = problems
        # Of the object that the last good report of a node is from: one that was made since, while no watch
        # ran, counts its reports from 1.
        self._uids: dict[str, str | None] = {}

    def seen(self, items: Sequence[GpuNode], clock: ServerClock) -> None:
        for node in items:
            self._take(node, clock)
        self._changed()

    def gone(self, item: GpuNode | Broken) -> None:
        name = item.name if isinstance(item, Broken) else _name(item.metadata)
        self._listed.discard(name)
        with self._lock:
            self._inventory.report_gone(name, time.monotonic())
        self._uids.pop(name, None)
        self._problems.gone(name)
        self._changed()

    def broken(self, item: Broken) -> None:
        self._listed.add(item.name)
        self._refuse(item.name, f"GPUNode {item.name}: {item.problem}; the report is refused")
        self._changed()

    def end(self) -> None:
        now = time.monotonic()
        with self._lock:
            for name in self._inventory.reports() - self._listed:
                self._inventory.report_gone(name, now)
                self._uids.pop(name, None)
        self._problems.only(self._listed)
        self._changed()

    def _take(self, node: GpuNode, clock: ServerClock) -> None:
        metadata = node.metadata or GpuNodeMeta()
        name = _name(metadata)
        self._listed.add(name)
        with self._lock:
            previous, received = self._inventory.last_report(name), self._inventory.last_received_at(name)
        if self._uids.get(name, metadata.uid) != metadata.uid:
            previous = None
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
                received = _when(report, previous, received, metadata, clock, now)
                self._inventory.report_seen(name, report, received, now, owner_uid(metadata))
                self._uids[name] = metadata.uid
        if report is not None:
            self._problems.accepted(name, report.cordoned_strangers)
        else:
            self._problems.gone(name)

    def _refuse(self, name: str, problem: str) -> None:
        log.error("%s", problem)
        self._problems.refused(name, problem)


class PodHandler(_Handler):
    """Pods that ask for GPUs: those on a node hold some there, the others wait. Of pods that ask none, the
    CPU that they have of their node."""

    kind = "Pod"
    together = 250

    def __init__(
        self, inventory: Inventory, lock: Lock, resources: ResourceNames, changed: Callable[[], None]
    ) -> None:
        super().__init__(inventory, lock, resources, changed)
        # Those without GPUs that the list has not brought yet. Not told by ``_listed``, where all that were
        # ever heard of would stay.
        self._unlisted: set[str] = set()

    def key(self, item: Broken) -> str:
        return item.uid

    def begin(self) -> None:
        super().begin()
        with self._lock:
            # Whoever is bound or heard of while the list is read may be newer than it.
            self._before = self._inventory.known_pods()
            self._unlisted = self._inventory.other_pods()
            self._inventory.arrivals.hold()

    def seen(self, items: Sequence[kube.Pod], clock: ServerClock) -> None:
        # By uid: of several words on one pod, which come in one piece, the last counts.
        told: dict[str, _Word] = {}
        for pod in items:
            metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
            uid = metadata.uid or ""
            if not asks_gpu(spec, self._resources):
                if spec.node_name:
                    told[uid] = None if is_finished(pod) else _Other(spec.node_name, pod_cpu_milli(spec))
                continue
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

    def broken(self, item: Broken) -> None:
        super().broken(item)
        self._unlisted.discard(item.uid)

    def end(self) -> None:
        self._tell(dict.fromkeys((self._before - self._listed) | self._unlisted))
        with self._lock:
            self._inventory.arrivals.release()

    def _tell(self, told: Mapping[str, _Word]) -> None:
        self._unlisted.difference_update(told)
        inventory, listed = self._inventory, self._listed
        now = time.monotonic()
        with self._lock:
            for uid, word in told.items():
                if isinstance(word, _Other):
                    inventory.other_pod_seen(uid, word.node, word.cpu_milli)
                elif word is None:
                    # Else it would grow for as long as no list begins, which may be months.
                    listed.discard(uid)
                    inventory.pod_gone(uid, now)
                elif isinstance(word, PendingPod):
                    listed.add(uid)
                    inventory.pod_pending(word)
                else:
                    listed.add(uid)
                    inventory.pod_seen(*word, now)
            changed = inventory.has_changes
        if changed:
            self._changed()


def _name(metadata: kube.ObjectMeta | None) -> str:
    return (metadata.name if metadata else None) or ""


def received_at(metadata: GpuNodeMeta, clock: ServerClock, now: float) -> float:
    """When the API server took the last status, by our monotonic clock: neither the agent's clock nor the
    moment we happened to read it counts. Now, where no entry of managedFields tells."""
    stamped = _stamped_at(metadata, clock, now)
    return now if stamped is None else stamped


def _when(
    report: Report,
    previous: Report | None,
    received: float,
    metadata: GpuNodeMeta,
    clock: ServerClock,
    now: float,
) -> float:
    """The same where a report was ``received`` before, which may be this one seen again: it is no younger
    for a label or an annotation that was changed since, nor for a clock that was set."""
    if previous is None:
        return received_at(metadata, clock, now)
    numbered = report.sequence is not None
    if numbered and (report.boot_id, report.sequence) == (previous.boot_id, previous.sequence):
        return received
    if numbered or report.devices != previous.devices:
        return received_at(metadata, clock, now)
    # Without a number, only a stamp says that it was written again.
    stamped = _stamped_at(metadata, replace(clock, not_before=-math.inf), now)
    return received if stamped is None else stamped


def _stamped_at(metadata: GpuNodeMeta, clock: ServerClock, now: float) -> float | None:
    stamps = [seconds(entry.time) for entry in metadata.managed_fields or () if entry.subresource == "status"]
    known = [stamp for stamp in stamps if stamp is not None]
    if not known:
        return None
    # The server's clock as it is now: a stream says it only once, when it begins.
    later = ServerClock(clock.said + (now - clock.heard_at), now, clock.not_before)
    return later.monotonic(max(known))


def owner_uid(metadata: GpuNodeMeta) -> str | None:
    """The uid of the Node that a GPUNode is of, where it says."""
    return next((owner.uid for owner in metadata.owner_references or () if owner.kind == "Node"), None)
