"""The live inventory behind a running extender: what is watched, put together, published, and told on.

    reflectors (a thread each) ──► Inventory, under one lock ──► publisher ──► Extender
                                                                     └──► recorder: nudges, events

Changes that come together are published together: a publication costs a millisecond at 5000 nodes.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import Any

from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.book import Book
from scheduler_ext.cluster.budgets import BUDGETS, BudgetHandler
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.enforcing import Enforcing
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from scheduler_ext.cluster.events.inventory_events import InventoryEvents
from scheduler_ext.cluster.events.placement_events import PlacementEvents
from scheduler_ext.cluster.events.report_problems import ReportProblems
from scheduler_ext.cluster.events.share_nodes import ShareNodes
from scheduler_ext.cluster.forecasting import Forecasting
from scheduler_ext.cluster.inventory_handlers import NodeHandler, PodHandler, ReportHandler
from scheduler_ext.cluster.leader_source import BuildLeader
from scheduler_ext.cluster.rate_limiter import RateLimiter
from scheduler_ext.cluster.reflector import Reflector, WatchHealth
from scheduler_ext.core.cache.change_cause import Cause
from scheduler_ext.core.cache.inventory import Inventory
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import settle_heap
from scheduler_ext.sources.source_status import Check, Problem, SourceStatus
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.disruption_budget import PodDisruptionBudget
from scheduler_ext.wire.gpunode import GpuNode
from scheduler_ext.wire.kube import Node, Pod
from scheduler_ext.wire.watching import Decoder

log = logging.getLogger(__name__)

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
GPU_NODES = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"
# What changes soon after a publication waits for this time to pass: each costs a decision's memory.
_PUBLISH_EVERY_S = 0.1
# Ages are looked at this often.
_TICK_S = 1.0
# At most one look in this time at whether changes cure what was refused.
_NUDGE_EVERY_S = 1.0
# kube-scheduler may hear of a release before we do, ask, and be refused; a nudge follows when we know. A
# watch is behind for as long as this after a restart of the API server.
_BEHIND_S = 45.0
# At its end, everything that runs has this long together.
_STOP_S = 2.0
_INVISIBLE = Cause.REPORT | Cause.AGE | Cause.PROMISE


class LiveInventory:
    """Keeps an extender supplied from a cluster. While a watch is lost, what is known is served on."""

    def __init__(
        self,
        transport: Transport,
        extender: Extender,
        config: Configuration,
        leader: BuildLeader | None = None,
        name: str = "",
    ) -> None:
        """``leader`` says whether this extender, called ``name``, is the active one; without it, always."""
        self._extender = extender
        self._server = transport.server
        # How many outages of the API server were looked after.
        self._returns = 0
        # No other process has this name, nor had it.
        resources = config.resource_names()
        inventory = Inventory(*config.inventory_ages_s(), resources, enforcing=config.bind.enabled)
        self.book = Book(inventory, extender, f"{name}_{uuid.uuid4().hex[:8]}")
        self._inventory, self._lock = self.book.inventory, self.book.lock
        self._leader = leader(transport, changed=self._turned) if leader is not None else None
        self._recorder = EventRecorder(transport, self.active)
        self._share_nodes = ShareNodes(self._recorder.warn, resources)
        self._inventory_events = InventoryEvents(self._recorder.warn)
        self._placements = PlacementEvents(extender.record, self._recorder.tell)
        self._oldest_s = config.inventory_ages_s()[0]
        parts = (self._inventory, self._lock, resources, self._wake)
        self._report_problems = ReportProblems()
        reports = ReportHandler(*parts, self._report_problems)
        # Nobody waits before the first inventory.
        rate_limiter = RateLimiter(
            lambda: self.snapshot is not None and not (self.enforcing and self.enforcing.listing)
        )
        self._forecasting = Forecasting(self._inventory, self._lock, extender, rate_limiter)
        budgets = BudgetHandler()
        extender.preemptor.budgets = budgets.budgets
        pods = self._pods = Reflector("pods", transport, PODS, Decoder(Pod), PodHandler(*parts), rate_limiter)
        disruptions = Decoder(PodDisruptionBudget)
        self._nodes = NodeHandler(*parts)
        self._reflectors: list[Reflector[Any]] = [
            Reflector("nodes", transport, NODES, Decoder(Node), self._nodes, rate_limiter),
            Reflector("gpunodes", transport, GPU_NODES, Decoder(GpuNode), reports, rate_limiter),
            pods,
            Reflector("poddisruptionbudgets", transport, BUDGETS, disruptions, budgets, rate_limiter),
        ]
        self.enforcing: Enforcing | None = None
        if config.bind.enabled:
            self.enforcing = Enforcing(
                transport,
                self.book,
                config,
                self.active,
                self._too_old,
                pods,
                self._wake,
                rate_limiter,
                extender.record,
            )
            self._reflectors.append(self.enforcing.reflector)
        self._changed = Event()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        # When the first of those changes arrived that nobody has taken yet.
        self._arrived_at: float | None = None
        self._unpublished: dict[str, Cause] = {}
        # Since when publications fail, None while they do not.
        self._failing_since: float | None = None
        self._published_at = self._ticked_at = 0.0
        # By node, since when a refusal may be cured by what changed there.
        self._to_cure: dict[str, float] = {}
        self._looked_at: dict[str, float] = {}
        self._cured_at = 0.0

    @property
    def snapshot(self) -> Snapshot | None:
        """What the extender decides on now."""
        return self._extender.snapshot

    @property
    def binder(self) -> Binder | None:
        """What binds, where that is enabled."""
        return self.enforcing.binder if self.enforcing is not None else None

    def pending(self) -> Sequence[PendingPod]:
        """The pods that ask GPUs and have no node yet."""
        with self._lock:
            return self._inventory.all_pending()

    def is_gone(self, uid: str) -> bool:
        """Whether a pod is known neither to wait for GPUs nor to hold any; never while the watch is lost."""
        if not self._pods.health().connected:
            return False
        # Not by the snapshot: a pod that has just been bound is not on it yet.
        with self._lock:
            return not self._inventory.waits_or_holds(uid)

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What kube-scheduler's own filters compare of each Node, without amounts."""
        return dict(self._nodes.facts)

    def active(self) -> bool:
        """Whether it is this extender that writes to the cluster."""
        return self._leader is None or self._leader.active

    def _turned(self, active: bool) -> None:
        if self.enforcing is not None:
            self.enforcing.turned(active)

    def _too_old(self) -> str | None:
        """Why what is known is too old to bind on; None when it is not."""
        for reflector in self._watched():
            health = reflector.health()
            if not health.synced:
                return f"the list of {health.name} is not complete"
            if not health.connected and health.silent_s > self._oldest_s:
                return f"the watch of {health.name} is lost for {health.silent_s:.0f} s"
        return None

    def start(self) -> None:
        """Follow the cluster from now on."""
        for reflector in self._watched():
            reflector.start()
        self._recorder.start()
        if self._leader is not None:
            self._leader.start()
        if self.enforcing is not None:
            self.enforcing.start()
        self._thread.start()

    def stop(self) -> None:
        """Follow it no longer."""
        self._stopped.set()
        self._changed.set()
        self._recorder.stop()
        self._forecasting.stop()
        if self.enforcing is not None:
            self.enforcing.stop()
        if self._leader is not None:
            self._leader.stop()
        # All at once: each may hang in a list of its own.
        for reflector in self._watched():
            reflector.halt()
        end = time.monotonic() + _STOP_S
        for reflector in self._watched():
            reflector.stop(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        self._forecasting.join(_STOP_S)

    def status(self) -> SourceStatus:
        """How it goes."""
        now = time.monotonic()
        watches = [reflector.health() for reflector in self._watched()]
        checks = [Check(f"watch-{watch.name}", watch.synced, _note(watch)) for watch in watches]
        with self._lock:
            ages = self._inventory.ages(now)
        return SourceStatus(
            checks=[*checks, Check("inventory", self.snapshot is not None, None)],
            watches=watches,
            age_s=max((watch.silent_s for watch in watches), default=0.0),
            broken=False,
            problems=self._problems(watches, now),
            report_ages_s=ages,
            reports_refused=self._report_problems.counts(),
            nudges=self._recorder.nudges,
            nudge_failures=dict(self._recorder.nudge_failures),
            events=dict(self._recorder.events),
            active=self.active(),
            unplaced=self._share_nodes.unplaced(),
            advertised=self.enforcing.advertiser.writes if self.enforcing is not None else 0,
            advertise_failures=self.enforcing.advertiser.failures if self.enforcing is not None else 0,
            forecast_age_s=self._forecasting.age_s,
        )

    def _problems(self, watches: Sequence[WatchHealth], now: float) -> list[Problem]:
        problems = [
            Problem(f"watch of {watch.name}", watch.problem, watch.silent_s)
            for watch in watches
            if watch.problem is not None
        ]
        if self._failing_since is not None:
            text = "what is heard of cannot be put together: unexpected error; see the log"
            problems.append(Problem("inventory", text, now - self._failing_since))
        return problems

    def _watched(self) -> list[Reflector[Any]]:
        return [*self._reflectors, *(self._leader.reflectors if self._leader is not None else ())]

    def _wake(self) -> None:
        with self._lock:
            self._arrived_at = self._arrived_at or time.monotonic()
        self._changed.set()

    def _tell(self) -> None:
        """What is wrong with reports is told by whoever is active, also if it was found out before."""
        snapshot = self.snapshot
        if snapshot is None or not self.active():
            return
        for trouble in self._report_problems.take_untold():
            known = snapshot.nodes.get(trouble.node)
            uid = known.info.uid if known else None
            self._recorder.warn(trouble.node, uid, trouble.reason, trouble.note, trouble.about)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._changed.wait(_TICK_S)
            self._stopped.wait(max(0.0, self._published_at + _PUBLISH_EVERY_S - time.monotonic()))
            self._changed.clear()
            try:
                self._after_outage()
                if all(reflector.synced.is_set() for reflector in self._watched()):
                    self._publish()
                    self._failing_since = None
                    self._tell()
            except Exception:
                self._failing_since = self._failing_since or time.monotonic()
                log.exception("the inventory was not published; trying again")

    def _after_outage(self) -> None:
        """Where the API server is back, trust no connection of before, and no wait that began meanwhile."""
        if self._returns == self._server.returns:
            return
        self._returns = self._server.returns
        for reflector in self._watched():
            reflector.renew(silent_since=self._server.away_since)
        if self.binder is not None:
            self.binder.look_again()

    def _publish(self) -> None:
        now = time.monotonic()
        with self.book.publishing:
            with self._lock:
                if now - self._ticked_at >= _TICK_S:
                    self._ticked_at = now
                    self._inventory.tick(now)
                # What could not be published the last time is still to be.
                _merge(self._unpublished, self._inventory.take_changes())
                arrived_at, self._arrived_at = self._arrived_at or now, None
                infos = {name: self._inventory.info(name) for name in self._unpublished}
                seen = {name: self._inventory.advertised(name) for name in infos}
                unlabelled = {name for name in infos if self._inventory.unlabelled(name)}
                left = self._extender.places.follow(self._inventory.pending, self._inventory.is_gone)
                _earliest(self._to_cure, dict.fromkeys(left, 0.0))
            before = self.snapshot
            begun = before is None
            if begun:
                # The first decision knows of all pods that are there.
                self._forecasting.look()
                self._extender.replace_nodes(info for info in infos.values() if info is not None)
            elif infos:
                self._extender.update_nodes(infos)
        self.book.publish_owed()
        if self.enforcing is not None:
            self.enforcing.follow(infos, seen)
        self._share_nodes.follow(infos)
        self._inventory_events.follow(infos, unlabelled)
        if before is not None:
            self._placements.follow(before, infos)
        if begun and (snapshot := self.snapshot) is not None:
            self._unpublished = {}
            # What was just built lives on.
            settle_heap()
            log.info("inventory complete: %d nodes, generation %d", len(snapshot.nodes), snapshot.generation)
            self._greet(snapshot)
            self._forecasting.start()
            return
        if infos:
            self._published_at = time.monotonic()
        changes, self._unpublished = self._unpublished, {}
        self._cure(changes, arrived_at)

    def _greet(self, snapshot: Snapshot) -> None:
        """Have pods looked at again that were refused before this process began: it knows nothing of them."""
        name = next((name for name, node in snapshot.nodes.items() if node.state.slots), None)
        if name is not None:
            self._recorder.nudge(name)

    def _cure(self, changes: Mapping[str, Cause], arrived_at: float) -> None:
        """Nudge kube-scheduler where what changed gives a refused pod its place."""
        _earliest(
            self._to_cure,
            {name: 0.0 if cause & _INVISIBLE else arrived_at - _BEHIND_S for name, cause in changes.items()},
        )
        now = time.monotonic()
        snapshot = self.snapshot
        if (
            not (self._to_cure or self._looked_at)
            or snapshot is None
            or now - self._cured_at < _NUDGE_EVERY_S
        ):
            return
        self._cured_at = now
        # Each change is looked at twice: a request may be refused on the snapshot before it, a moment after.
        pending, latest = self._looked_at, self._to_cure
        self._looked_at, self._to_cure = dict(latest), {}
        _earliest(pending, latest)
        if not self.active():
            return
        for name in self._extender.refusals.cured(snapshot, pending):
            self._recorder.nudge(name)


def _note(watch: WatchHealth) -> str | None:
    """What is not well with a watch."""
    if watch.problem is None:
        return None
    if not watch.synced:
        return f"not listed yet: {watch.problem}"
    return f"lost for {watch.silent_s:.0f} s, what is known is served on: {watch.problem}"


def _merge(into: dict[str, Cause], changes: Mapping[str, Cause]) -> None:
    for name, cause in changes.items():
        into[name] = into.get(name, cause) | cause


def _earliest(into: dict[str, float], times: Mapping[str, float]) -> None:
    for name, since in times.items():
        into[name] = min(into.get(name, since), since)
