"""Remembers how long pods held GPUs, as they end."""

import time
from collections.abc import Callable, Collection

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.features.gangs.queue.run_times import PastRuns, Run, RunKind


class RunRecorder:
    """Follows pods on nodes until they end. All calls come from the thread of the watch; `past` may be copied
    from any thread. A pod that ended while no watch ran is left out: the time of its end is unknown."""

    def __init__(self, most: int, wall_time: Callable[[], float] = time.time) -> None:
        """`most` runs are remembered."""
        self._wall_time = wall_time
        self._running: dict[str, Run] = {}
        self.past = PastRuns(wall_time(), most)

    def seen(self, pod: BoundPod, facts: PodFacts) -> None:
        """A pod is on a node, or has finished there."""
        if pod.finished:
            self.gone((pod.uid,))
        elif pod.started_at is not None:
            kind = RunKind(pod.namespace, facts.owner, pod.asked)
            self._running[pod.uid] = Run(kind, pod.started_at)

    def gone(self, uids: Collection[str], *, just_now: bool = True) -> None:
        """These pods have ended; `just_now` if a watch reported it."""
        now = self._wall_time()
        for uid in uids:
            run = self._running.pop(uid, None)
            if run is not None and just_now:
                self.past.ended(run._replace(ended_at=now))
