"""Nodes, reports and pods as they are heard of, one by one: events in, what is known of each node out.

What is promised is in the ledger here: no GPU memory is given out but against it. No clock here: ``now`` is
the monotonic time of the caller, in seconds. A report's age counts from when it was received, which the
caller knows, also across its own restarts.

    Node seen ── no report yet ──► estimated ── missing_after_s ──► Missing
        └────── report received ──► Fresh ── stale_after_s ──► Stale ── missing_after_s ──► Missing
                                     ▲──────────────── next report ────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from scheduler_ext.core.cache.change_cause import Cause
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.ledger import NO_PODS, Ledger, NodePods
from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.cache.other_pods import OtherPods
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.advertised import is_of_shares
from scheduler_ext.core.node.caps import NO_CAPS, Caps, capped
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.node.promisable import overallocated
from scheduler_ext.core.node.state import coarse_free_milli
from scheduler_ext.core.request.resource_names import ResourceNames

# Vendors that have an agent; the GPUs of others are known by labels for good.
_REPORTED_VENDORS = ("nvidia",)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What a Node object says of a node's GPUs: the amounts it hands out, and what its labels tell.

    ``advertised`` is the MiB of memory shares as they stand in capacity and allocatable; None: not there.
    ``cpu_milli`` is its allocatable CPU, None where unknown; ``pool`` the node pool, "" where no label names
    one. ``unlabelled``: it hands out NVIDIA GPUs, and has no label that brings an agent.
    """

    uid: str | None = None
    allocatable: dict[str, int] = field(default_factory=dict)
    estimate: Estimate | None = None
    caps: Caps = NO_CAPS
    share_node: bool = False
    spot: bool = False
    changing: bool = False
    advertised: tuple[int | None, int | None] = (None, None)
    cpu_milli: int | None = None
    pool: str = ""
    unlabelled: bool = False


def node_info(
    name: str,
    record: NodeRecord,
    report: Report | None,
    pods: NodePods = NO_PODS,
    freshness: str = "Fresh",
    cpu_elsewhere_milli: int = 0,
) -> NodeInfo:
    """A node as its sources describe it together. Of a node without GPUs the CPU is no matter."""
    has_gpus = report is not None or record.estimate is not None
    return NodeInfo(
        name,
        uid=record.uid,
        report=capped(report, record.caps) if report is not None else None,
        estimate=record.estimate if report is None else None,
        freshness=freshness,
        allocatable=record.allocatable,
        share_node=record.share_node,
        spot=record.spot,
        changing=record.changing,
        pods=pods.counted_once(),
        assumed=pods.assumed,
        nominated=pods.nominated,
        cpu_milli=record.cpu_milli if has_gpus else None,
        cpu_elsewhere_milli=cpu_elsewhere_milli if has_gpus else 0,
        pool=record.pool,
    )


@dataclass(slots=True)
class _Entry:
    """All sources of one node. ``owner_uid`` is the Node that the report is of."""

    first_seen: float = 0.0
    record: NodeRecord | None = None
    report: Report | None = None
    received_at: float = 0.0
    owner_uid: str | None = None
    freshness: str = "Fresh"

    def own_report(self) -> Report | None:
        """The report, unless it is of a former node of the same name."""
        if self.record is None or self.owner_uid in (None, self.record.uid):
            return self.report
        return None


class Inventory:
    """What is known of every node. For one caller at a time."""

    def __init__(
        self,
        stale_after_s: float,
        missing_after_s: float,
        resources: ResourceNames | None = None,
        enforcing: bool = False,
    ) -> None:
        """``enforcing``: shares are bound here, so that they are on nodes of shares or nowhere."""
        self._stale_after_s = stale_after_s
        self._missing_after_s = missing_after_s
        self._resources = resources or ResourceNames()
        self._enforcing = enforcing
        self._entries: dict[str, _Entry] = {}
        self._ledger = Ledger(self._touch)
        self._pending: dict[str, PendingPod] = {}
        self._others = OtherPods()
        self.arrivals = ObservedDemand()
        self._changed: dict[str, Cause] = {}

    def node_seen(self, name: str, record: NodeRecord, now: float) -> None:
        """A Node is there, or is not what it was; one of another uid is another node."""
        entry = self._entries.setdefault(name, _Entry())
        if entry.record is None or entry.record.uid != record.uid:
            entry.first_seen = now
        if entry.record != record:
            entry.record = record
            self._touch(name, Cause.NODE)
        self._judge(name, entry, now)

    def node_gone(self, name: str) -> None:
        """A Node was deleted."""
        entry = self._entries.get(name)
        if entry is not None and entry.record is not None:
            entry.record = None
            self._touch(name, Cause.NODE)
            self._forget_if_empty(name, entry)

    def report_seen(
        self, name: str, report: Report, received_at: float, now: float, owner_uid: str | None = None
    ) -> None:
        """A report, first heard at ``received_at``; ``owner_uid`` is the uid of the Node it is of."""
        entry = self._entries.setdefault(name, _Entry(first_seen=now))
        entry.received_at = received_at
        if entry.report is not None and entry.report.devices == report.devices:
            # The devices there are already: thousands of new ones that say the same would be the collector's.
            report = replace(report, devices=entry.report.devices)
        if entry.owner_uid != owner_uid or not _same(entry.report, report):
            self._touch(name, Cause.REPORT)
        entry.report, entry.owner_uid = report, owner_uid
        self._ledger.report_received(name, report, received_at)
        self._judge(name, entry, now)

    def report_gone(self, name: str, now: float) -> None:
        """A GPUNode was deleted, or has no status any more."""
        entry = self._entries.get(name)
        if entry is not None and entry.report is not None:
            entry.report, entry.owner_uid = None, None
            self._ledger.report_received(name, None, now)
            self._touch(name, Cause.REPORT)
            self._judge(name, entry, now)
            self._forget_if_empty(name, entry)

    def pod_pending(self, pending: PendingPod) -> None:
        """A pod waits for a node. An older word on one that is bound or gone changes nothing."""
        if self._ledger.knows_end_of(pending.pod.uid):
            return
        self._count(pending.pod)
        self._pending[pending.pod.uid] = pending
        place = pending.nominated_node if pending.invalid is None and not pending.pod.terminating else None
        self._ledger.nominate(pending.pod, place)

    def pod_seen(self, pod: BoundPod, node: str, now: float) -> None:
        """A pod holds GPUs of a node, or is not what it was: Confirm, where it was assumed."""
        self._count(pod)
        self._pending.pop(pod.uid, None)
        self._follow_cpu(self._others.remove(pod.uid))
        self._ledger.pod_seen(pod, node, now)

    def other_pod_seen(self, uid: str, node: str, cpu_milli: int) -> None:
        """A pod is on a node that asks no GPU, and has not finished; ``cpu_milli`` is what it asks there.

        One that was bound here is counted with those that hold something.
        """
        if self._ledger.node_of(uid) is None:
            self._follow_cpu(self._others.put(uid, node, cpu_milli))

    def pod_gone(self, uid: str, now: float) -> None:
        """A pod is gone; what the last report says of it no longer counts."""
        self._follow_cpu(self._others.remove(uid))
        waited = self._pending.pop(uid, None) is not None
        node = self._ledger.pod_gone(uid, now, waited)
        entry = self._entries.get(node) if node is not None else None
        if node is not None and (entry is None or entry.report is None):
            self._ledger.report_received(node, None, now)

    def assume(self, intent: Intent, node: str) -> None:
        """A Binding of the pod to the node is about to be sent: what it will hold is promised from now on.

        Raises OverAllocationError, and promises nothing, when the node does not have it, or has promised it.
        """
        info, pod = self.info(node), intent.pod
        problem = "there is no such node" if info is None else overallocated(info, pod, self._resources)
        if problem is not None:
            raise OverAllocationError(f"pod {pod.namespace}/{pod.name} on node {node}: {problem}")
        self._ledger.assume(intent, node)

    def forget(self, key: tuple[str, str], node: str) -> None:
        """The Binding of a pod to a node was not, and can no longer succeed: Forget, or Expire."""
        self._ledger.forget(key, node)

    def withdraw(self, key: tuple[str, str], node: str) -> None:
        """What was assumed is not going to be asked for; what is written of it stays."""
        self._ledger.withdraw(key, node)

    def intents_seen(self, node: str, intents: Iterable[Intent], ours: bool = False) -> None:
        """What is written down of Bindings to a node that may be on their way; ``ours``: just now, by us."""
        self._ledger.intents_seen(node, intents, ours)

    def nominate(self, pod: BoundPod, node: str | None) -> None:
        """A pod waits for others to leave a node; None: for none any more."""
        self._ledger.nominate(pod, node)

    def tick(self, now: float) -> None:
        """Let reports age."""
        for name, entry in self._entries.items():
            self._judge(name, entry, now)

    @property
    def has_changes(self) -> bool:
        """Whether nodes changed that nobody has taken yet."""
        return bool(self._changed)

    def take_changes(self) -> dict[str, Cause]:
        """The nodes that changed since the last call, and why."""
        changed, self._changed = self._changed, {}
        return changed

    def info(self, name: str) -> NodeInfo | None:
        """What is known of a node; None when there is no such Node."""
        entry = self._entries.get(name)
        if entry is None or entry.record is None:
            return None
        pods = self._ledger.pods(name)
        cpu_milli = self._others.cpu_milli(name)
        info = node_info(name, entry.record, entry.own_report(), pods, entry.freshness, cpu_milli)
        if self._enforcing and entry.record.allocatable.get(self._resources.share) and not is_of_shares(info):
            # What stands there is of somebody else, or not taken away yet.
            return replace(info, allocatable=entry.record.allocatable | {self._resources.share: 0})
        return info

    def infos(self) -> Iterator[NodeInfo]:
        """What is known of every node."""
        for name in self._entries:
            info = self.info(name)
            if info is not None:
                yield info

    def last_report(self, name: str) -> Report | None:
        """The last good report of a name."""
        entry = self._entries.get(name)
        return entry.report if entry is not None else None

    def last_received_at(self, name: str) -> float:
        """When that was; 0 without one."""
        entry = self._entries.get(name)
        return entry.received_at if entry is not None else 0.0

    def ages(self, now: float) -> dict[str, float]:
        """Seconds since each report was received, by node."""
        return {
            name: max(0.0, now - entry.received_at)
            for name, entry in self._entries.items()
            if entry.own_report() is not None
        }

    def pods(self) -> dict[str, str]:
        """The node of every bound pod that holds GPUs, by uid."""
        return self._ledger.holding()

    def advertised(self, name: str) -> tuple[int | None, int | None]:
        """The MiB of memory shares in a node's capacity and allocatable; None: not there."""
        entry = self._entries.get(name)
        return entry.record.advertised if entry is not None and entry.record is not None else (None, None)

    def unlabelled(self, name: str) -> bool:
        """Whether a node hands out NVIDIA GPUs, has no report, and no label that brings an agent."""
        entry = self._entries.get(name)
        if entry is None or entry.record is None:
            return False
        return entry.record.unlabelled and entry.own_report() is None

    def pending(self, uid: str) -> PendingPod | None:
        """A pod that waits for a node, by uid."""
        return self._pending.get(uid)

    def all_pending(self) -> list[PendingPod]:
        """Every pod that waits for a node."""
        return list(self._pending.values())

    def known_pods(self) -> set[str]:
        """The uids of all pods that hold GPUs or wait for some."""
        return {*self._ledger.confirmed(), *self._pending}

    def waits_or_holds(self, uid: str) -> bool:
        """Whether a pod waits for GPUs or holds some now."""
        return uid in self._pending or self._ledger.holds(uid)

    def other_pods(self) -> set[str]:
        """The uids of all pods on nodes that ask CPU and no GPU."""
        return self._others.uids()

    def assumed(self) -> list[tuple[str, Intent]]:
        """Every promise whose end is not known yet, with its node."""
        return self._ledger.assumed()

    def assumed_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """Bindings to a node that were about to be sent and whose end is not known."""
        return self._ledger.assumed_on(node)

    def intents_on(self, node: str) -> dict[tuple[str, str], Intent]:
        """What is written down of Bindings to a node whose end is not known yet."""
        return self._ledger.intents_on(node)

    def node_of(self, uid: str) -> str | None:
        """Where a pod is bound; None when it is not."""
        return self._ledger.node_of(uid)

    def is_gone(self, uid: str) -> bool:
        """Whether a pod was heard of and is no more."""
        return self._ledger.is_gone(uid)

    def reports(self) -> set[str]:
        """The names that have a report."""
        return {name for name, entry in self._entries.items() if entry.report is not None}

    def nodes(self) -> set[str]:
        """The names that have a Node."""
        return {name for name, entry in self._entries.items() if entry.record is not None}

    def _judge(self, name: str, entry: _Entry, now: float) -> None:
        freshness = self._freshness(entry, now)
        if freshness != entry.freshness:
            entry.freshness = freshness
            self._touch(name, Cause.AGE)

    def _freshness(self, entry: _Entry, now: float) -> str:
        if entry.own_report() is not None:
            age_s = now - entry.received_at
            if age_s < self._stale_after_s:
                return "Fresh"
            return "Stale" if age_s < self._missing_after_s else "Missing"
        estimate = entry.record.estimate if entry.record is not None else None
        if estimate is None or estimate.vendor not in _REPORTED_VENDORS:
            return "Fresh"
        return "Fresh" if now - entry.first_seen < self._missing_after_s else "Missing"

    def _count(self, pod: BoundPod) -> None:
        """Count a pod that is heard of for the first time."""
        if pod.asked is None or pod.uid in self._pending or self._ledger.knows_end_of(pod.uid):
            return
        self.arrivals.came(pod.asked, pod.created_at)

    def _follow_cpu(self, changes: Iterable[tuple[str, int]]) -> None:
        """Pods ask so much more CPU of these nodes: some are not what they were, by the steps of it."""
        for name, more_milli in changes:
            entry = self._entries.get(name)
            if name in self._changed or entry is None or entry.record is None:
                continue
            cpu_milli = entry.record.cpu_milli
            if cpu_milli is None or (entry.report is None and entry.record.estimate is None):
                continue
            asked = self._others.cpu_milli(name) + self._ledger.cpu_milli(name)
            before = coarse_free_milli(cpu_milli, asked - more_milli)
            if coarse_free_milli(cpu_milli, asked) != before:
                self._touch(name, Cause.POD)

    def _touch(self, name: str, cause: Cause) -> None:
        self._changed[name] = self._changed.get(name, cause) | cause

    def _forget_if_empty(self, name: str, entry: _Entry) -> None:
        if entry.record is None and entry.report is None:
            del self._entries[name]


def _same(before: Report | None, after: Report) -> bool:
    """Whether two reports say the same, whichever came when."""
    if before is None:
        return False
    return replace(before, sequence=None, reported_at=None) == replace(after, sequence=None, reported_at=None)
