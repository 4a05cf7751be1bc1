"""Carries out what a step decided about gangs, in an order that is safe to end after any of its calls:

    deadline goes ─► places kept ─► evictions ─► nominations go ─► nominations with the deadline ─► gates go

A gate goes only after the nominations of all members were written, and a planner that takes over sees from
the cluster which of these have happened."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from scheduler_ext.cluster.client.transport import RefusedError, UnreachableError, is_transient
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.counters import EVICTIONS, GATES_LIFTED
from scheduler_ext.features.gangs.live.gang_calls import GangCalls, PodReference
from scheduler_ext.features.gangs.live.gang_events import GangEvents
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_decisions import Evict
from scheduler_ext.features.gangs.wire.gang_pod import GangPod

log = logging.getLogger(__name__)

# After evictions for a gang, or the removal of a gate, were refused.
AGAIN_S = 15.0


class GangExecution:
    """For one thread."""

    lifted = GATES_LIFTED
    evictions = EVICTIONS

    def __init__(self, calls: GangCalls, events: GangEvents, active: Callable[[], bool]) -> None:
        self._calls = calls
        self._events = events
        self._active = active
        self._not_before: dict[GangKey, float] = {}
        # The pods whose gates the API server refused to remove, why, and until when they are left alone.
        self._refused: dict[str, tuple[str, float]] = {}

    def evict(
        self,
        evicted: Sequence[Evict],
        pods: Mapping[str, PodReference],
        budgets: Sequence[Budget],
        gone: Callable[[str], None],
    ) -> None:
        """Evict these pods, those of each gang together; `pods` are all pods by uid. `gone` is called with
        the uid of each one that leaves. A set that was refused is tried again later, and one that was chosen
        by outdated `budgets` is left to the next step. Raises ClusterError."""
        self.left_alone()
        sets: dict[tuple[GangKey, bool], list[PodReference]] = {}
        for each in evicted:
            if each.uid in pods:
                sets.setdefault((each.of, each.overdue), []).append(pods[each.uid])
        for (key, overdue), some in sets.items():
            if key in self._not_before or not self._active():
                continue
            if overdue or self._calls.are_current(budgets, some):
                self._evict_set(key, overdue, some, gone)

    def left_alone(self) -> Collection[GangKey]:
        """The gangs whose evictions were refused, or failed, and are not tried now."""
        now = time.monotonic()
        self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        return self._not_before.keys()

    def _evict_set(
        self, key: GangKey, overdue: bool, some: Sequence[PodReference], gone: Callable[[str], None]
    ) -> None:
        left: list[PodReference] = []

        def evicted(pod: PodReference) -> None:
            left.append(pod)
            gone(pod.uid)

        try:
            refusal = self._calls.evict_all(some, key, evicted)
        except UnreachableError:
            # A webhook for some namespaces may hang: what others wait for goes on in the next step.
            self._not_before[key] = time.monotonic() + AGAIN_S
            raise
        finally:
            if left:
                self._report_evicted(key, overdue, left)
        if refusal is not None:
            self.evictions.inc("refused")
            self._not_before[key] = time.monotonic() + AGAIN_S
            log.info("gang %s: no pod is evicted: %s", key, refusal)
            self._events.not_evicted(key, some, f"no pod is evicted for gang {key}: {refusal}")

    def _report_evicted(self, key: GangKey, overdue: bool, some: Sequence[PodReference]) -> None:
        self.evictions.inc("overdue" if overdue else "victim", by=len(some))
        why = (
            f"gang {key} did not start in time, and was evicted whole"
            if overdue
            else f"evicted so that gang {key}, of higher priority, can start"
        )
        log.info("%s (%d pods)", why, len(some))
        self._events.evicted(key, some, why)

    def lift(
        self, gang: Gang[Any], pods: Collection[GangPod], pool: Executor, gone: Callable[[str], None]
    ) -> bool:
        """Remove the gates of these pods, whose nominations are written; whether some went. `gone` is called
        with the uid of each pod whose gate went. A gate whose removal is refused, by a policy for instance,
        is tried again later. Raises ClusterError where any other removal may fail too."""
        lifted, refused, failed = self._lift_all(pods, pool, gone)
        if lifted:
            log.info("gang %s starts: the gates of %d pods went", gang.key, len(lifted))
            self._events.starting(gang.key, lifted, gang.request.size)
        if refused:
            pod, error = refused[0]
            self._events.not_starting(gang.key, [pod for pod, _ in refused], _refusal(pod, error))
        if failed is not None:
            raise failed
        return bool(lifted)

    def lift_alone(self, pods: Collection[GangPod], pool: Executor, gone: Callable[[str], None]) -> None:
        """The same for pods that need no place with others."""
        _, refused, failed = self._lift_all(pods, pool, gone)
        for pod, error in refused:
            self._events.not_starting_alone(pod, _refusal(pod, error))
        if failed is not None:
            raise failed

    def refused(self) -> dict[str, str]:
        """Why the gates of pods stay for now, by uid."""
        now = time.monotonic()
        self._refused = {uid: each for uid, each in self._refused.items() if each[1] > now}
        return {uid: why for uid, (why, _) in self._refused.items()}

    def _lift_all(
        self, pods: Collection[GangPod], pool: Executor, gone: Callable[[str], None]
    ) -> tuple[list[GangPod], list[tuple[GangPod, RefusedError]], ClusterError | None]:
        """The pods whose gates went, those whose removal is refused, and the first other failure."""
        now = time.monotonic()
        refused_before = self.refused()
        lifted: list[GangPod] = []
        refused: list[tuple[GangPod, RefusedError]] = []
        due = [pod for pod in pods if pod.uid not in refused_before]
        failed: ClusterError | None = None
        for pod, done in [(pod, pool.submit(self._lift_one, pod)) for pod in due]:
            # One pod that is refused holds up no other: their gang has its places now.
            try:
                went = done.result()
            except ClusterError as error:
                if isinstance(error, RefusedError) and not is_transient(error):
                    log.warning("%s", _refusal(pod, error))
                    self._refused[pod.uid] = str(error), now + AGAIN_S
                    refused.append((pod, error))
                else:
                    failed = failed or error
            else:
                lifted += [pod] if went else []
        for pod in lifted:
            gone(pod.uid)
        return lifted, refused, failed

    def _lift_one(self, pod: GangPod) -> bool:
        went = self._active() and self._calls.lift(pod)
        if went:
            self.lifted.inc()
        return went


def _refusal(pod: GangPod, error: RefusedError) -> str:
    return f"the gate of pod {pod.namespace}/{pod.name} stays: {error}"
