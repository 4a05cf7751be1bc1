"""Remembers how long pods held GPUs, as they end."""

import time
from collections.abc import Callable, Collection

from scheduler_ext.cluster.following import PodFollower
from scheduler_ext.cluster.inventory.pod_state import OtherPod, PodState
from scheduler_ext.features.gangs.queue.run_times import PastRuns, PodRun, RunKind
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod_facts import pod_facts


class RunRecorder(PodFollower):
    """Follows pods on nodes until they end. All calls come from the thread of the watch; `past` may be copied
    from any thread. A pod that ended while no watch ran is left out: the time of its end is unknown."""

    def __init__(self, most: int, wall_time: Callable[[], float] = time.time) -> None:
        """`most` runs are remembered."""
        self._wall_time = wall_time
        self._running: dict[str, PodRun] = {}
        self.past = PastRuns(wall_time(), most)

    def upsert(self, uid: str, pod: kube.Pod, state: PodState) -> None:
        if not isinstance(state, tuple) or isinstance(state, OtherPod):
            return
        holder, _ = state
        if holder.finished:
            self.ended(uid)
        elif holder.started_at is not None:
            kind = RunKind(holder.namespace, pod_facts(pod).owner, holder.asked)
            self._running[uid] = PodRun(kind, holder.started_at)

    def ended(self, uid: str) -> None:
        run = self._running.pop(uid, None)
        if run is not None:
            self.past.ended(run._replace(ended_at=self._wall_time()))

    def forget(self, uids: Collection[str]) -> None:
        for uid in uids:
            self._running.pop(uid, None)
