"""What idle GPUs do in `serve`: lists and metrics of idle pods, the count of containers that ran out of GPU
memory, evictions of idle pods where they are enabled, and idle pods first when preempt evicts."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from threading import Lock

from scheduler_ext.background import Background
from scheduler_ext.cluster.following import Following, Live
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.features.idle import counters as counters  # They show in any case.
from scheduler_ext.features.idle.idle import idleness
from scheduler_ext.features.idle.idle_pods import IdleNodes, idle_times
from scheduler_ext.features.idle.metrics import IdleText
from scheduler_ext.features.idle.routes import idle_blueprint
from scheduler_ext.features.idle.settings import ReclaimSection
from scheduler_ext.server.serving import Facts, Parts, Served, Serving
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.wire.config import Configuration


class IdleServing(Serving):
    """Knows which pods are idle where a cluster is followed."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._after_s = config.idle_after_s()
        self._live: Live | None = None
        self._lock = Lock()
        self._nodes = IdleNodes(self._after_s)

    def follow(self, live: Live) -> Following:
        from scheduler_ext.features.idle.recommend.failure_count import FailureCount

        self._live = live
        loops: list[Background] = []
        if self._config.of(ReclaimSection).mode != "off":
            from scheduler_ext.features.idle.reclaim.reclaimer import Reclaimer

            say = live.recorder.write
            loops.append(Reclaimer(live.transport, live.active, self._config, live.namespace, live, say))
        return Following(pods=(FailureCount(),), loops=loops)

    def join(self, served: Served) -> Parts:
        config = served.config
        text = IdleText(served.source, served.gpus, self._after_s, config.metrics.detail)
        return Parts(routes=(idle_blueprint(served.source, config),), texts=(text,))

    def facts_of_nodes(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        with self._lock:
            found = self._nodes.of(infos, status.readings, status.facts, wall_time)
        return {name: {"idleGpus": sorted(idle.gpus)} for name, idle in found.items() if idle.gpus}

    def facts_of_pods(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        times = idle_times(infos, status, wall_time, self._after_s)
        return {uid: {"idleSeconds": idle_s} for uid, idle_s in times.items()}

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        live = self._live
        if live is None or not self._config.preemption.prefer_idle:
            return ()
        with live.locked as cache:
            readings = cache.readings_of(info.name)
        return {
            each.pod.uid for each in idleness(info, readings, live.facts, time.time(), self._after_s).pods
        }


serving = IdleServing
