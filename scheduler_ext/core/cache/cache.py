"""The scheduler cache: nodes, reports and pods as they arrive one by one, with the promises made to pods.

The interface follows kube-scheduler's cache: Assume, Confirm and Forget for pods about to be bound, and an
update or remove for each kind of object. GPU memory is promised only against this cache. `now` is the
caller's monotonic time in seconds. The age of a report counts from when the API server received it.

    Node created ── no report yet ──► estimated ── missing_after_s ──► Missing
        └────── report received ──► Fresh ── stale_after_s ──► Stale ── missing_after_s ──► Missing
                                     ▲──────────────── next report ────────┘
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler_ext.core.cache.device_index import DeviceIndex, with_claims
from scheduler_ext.core.cache.held_rooms import HeldRoom, HeldRooms
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.ledger import Cause, Ledger
from scheduler_ext.core.cache.node_entry import NO_ENTRY, NodeEntry
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.cache.other_cpu import OtherCpu
from scheduler_ext.core.dra.device_names import Compile, DeviceExpressions
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.readings import NodeReadings, Readings
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod, PlannedNode
from scheduler_ext.core.node.promisable import is_of_shares, overallocated
from scheduler_ext.core.node.state import coarse_free_milli
from scheduler_ext.core.request.resource_names import ResourceNames

# The nodes of DRA that learn new names with one publication: 0.1 s of work at most.
_RENAMED_AT_ONCE = 100


def _follow_nothing(_expressions: Sequence[str]) -> DeviceExpressions:
    raise AssertionError("a class where DRA is not followed")


class Cache(Ledger):
    """All that is known of every node. One thread at a time."""

    def __init__(
        self,
        stale_after_s: float,
        missing_after_s: float,
        resources: ResourceNames | None = None,
        enforcing: bool = False,
        compile_selectors: Compile | None = None,
        *,
        allow_unreported: bool = False,
    ) -> None:
        """`enforcing`: this extender binds shares, so that only nodes labelled for shares have any.
        `compile_selectors` reads the expressions of DeviceClasses and claims, where DRA is followed.
        `allow_unreported`: nodes without a fresh report take pods by their allocatable."""
        super().__init__()
        self._stale_after_s = stale_after_s
        self._missing_after_s = missing_after_s
        self._resources = resources or ResourceNames()
        self._enforcing = enforcing
        self._allow_unreported = allow_unreported
        self._entries: dict[str, NodeEntry] = {}
        self._pending: dict[str, PendingPod] = {}
        # The places that were given up and are still written on waiting pods.
        self._given_up: dict[str, PlannedNode] = {}
        self._readings: dict[str, tuple[Readings, ...]] = {}
        self._held = HeldRooms()
        self._others = OtherCpu()
        self.demand = ObservedDemand()
        # Pods that were counted by what their claims ask.
        self._counted: set[str] = set()
        self.devices = DeviceIndex(compile_selectors or _follow_nothing, self._resources, self.nodes)

    def touch_devices(self, nodes: Iterable[str], now: float) -> None:
        """The devices or claims of these nodes changed in `devices`."""
        for name in nodes:
            entry = self._entries.get(name)
            if entry is not None:
                self._touch(name, Cause.REPORT)
                self._judge(name, entry, now)
            self._count_claimants(name)

    def take_changes(self) -> dict[str, Cause]:
        """As Ledger's; and some of the nodes whose devices claims ask under new names."""
        for name in self.devices.take_renamed(_RENAMED_AT_ONCE, self._changed.keys()):
            self._touch(name, Cause.REPORT)
        return super().take_changes()

    def update_node(self, name: str, record: NodeRecord, now: float, created_at: float | None = None) -> None:
        """A Node was added or changed; a Node of another uid is another node. Without `created_at` it counts
        as created when it is first seen."""
        entry = self._entries.setdefault(name, NodeEntry())
        if entry.record is None or entry.record.uid != record.uid:
            entry.since = now if created_at is None else min(created_at, now)
        if entry.record != record:
            entry.record = record
            self._touch(name, Cause.NODE)
        self._judge(name, entry, now)

    def remove_node(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and entry.record is not None:
            entry.record = None
            self._touch(name, Cause.NODE)
            self._drop_without_sources(name, entry)

    def update_report(
        self,
        name: str,
        report: Report,
        received_at: float,
        now: float,
        owner_uid: str | None = None,
        readings: tuple[Readings, ...] = (),
    ) -> None:
        """A report, received at `received_at`; `owner_uid` is the uid of the Node it belongs to. Its readings
        alone change nothing."""
        self._readings[name] = readings
        entry = self._entries.setdefault(name, NodeEntry(since=now))
        entry.received_at = received_at
        if entry.report is not None and entry.report.devices == report.devices:
            # Keep the equal devices that exist: thousands of new ones would burden the garbage collector.
            report = replace(report, devices=entry.report.devices)
        before = entry.report and replace(
            entry.report, sequence=report.sequence, reported_at=report.reported_at
        )
        if entry.owner_uid != owner_uid or before != report:
            self._touch(name, Cause.REPORT)
        entry.report, entry.owner_uid = report, owner_uid
        self.report_received(name, report, received_at)
        self._judge(name, entry, now)

    def update_held(self, name: str, rooms: Sequence[HeldRoom]) -> None:
        """The rooms that are held on a node."""
        if self._held.update(name, rooms):
            self._touch(name, Cause.REPORT)

    def remove_report(self, name: str, now: float) -> None:
        """A GPUNode was deleted, or lost its status."""
        self.update_held(name, ())
        entry = self._entries.get(name)
        if entry is not None and entry.report is not None:
            entry.report, entry.owner_uid = None, None
            self._readings.pop(name, None)
            self.report_received(name, None, now)
            self._touch(name, Cause.REPORT)
            self._judge(name, entry, now)
            self._drop_without_sources(name, entry)

    def update_pending(self, pending: PendingPod, planned_until: float | None = None) -> None:
        """A pod waits for a node. An older message about a pod that is bound or gone changes nothing. The
        nomination of a planner keeps its place until `planned_until`; None: its time is over."""
        if self.has_ended(pending.pod.uid):
            return
        self._count(pending.pod)
        if pending.claims:
            self._count_claims(pending)
        if pending.pod.uid not in self._pending:
            self._touch_held(pending.pod)
        self._pending[pending.pod.uid] = pending
        place = pending.nominated_node if pending.invalid is None and not pending.pod.terminating else None
        self._follow_plan(pending, place, planned_until)
        self.nominate(pending.pod, None if pending.is_planned else place)

    def update_other_pod(self, uid: str, node: str, cpu_milli: int) -> None:
        """A pod without GPUs runs on a node; one that this extender bound counts with those with GPUs."""
        if self.node_of(uid) is None:
            self._place_other(uid, node, cpu_milli)

    def confirm(self, pod: BoundPod, node: str, now: float) -> None:
        """A pod holds GPUs of a node, or has changed: Confirm, if it was assumed."""
        self._count(pod)
        if self._pending.pop(pod.uid, None) is not None:
            self._touch_held(pod)
        self._place_other(pod.uid, "", 0)
        super().confirm(pod, node, now)
        if not pod.request.asks_gpu:
            self._count_claimants(node)

    def remove_pod(self, uid: str, now: float, waited: bool = False) -> str | None:
        """A pod is gone; its usage in the last report no longer counts. Returns the node that it was on."""
        self._place_other(uid, "", 0)
        self._counted.discard(uid)
        if (pending := self._pending.pop(uid, None)) is not None:
            waited = True
            self._touch_held(pending.pod)
        node = super().remove_pod(uid, now, waited)
        if node is not None and self._entries.get(node, NO_ENTRY).report is None:
            self.report_received(node, None, now)
        return node

    def assume(self, intent: Intent, node: str) -> None:
        """A Binding of the pod to the node is about to be posted: from now on its holdings are promised.
        Raises OverAllocationError, and promises nothing, if the node lacks them or has promised them."""
        info, pod = self.info(node), intent.pod
        problem = "there is no such node" if info is None else overallocated(info, pod, self._resources)
        if problem is not None:
            raise OverAllocationError(f"pod {pod.namespace}/{pod.name} on node {node}: {problem}")
        super().assume(intent, node)

    def tick(self, now: float) -> None:
        """Let reports age, and plans end."""
        self.expire_plans(now)
        for name, entry in self._entries.items():
            self._judge(name, entry, now)

    def info(self, name: str) -> NodeInfo | None:
        """A node as all sources describe it; None when there is no such Node."""
        entry = self._entries.get(name)
        if entry is None or entry.record is None:
            return None
        pods = self.pods_on(name)
        if held := self._held.pods(name, self._waiting):
            nominated = {pod.uid: pod for pod in pods.nominated} | held
            pods = replace(pods, nominated=tuple(nominated[uid] for uid in sorted(nominated)))
        info = entry.record.info(
            name,
            entry.own_report(),
            pods,
            entry.freshness,
            self._others.on(name),
            self.devices.node(name),
            self.devices.claims_on(name),
            allow_unreported=self._allow_unreported,
        )
        if self._enforcing and entry.record.allocatable.get(self._resources.share) and not is_of_shares(info):
            # The amount in allocatable was written by another component, or is not taken away yet.
            return replace(info, allocatable=entry.record.allocatable | {self._resources.share: 0})
        return info

    def infos(self) -> Iterator[NodeInfo]:
        return (info for name in self._entries if (info := self.info(name)) is not None)

    def record(self, name: str) -> NodeRecord | None:
        return self._entries.get(name, NO_ENTRY).record

    def last_report(self, name: str) -> tuple[Report | None, float]:
        """The last good report of a name, and when it was received; 0 without a report."""
        entry = self._entries.get(name, NO_ENTRY)
        return entry.report, entry.received_at

    def ages(self, now: float) -> dict[str, float]:
        """Seconds since each report was received, by node."""
        return {
            name: max(0.0, now - entry.received_at)
            for name, entry in self._entries.items()
            if entry.own_report() is not None
        }

    def readings(self) -> NodeReadings:
        """The readings of the latest reports, by node."""
        return dict(self._readings)

    def readings_of(self, name: str) -> tuple[Readings, ...]:
        """What the GPUs of one node did."""
        return self._readings.get(name, ())

    def pending(self, uid: str) -> PendingPod | None:
        return self._pending.get(uid)

    def all_pending(self) -> list[PendingPod]:
        """The pods that wait for GPUs, with what they ask through claims."""
        return [
            each
            for each in (with_claims(pending, self.devices) for pending in self._pending.values())
            if each.pod.request.asks_gpu or each.invalid is not None
        ]

    def known_pods(self) -> set[str]:
        """The uids of all pods that hold GPUs or wait for some."""
        return {*self.confirmed(), *self._pending}

    def waits_or_holds(self, uid: str) -> bool:
        return uid in self._pending or self.holds(uid)

    def other_pods(self) -> set[str]:
        return self._others.uids()

    def reports(self) -> set[str]:
        return {name for name, entry in self._entries.items() if entry.report is not None}

    def nodes(self) -> set[str]:
        return {name for name, entry in self._entries.items() if entry.record is not None}

    def give_up(self, uid: str) -> None:
        """As `unplan`, also where the place is still written on the pod: it is not kept again until that
        changes."""
        pending = self._pending.get(uid)
        if pending is not None and pending.planned is not None:
            self._given_up = {each: at for each, at in self._given_up.items() if each in self._pending}
            self._given_up[uid] = pending.planned
        self.unplan(uid)

    def _follow_plan(self, pending: PendingPod, place: str | None, until: float | None) -> None:
        """Keep the place that is written on a pod. A plan that was not written yet stays, unless another
        component has nominated the pod, or it ends."""
        kept = self.kept(pending.pod.uid)
        if self._given_up.get(pending.pod.uid) != pending.planned:
            self._given_up.pop(pending.pod.uid, None)
        elif place is not None and pending.is_planned:
            return
        if place is not None and pending.is_planned:
            # A message from before another plan changes nothing.
            outdated = kept is not None and not kept.written and kept.node != place
            if until is not None and not outdated:
                self.plan(pending.pod, place, until, written=True)
        elif kept is not None and (kept.written or pending.nominated_node or pending.pod.terminating):
            self.unplan(pending.pod.uid)

    def _waiting(self, name: str) -> BoundPod | None:
        """The pod of this namespace/name that waits."""
        found = (each for each in self._pending.values() if f"{each.pod.namespace}/{each.pod.name}" == name)
        pending = next(found, None)
        return None if pending is None or pending.invalid is not None else pending.pod

    def _touch_held(self, pod: BoundPod) -> None:
        for name in self._held.nodes_for(pod):
            self._touch(name, Cause.REPORT)

    def _judge(self, name: str, entry: NodeEntry, now: float) -> None:
        if self._held.expire(name, now):
            self._touch(name, Cause.AGE)
        freshness = entry.freshness_at(
            now, self._stale_after_s, self._missing_after_s, self.devices.has_devices(name)
        )
        if freshness != entry.freshness:
            entry.freshness = freshness
            self._touch(name, Cause.AGE)

    def _count(self, pod: BoundPod) -> None:
        """Count a pod as demand the first time it appears."""
        if pod.asked is not None and pod.uid not in self._pending and not self.has_ended(pod.uid):
            self.demand.came(pod.asked, pod.created_at)

    def _count_claims(self, pending: PendingPod) -> None:
        """Count a waiting pod that asks GPUs through claims only, as soon as these are known."""
        namespace = pending.pod.namespace
        found = (self.devices.claim(namespace, name) for name in pending.claims)
        if pending.invalid is None:
            self._count_asked(pending.pod, [each for each in found if each and each.devices is None])

    def _count_claimants(self, node: str) -> None:
        """Count the pods of a node that have GPUs through claims only, and that did not wait here."""
        new = [pod for pod in self.pods_on(node).holding if pod.uid not in self._counted]
        new = [pod for pod in new if not pod.request.asks_gpu]
        claims = self.devices.claims_on(node) if new else ()
        for pod in new:
            # Of pods that share a claim, the first.
            self._count_asked(pod, [each for each in claims if each.pods and each.pods[0][0] == pod.uid])

    def _count_asked(self, pod: BoundPod, claims: Iterable[Claim]) -> None:
        if pod.uid in self._counted or pod.request.asks_gpu:
            return
        if (wanted := self.devices.demand(claims)) is not None:
            self._counted.add(pod.uid)
            if (asked := wanted.task_class(pod.request, pod.cpu_milli)) is not None:
                self.demand.came(asked, pod.created_at)

    def _place_other(self, uid: str, node: str, cpu_milli: int) -> None:
        """Set the CPU that a pod without GPUs requests on a node; 0 if it has ended."""
        for name, more_milli in self._others.place(uid, node, cpu_milli).items():
            self._follow_cpu(name, more_milli)

    def _follow_cpu(self, name: str, more_milli: int) -> None:
        """Mark a node whose free CPU moved to another step, now that so much more is asked of it."""
        entry = self._entries.get(name)
        if name in self._changed or entry is None or entry.record is None:
            return
        cpu_milli = entry.record.cpu_milli
        if cpu_milli is None or (entry.report is None and entry.record.estimate is None):
            return
        holding_milli = sum(pod.cpu_milli for pod in self.pods_on(name).holding if pod.holds)
        asked = self._others.on(name) + holding_milli
        if coarse_free_milli(cpu_milli, asked) != coarse_free_milli(cpu_milli, asked - more_milli):
            self._touch(name, Cause.POD)

    def _drop_without_sources(self, name: str, entry: NodeEntry) -> None:
        if entry.record is None and entry.report is None:
            del self._entries[name]
