"""The live inventory of a running extender: watched, cached, published, and reported to the cluster.

    reflectors (a thread each) ──► handlers ──► LockedCache ──► publisher ──► Extender: the next snapshot
                                                                    └──► Writers: nudges, Events, labels

Changes that arrive together are published together: a publication costs a millisecond at 5000 nodes."""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, TypeAlias

from scheduler_ext.background import Background, RateLimiter
from scheduler_ext.binding.binder import Binder
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.api_paths import BUDGETS, GPU_NODES, NODES, PODS
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.dra.device_watches import DeviceWatches
from scheduler_ext.cluster.enforcing import Enforcing
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from scheduler_ext.cluster.following import Follower
from scheduler_ext.cluster.forecasting import Forecasting
from scheduler_ext.cluster.inventory.budget_handler import BudgetHandler
from scheduler_ext.cluster.inventory.cache_handler import scheduler_cache
from scheduler_ext.cluster.inventory.node_handler import NodeHandler
from scheduler_ext.cluster.inventory.pod_handler import PodHandler
from scheduler_ext.cluster.inventory.report_handler import ReportHandler
from scheduler_ext.cluster.own_lease import Election
from scheduler_ext.cluster.reflector import Reflector
from scheduler_ext.cluster.scheduler_lease import Leadership
from scheduler_ext.cluster.writers import Writers
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import settle_heap
from scheduler_ext.sources.source_status import Check, Problem, SourceStatus, WatchHealth
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gpunode import GpuNode
from scheduler_ext.wire.kube import NodeObject, Pod
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.selectors import PodDisruptionBudget
from scheduler_ext.wire.watching import Decoder

log = logging.getLogger(__name__)

# Where no Lease decides which extender is active.
_NAMESPACE = "gpu-scheduler"
# The least time between publications: each invalidates the cached decisions.
_PUBLISH_EVERY_S = 0.1
# How often the ages of reports are checked.
_TICK_S = 1.0
# The time that all threads together have to end.
_STOP_S = 2.0
# For so long after a request for a decision, the next one may come.
_ASKED_S = 1.0

Leader: TypeAlias = Election | Leadership
BuildLeader: TypeAlias = Callable[..., Leader]
_Worker: TypeAlias = Enforcing | Leader | DeviceWatches | Background


class LiveInventory(Background):
    """Supplies an extender from a cluster. While a watch is lost, the last known state is served."""

    def __init__(
        self,
        transport: Transport,
        extender: Extender,
        config: Configuration,
        features: Follower,
        leader: BuildLeader | None = None,
        name: str = "",
    ) -> None:
        """`leader` makes the election that decides whether this extender is active; None: it always is.
        `features` follow the cluster, too."""
        super().__init__("publisher")
        self.transport = transport
        self.config = config
        self.extender = extender
        self._features = features
        self._server = transport.server
        # The number of outages of the API server that were handled.
        self._returns = 0
        resources = config.resource_names()
        cache = scheduler_cache(config)
        # The random part makes the name unique among all processes.
        self.locked = LockedCache(cache, extender, f"{name}_{uuid.uuid4().hex[:8]}")
        self._leader = leader(transport, changed=self._turned) if leader is not None else None
        self._oldest_s = config.inventory_ages_s()[0]
        # A standby, for example, slows down no decision.
        rate_limiter = RateLimiter(
            lambda: (
                time.monotonic() < extender.asked_at + _ASKED_S
                and not (self.enforcing and self.enforcing.listing)
            )
        )
        self._forecasting = Forecasting(self.locked, extender, rate_limiter)
        self.recorder = EventRecorder(transport, self.active)
        # From here on, parts of this object are missing that features need later.
        following = features.follow(self)
        self._loops = following.loops
        parts = (self.locked, resources, self._wake)
        self._holders = PodHandler(*parts, following.pods)
        pods = self._pods = Reflector("pods", transport, PODS, Decoder(Pod), self._holders, rate_limiter)
        self._nodes = NodeHandler(*parts, following.nodes)
        self._device_watches = DeviceWatches(transport, *parts, rate_limiter)
        self.writers = Writers.of(self, config)
        reports = ReportHandler(*parts, self.writers.report_problems)
        budgets, disruptions = BudgetHandler(extender.budgets), Decoder(PodDisruptionBudget)
        self._reflectors: list[Reflector[Any]] = [
            Reflector("nodes", transport, NODES, Decoder(NodeObject), self._nodes, rate_limiter),
            Reflector("gpunodes", transport, GPU_NODES, Decoder(GpuNode), reports, rate_limiter),
            pods,
            Reflector("poddisruptionbudgets", transport, BUDGETS, disruptions, budgets, rate_limiter),
        ]
        self.enforcing: Enforcing | None = None
        if config.bind.enabled:
            self.enforcing = Enforcing(
                transport,
                self.locked,
                config,
                self.active,
                self._too_old,
                pods,
                self._wake,
                rate_limiter,
                extender.record,
            )
            self._reflectors.append(self.enforcing.reflector)
        self._reflectors += self._leader.reflectors if self._leader is not None else ()
        self._changed = Event()
        # When the first change arrived since the last publication began.
        self._arrived_at: float | None = None
        self._unpublished: dict[str, Cause] = {}
        # When publications began to fail; None while they succeed.
        self._failing_since: float | None = None
        self._published_at = self._ticked_at = 0.0

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that the extender decides on."""
        return self.extender.snapshot

    @property
    def binder(self) -> Binder | None:
        """The binder, where binding is enabled."""
        return self.enforcing.binder if self.enforcing is not None else None

    @property
    def claims(self) -> ClaimLookup | None:
        """The ResourceClaims; none where the cluster has none."""
        return self.extender.claims

    def pending(self) -> Sequence[PendingPod]:
        """The pods that request GPUs and have no node yet."""
        with self.locked as cache:
            return cache.all_pending()

    def is_gone(self, uid: str) -> bool:
        """Whether a pod is known neither to wait for GPUs nor to hold any; never while the watch is lost."""
        if not self._pods.health().connected:
            return False
        # The snapshot does not have a pod yet that was bound a moment ago.
        with self.locked as cache:
            return not cache.waits_or_holds(uid)

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """The fields of each Node that kube-scheduler's own filters compare, without amounts."""
        return dict(self._nodes.facts)

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]:
        """The same, as they change."""
        return self._nodes.facts

    def budgets(self) -> Sequence[Budget]:
        """The PodDisruptionBudgets."""
        return self.extender.budgets.all()

    @property
    def facts(self) -> FactsOfPods:
        """Those about the pods that hold GPUs, as they change."""
        return self._holders.facts

    @property
    def rules_path(self) -> str | None:
        """The path of DeviceTaintRules once they are listed."""
        return self._device_watches.rules_path

    @property
    def namespace(self) -> str:
        """The namespace of what extenders share."""
        return self._leader.namespace if self._leader is not None else _NAMESPACE

    def follows_pods(self) -> bool:
        """Whether the watch of pods is alive."""
        return self._pods.health().connected

    def active(self) -> bool:
        """Whether this extender writes to the cluster."""
        return self._leader is None or self._leader.active

    def _turned(self, active: bool) -> None:
        if self.enforcing is not None:
            self.enforcing.turned(active)

    def _too_old(self) -> str | None:
        """Why the cache is too old to bind on; None when it is not."""
        for reflector in self._followed:
            health = reflector.health()
            if not reflector.settled:
                return f"the list of {health.name} is not complete"
            if health.synced and not health.connected and health.silent_s > self._oldest_s:
                return f"the watch of {health.name} has been lost for {health.silent_s:.0f} s"
        return None

    @property
    def _followed(self) -> tuple[Reflector[Any], ...]:
        return (*self._reflectors, *self._device_watches.reflectors)

    def _complete(self) -> bool:
        """Whether everything was listed that this extender decides from."""
        return all(each.synced.is_set() for each in self._reflectors) and self._device_watches.settled

    def start(self) -> None:
        for part in (*self._reflectors, *self._workers()):
            part.start()
        super().start()

    def _workers(self) -> list[_Worker]:
        """The parts beside the reflectors that work from the start."""
        labels = self.writers.agent_labels if self.config.inventory.label_nodes else None
        there = (part for part in (labels, self.enforcing, self._leader) if part is not None)
        return [self.recorder, *self._loops, self._device_watches, *there]

    def stop(self, wait_s: float = _STOP_S) -> None:
        self.stopped.set()
        self._changed.set()
        for part in (*self._workers(), self._forecasting):
            part.stop()
        self._device_watches.join(wait_s)
        # All at once: each may hang in a list of its own.
        for reflector in self._followed:
            reflector.stop(0.0)
        end = time.monotonic() + wait_s
        for reflector in self._followed:
            reflector.join(max(0.0, end - time.monotonic()))
        self.join(wait_s)
        self._forecasting.join(wait_s)

    def status(self) -> SourceStatus:
        """The state of all that is followed, for probes and metrics."""
        now = time.monotonic()
        followed = [(reflector.health(), reflector.settled) for reflector in self._followed]
        watches = [health for health, _ in followed]
        checks = [Check(f"watch-{watch.name}", settled, watch.note(settled)) for watch, settled in followed]
        with self.locked as cache:
            ages, readings = cache.ages(now), cache.readings()
        return SourceStatus(
            checks=[
                *checks,
                self._device_watches.check(),
                Check("inventory", self.snapshot is not None, None),
            ],
            watches=watches,
            # What may not be read does not age.
            age_s=max((health.silent_s for health, settled in followed if health.synced or not settled)),
            broken=False,
            problems=self._problems(watches, now),
            report_ages_s=ages,
            active=self.active(),
            unplaced=dict(self.writers.inventory_events.unplaced),
            forecast_age_s=self._forecasting.age_s,
            readings=readings,
            facts=self._holders.facts,
        )

    def _problems(self, watches: Sequence[WatchHealth], now: float) -> list[Problem]:
        lost = [(watch, watch.problem) for watch in watches if watch.problem is not None]
        problems = [Problem(f"watch of {watch.name}", problem, watch.silent_s) for watch, problem in lost]
        problems += self._features.problems()
        if self._failing_since is not None:
            text = "received changes cannot be assembled: unexpected error; see the log"
            problems.append(Problem("inventory", text, now - self._failing_since))
        return problems

    def publish_soon(self) -> None:
        """The cache has changed."""
        with self.locked:
            self._arrived_at = self._arrived_at or time.monotonic()
        self._changed.set()

    def _wake(self) -> None:
        self.publish_soon()
        self._features.changed()

    def run(self) -> None:
        while not self.stopped.is_set():
            self._changed.wait(_TICK_S)
            self.stopped.wait(max(0.0, self._published_at + _PUBLISH_EVERY_S - time.monotonic()))
            self._changed.clear()
            try:
                self._after_outage()
                if self._complete():
                    self._publish()
                    self._failing_since = None
                    if (snapshot := self.snapshot) is not None and self.active():
                        self.writers.write_report_problems(snapshot)
            except Exception:
                self._failing_since = self._failing_since or time.monotonic()
                log.exception("the inventory was not published; trying again")

    def _after_outage(self) -> None:
        """When the API server is back, renew older connections, and end waits that began meanwhile."""
        if self._returns == self._server.returns:
            return
        self._returns = self._server.returns
        for reflector in self._followed:
            reflector.renew(silent_since=self._server.away_since)
        if self.binder is not None:
            self.binder.look_again()

    def _publish(self) -> None:
        now = time.monotonic()
        with self.locked.publishing:
            with self.locked as cache:
                if now - self._ticked_at >= _TICK_S:
                    self._ticked_at = now
                    cache.tick(now)
                # Changes whose publication failed are published again.
                for name, cause in cache.take_changes().items():
                    self._unpublished[name] = self._unpublished.get(name, cause) | cause
                arrived_at, self._arrived_at = self._arrived_at or now, None
                infos = {name: cache.info(name) for name in self._unpublished}
                records = {name: cache.record(name) for name in infos}
                if cache.devices.is_renaming:
                    # The rest of its nodes come with the next publications.
                    self._changed.set()
                left = self.extender.preemption_answers.follow(cache.pending, cache.is_gone)
                self.writers.queueing_hints.left(left)
            before = self.snapshot
            if before is None:
                # The first forecast counts all listed pods.
                self._forecasting.look()
                there = (info for info in infos.values() if info is not None)
                # Claims are looked up without the lock.
                self.extender.replace_nodes(there, claims=self.locked.cache.devices)
            elif infos:
                self.extender.update_nodes(infos)
        self.locked.publish_owed()
        if self.enforcing is not None:
            self.enforcing.follow(infos, records)
        self.writers.follow(before, infos, records)
        if before is None and (snapshot := self.snapshot) is not None:
            self._unpublished = {}
            # These objects live long.
            settle_heap()
            log.info("inventory complete: %d nodes, generation %d", len(snapshot.nodes), snapshot.generation)
            # Pods rejected before this process began are not known here: kube-scheduler retries them.
            with_gpus = next((each for each, node in snapshot.nodes.items() if node.state.slots), None)
            if with_gpus is not None:
                self.recorder.nudge(with_gpus)
            self._forecasting.start()
            return
        if infos:
            self._published_at = time.monotonic()
        changes, self._unpublished = self._unpublished, {}
        self.writers.queueing_hints.follow(changes, arrived_at, self.snapshot)
