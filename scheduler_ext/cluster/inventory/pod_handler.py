"""The event handler of Pods."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.following import PodFollower
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.cluster.inventory.pod_state import PodState, holds_gpus, pod_state, update_pod
from scheduler_ext.cluster.inventory.server_times import planned_until
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.watching import Broken


@dataclass(eq=False)
class PodHandler(CacheHandler[kube.Pod]):
    """Pods that hold GPUs of a node or wait for some, and the CPU of the other pods on nodes. `facts` are
    those about the pods that hold some."""

    followers: Sequence[PodFollower] = ()
    facts: dict[str, PodFacts] = field(default_factory=dict, init=False)

    kind = "Pod"
    together = 250
    by_uid = True

    def begin(self) -> None:
        super().begin()
        with self._locked as cache:
            cache.demand.hold()

    def upsert(self, items: Sequence[kube.Pod], clock: ServerClock) -> None:
        # By uid: of several events of one pod in one batch, the last counts.
        states: dict[str, PodState] = {}
        for pod in items:
            uid = self.key(pod)
            try:
                states[uid] = state = pod_state(pod, self._resources)
            except QuantityError as error:
                self.broken(Broken(pod_name(pod), uid, str(error)))
                for follower in self.followers:
                    follower.unreadable(uid, pod)
                continue
            if holds_gpus(state):
                self.facts[uid] = pod_facts(pod)
            for follower in self.followers:
                follower.upsert(uid, pod, state)
        self._update(states, clock)

    def gone(self, item: kube.Pod | Broken) -> None:
        for follower in self.followers:
            follower.ended(self.key(item))
        super().gone(item)

    def known(self) -> set[str]:
        with self._locked as cache:
            found = cache.known_pods() | cache.other_pods()
            return found.union(*(follower.known() for follower in self.followers))

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self.facts.pop(uid, None)
        for follower in self.followers:
            follower.forget(keys)
        self._update(dict.fromkeys(keys))

    def end(self) -> None:
        super().end()
        for follower in self.followers:
            follower.listed()
        with self._locked as cache:
            cache.demand.release()

    def _update(self, states: Mapping[str, PodState], clock: ServerClock | None = None) -> None:
        self._unlisted.difference_update(states)
        now = time.monotonic()
        until = {uid: planned_until(state, clock, now) for uid, state in states.items()}
        with self._locked as cache:
            for uid, state in states.items():
                update_pod(cache, uid, state, now, until[uid])
            for follower in self.followers:
                follower.update(clock)
            changed = cache.has_changes
        if changed:
            self._changed()
