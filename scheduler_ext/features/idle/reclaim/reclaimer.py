"""Evicts idle pods that opted in: a warning first, then the Eviction API, so that budgets hold.

    idle ──► warned (annotation, Event) ── warnFor ──► recorded ──► evicted
                 └── computes again, or opts out ──► cancelled

The state is in the cluster alone: the warning in an annotation of the pod, the number of evictions in a
Lease. So another extender goes on where one ended. Every write names the version of the object that was read
just before it, and the API server refuses it after any change."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from scheduler_ext.background import Background
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import RefusedError, Transport, is_transient
from scheduler_ext.cluster.events.event_recorder import WriteEvent
from scheduler_ext.cluster.evictions import is_held_by_budget
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.features.idle.counters import RECLAIMS
from scheduler_ext.features.idle.reclaim.reclaim_calls import FoundPod, ReclaimCalls
from scheduler_ext.features.idle.reclaim.reclaim_events import (
    cancelled_event,
    dry_run_event,
    evicted_event,
    warned_event,
)
from scheduler_ext.features.idle.reclaim.reclaim_plan import Planned, ReclaimInput, ReclaimPlanner, Warned
from scheduler_ext.features.idle.reclaim.reclaim_policy import Step
from scheduler_ext.features.idle.reclaim.reclaim_record import ReclaimRecord
from scheduler_ext.features.idle.settings import ReclaimSection
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.wire.config import Configuration

log = logging.getLogger(__name__)

# How often pods are looked at.
EVERY_S = 5.0
# The most pods that are written about between two looks.
_MOST = 20
# How long a pod waits whose warning or eviction was refused.
AGAIN_S = 15.0
# The Event of a dry run is written again after this time: API servers keep Events for an hour.
_EVENT_S = 3000.0
_ORDER: dict[Step, int] = {"cancel": 0, "evict": 1, "warn": 2, "wait": 3}


class Reclaimer(Background):
    """Works while `active` says that this extender writes to the cluster. `source` has the present cluster;
    `say` writes an Event. The record is in `namespace`."""

    reclaims = RECLAIMS

    def __init__(
        self,
        transport: Transport,
        active: Callable[[], bool],
        config: Configuration,
        namespace: str,
        source: Watched,
        say: WriteEvent,
    ) -> None:
        super().__init__("reclaim")
        self._active = active
        settings = config.of(ReclaimSection)
        self._dry = settings.mode == "dry-run"
        self._warn_for_s = settings.duration_s("warn_for")
        self._calls = ReclaimCalls(transport)
        self._record = ReclaimRecord(transport, namespace, settings.per_hour)
        self._planner = ReclaimPlanner(config)
        self._source = source
        self._say = say
        self._retry = Retry(transport.server, Backoff(), probes=False)
        # By uid: the warning that has an Event of this extender.
        self._said: dict[str, Warned] = {}
        # By uid and step: when one that failed is tried again.
        self._not_before: dict[tuple[str, Step], float] = {}
        # Steps that the API server refuses, by uid.
        self._refused: set[tuple[str, Step]] = set()
        # By uid: when the Event of a dry run was written.
        self._would: dict[str, float] = {}
        # Pods whose eviction waits because of its number in an hour.
        self._limited: set[str] = set()
        self._full = False
        # Why nothing can be done; logged once.
        self._problem: str | None = None

    def run(self) -> None:
        while not self.stopped.wait(EVERY_S):
            if not self._active() or self._retry.left_s():
                continue
            try:
                self.look()
            except ClusterError as error:
                self._not_done(error)
            except Exception:
                log.exception("idle pods are not reclaimed: unexpected error; trying again")

    def look(self) -> None:
        """Do what is due. Raises ClusterError if the API server refuses or does not answer."""
        if not self._planner.concerned(self._seen()):
            self._forget(set())
            return
        namespaces, now = self._calls.namespaces()
        # After the server's time: a report's time is this time less its age, and must not come out later.
        seen = self._seen()
        plan = list(self._planner.plan(self._planner.concerned(seen), seen, namespaces, now))
        self._forget({each.pod.uid for each in plan if each.step != "none" or each.evict_at is not None})
        self._full = False
        if self._dry:
            self._tell(plan)
        due = [each for each in plan if self._is_due(each)]
        due.sort(key=self._turn)
        left = _MOST
        refused: RefusedError | None = None
        for planned in due:
            if self.stopped.is_set() or not self._active():
                return
            if planned.step == "evict" and self._full:
                # It costs nothing, and holds no warning back.
                self._wait_for_the_hour(planned.pod.uid)
            elif left:
                left -= 1
                key = planned.pod.uid, planned.step
                try:
                    self._step(planned, namespaces, now)
                    self._refused.discard(key)
                except ClusterError as error:
                    # It may concern this pod alone, as an admission webhook does.
                    if not isinstance(error, RefusedError) or is_transient(error):
                        self._hold_back(planned, 0.0)
                        raise
                    self._hold_back(planned, AGAIN_S)
                    self._refused.add(key)
                    refused = refused or error
        if refused is not None:
            raise refused
        self._done()

    def _seen(self) -> ReclaimInput:
        """The cluster as it is known now; nothing before the first inventory."""
        snapshot, status = self._source.snapshot, self._source.status()
        infos = [node.info for node in snapshot.nodes.values()] if snapshot is not None else []
        return ReclaimInput(infos, status.readings, status.facts, status.report_ages_s, self._said)

    def _is_due(self, planned: Planned) -> bool:
        """Whether there is something to do for the pod now. A dry run only ends warnings."""
        uid = planned.pod.uid
        if self._dry:
            return planned.step != "none" and planned.evict_at is not None
        if planned.step == "wait":
            return uid not in self._said or self._said[uid].evict_at != planned.evict_at
        not_before = self._not_before.get((uid, planned.step), -math.inf)
        return planned.step != "none" and time.monotonic() >= not_before

    def _turn(self, planned: Planned) -> tuple[float, int, float, str]:
        """What failed before comes last, so that it holds nothing back."""
        uid, step = planned.pod.uid, planned.step
        return self._not_before.get((uid, step), -math.inf), _ORDER[step], -planned.value, uid

    def _hold_back(self, planned: Planned, seconds: float) -> None:
        self._not_before[planned.pod.uid, planned.step] = time.monotonic() + seconds

    def _tell(self, plan: list[Planned]) -> None:
        """Write an Event about pods that would be warned now: of more at once, the recorder drops some."""
        now = time.monotonic()
        new = [
            each
            for each in plan
            if each.step == "warn" and now - self._would.get(each.pod.uid, -math.inf) >= _EVENT_S
        ]
        for planned in new[:_MOST]:
            if planned.pod.uid not in self._would:
                self.reclaims.inc("dry_run")
            self._would[planned.pod.uid] = now
            self._say(lambda planned=planned: dry_run_event(planned, self._warn_for_s))  # type: ignore[misc]

    def _step(self, planned: Planned, namespaces: Mapping[str, str], now: float) -> None:
        pod = planned.pod
        if planned.step == "wait" and not self._dry:
            self._warned(planned, planned.evict_at, now)
            return
        found = self._calls.pod(pod.namespace, pod.name)
        if found is None or found.uid != pod.uid:
            return
        latest = self._planner.again(planned, self._seen(), found.pod, namespaces, found.now)
        if latest is None:
            return
        if self._dry and latest.evict_at is not None:
            self._cancel(latest, found)
        elif self._dry:
            return
        elif latest.step == "warn":
            self._warn(latest, found)
        elif latest.step == "cancel":
            self._cancel(latest, found)
        elif latest.step == "evict":
            self._evict(latest, found)

    def _warn(self, planned: Planned, found: FoundPod) -> None:
        evict_at = math.floor(self._planner.evict_at(found.now))
        known_at = self._written(planned, found, evict_at)
        if known_at is not None:
            self.reclaims.inc("warned")
            self._warned(planned, evict_at, known_at)

    def _cancel(self, planned: Planned, found: FoundPod) -> None:
        if self._written(planned, found, None) is not None:
            self.reclaims.inc("cancelled")
            self._say(lambda: cancelled_event(planned))

    def _written(self, planned: Planned, found: FoundPod, evict_at: float | None) -> float | None:
        """Set or remove the time of the eviction; returns the server's time afterwards, None if the pod
        changed meanwhile."""
        try:
            return self._calls.warn(planned.pod.namespace, planned.pod.name, found, evict_at)
        except RefusedError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return None
            raise

    def _warned(self, planned: Planned, evict_at: float | None, known_at: float) -> None:
        """Write the Event about a warning once; again after a restart, which may have prevented the Event."""
        if evict_at is not None:
            self._said[planned.pod.uid] = Warned(evict_at, known_at)
            self._say(lambda: warned_event(planned, evict_at))

    def _evict(self, planned: Planned, found: FoundPod) -> None:
        """Record the eviction first: if this extender ends in between, there is one less, never one more."""
        pod = planned.pod
        if not self._record.take(pod.uid, found.now):
            self._full = True
            self._wait_for_the_hour(pod.uid)
            return
        try:
            self._calls.evict(pod.namespace, pod.name, found)
        except RefusedError as error:
            self._not_evicted(planned, found, error)
            return
        self.reclaims.inc("evicted")
        log.info("pod %s/%s was evicted: its GPUs computed nothing", pod.namespace, pod.name)
        self._say(lambda: evicted_event(planned))

    def _not_evicted(self, planned: Planned, found: FoundPod, error: RefusedError) -> None:
        """The eviction was refused. After an error of the server the pod may have been evicted, so its record
        stays."""
        pod = planned.pod
        held = is_held_by_budget(error)
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not held:
            raise error
        self._hold_back(planned, AGAIN_S)
        self._record.release(pod.uid, found.now)
        if held:
            self.reclaims.inc("budget")
            log.info("pod %s/%s is idle and not evicted, trying again: %s", pod.namespace, pod.name, error)
        elif error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise error

    def _wait_for_the_hour(self, uid: str) -> None:
        """As many pods as allowed were evicted within an hour."""
        if uid not in self._limited:
            self._limited.add(uid)
            self.reclaims.inc("limited")

    def _forget(self, kept: set[str]) -> None:
        """Remember nothing of pods that are neither idle nor warned."""
        self._would = {uid: at for uid, at in self._would.items() if uid in kept}
        self._limited &= kept
        self._said = {uid: at for uid, at in self._said.items() if uid in kept}
        self._not_before = {key: at for key, at in self._not_before.items() if key[0] in kept}
        self._refused = {key for key in self._refused if key[0] in kept}

    def _not_done(self, error: ClusterError) -> None:
        if isinstance(error, RefusedError) and error.status == HTTPStatus.CONFLICT:
            # Another extender wrote the record.
            return
        self.reclaims.inc("failed")
        if self._problem is None:
            log.warning("idle pods are not reclaimed, trying again: %s", error)
        self._problem = str(error)
        self._retry.failed(error)

    def _done(self) -> None:
        self._retry.reset()
        if self._problem is not None and not self._refused:
            log.info("idle pods are reclaimed again")
            self._problem = None
