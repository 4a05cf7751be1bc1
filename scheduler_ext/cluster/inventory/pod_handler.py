"""The event handler of Pods."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.cluster.inventory.pod_state import OtherPod, PodState, holds_gpus, pod_state, update_pod
from scheduler_ext.cluster.inventory.server_times import planned_until
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.features.gangs.live.followed_cluster import FollowedCluster, FollowedPod
from scheduler_ext.features.gangs.live.gang_pods import GangPods
from scheduler_ext.features.gangs.queue.run_recorder import RunRecorder
from scheduler_ext.features.idle.recommend.failure_count import FailureCount
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.watching import Broken


@dataclass(eq=False)
class PodHandler(CacheHandler[kube.Pod]):
    """Pods that hold GPUs of a node or wait for some, and the CPU of the other pods on nodes. `facts` are
    those about the pods that hold some, `gangs` those about gangs, where these are planned; `runs` follows
    how long pods hold GPUs."""

    kind = "Pod"
    together = 250
    by_uid = True
    facts: dict[str, PodFacts] = field(default_factory=dict, init=False)
    failures: FailureCount = field(default_factory=FailureCount, init=False)
    runs: RunRecorder | None = field(default=None, init=False)
    # What a planner follows, where there is one.
    planned: FollowedCluster | None = field(default=None, init=False)
    # What gangs need, where they are planned.
    gangs: GangPods | None = field(default=None, init=False)

    def begin(self) -> None:
        super().begin()
        with self._locked as cache:
            cache.demand.hold()

    def seen(self, items: Sequence[kube.Pod], clock: ServerClock) -> None:
        # By uid: of several events of one pod in one batch, the last counts.
        states: dict[str, PodState] = {}
        followed: dict[str, FollowedPod] = {}
        for pod in items:
            if self.gangs is not None:
                self.gangs.seen(self.key(pod), pod)
            try:
                states[self.key(pod)] = state = pod_state(pod, self._resources)
            except QuantityError as error:
                self.broken(Broken(pod_name(pod), self.key(pod), str(error)))
                continue
            if holds_gpus(state):
                self.facts[self.key(pod)] = pod_facts(pod)
                self.failures.seen(self.key(pod), pod)
            if self.planned is not None:
                followed[self.key(pod)] = self.planned.read_pod(pod, state)
        if self.runs is not None:
            self._record(self.runs, states)
        self._update(states, followed, clock)

    def gone(self, item: kube.Pod | Broken) -> None:
        if self.runs is not None:
            self.runs.gone((self.key(item),))
        super().gone(item)

    def known(self) -> set[str]:
        with self._locked as cache:
            followed = self.planned.known_pods() if self.planned is not None else set()
            found = cache.known_pods() | cache.other_pods() | followed
        return found | self.gangs.known() if self.gangs is not None else found

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self.facts.pop(uid, None)
        if self.runs is not None:
            self.runs.gone(keys, just_now=False)
        self.failures.forget(keys)
        if self.gangs is not None:
            self.gangs.forget(keys)
        self._update(dict.fromkeys(keys), dict.fromkeys(keys))

    def end(self) -> None:
        super().end()
        self.failures.listed()
        with self._locked as cache:
            cache.demand.release()

    def _record(self, runs: RunRecorder, states: Mapping[str, PodState]) -> None:
        for uid, state in states.items():
            if isinstance(state, tuple) and not isinstance(state, OtherPod):
                runs.seen(state[0], self.facts[uid])

    def _update(
        self,
        states: Mapping[str, PodState],
        followed: Mapping[str, FollowedPod],
        clock: ServerClock | None = None,
    ) -> None:
        self._unlisted.difference_update(states)
        now = time.monotonic()
        until = {uid: planned_until(state, clock, now) for uid, state in states.items()}
        with self._locked as cache:
            for uid, state in states.items():
                update_pod(cache, uid, state, now, until[uid])
            if self.planned is not None:
                self.planned.update_pods(followed, clock)
            changed = cache.has_changes
        if changed:
            self._changed()
