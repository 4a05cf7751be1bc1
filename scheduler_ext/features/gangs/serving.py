"""What gangs do in `serve`: they plan places for pods that kube-scheduler found no node for, and for gangs
where these are enabled; and they list the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_ext.cluster.following import Following, Live, PodFollower
from scheduler_ext.core.node.node import Wait
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.extender.answer import Answer
from scheduler_ext.features.gangs import counters as counters  # They show in any case.
from scheduler_ext.features.gangs.planning.plan import Plan
from scheduler_ext.features.gangs.queue.metrics import QueueMetrics
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.routes import queue_blueprint
from scheduler_ext.features.gangs.queue.run_times import PastRuns
from scheduler_ext.features.gangs.queue.start_estimates import StartEstimates
from scheduler_ext.features.gangs.settings import NominateSection, QueueSection
from scheduler_ext.server.serving import Parts, Served, Serving
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_identity import pod_uid

if TYPE_CHECKING:
    from scheduler_ext.features.gangs.live.planning import Planning
    from scheduler_ext.features.gangs.queue.run_recorder import RunRecorder


class GangsServing(Serving):
    """Plans where a cluster is followed and nominations are enabled."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._runs: RunRecorder | None = None
        self._planning: Planning | None = None

    def follow(self, live: Live) -> Following:
        pods: list[PodFollower] = []
        if most := self._config.of(QueueSection).run_times:
            from scheduler_ext.features.gangs.queue.run_recorder import RunRecorder

            self._runs = RunRecorder(most)
            pods.append(self._runs)
        nominate = self._config.of(NominateSection)
        if not nominate.enabled:
            return Following(pods=pods)
        from scheduler_ext.features.gangs.live.followed_cluster import FollowedCluster
        from scheduler_ext.features.gangs.live.planning import Planning

        config, resources = self._config, self._config.resource_names()
        followed = FollowedCluster(resources, config.scheduler_names, self.changed)
        gangs = None
        if nominate.gangs.enabled:
            from scheduler_ext.features.gangs.live.gang_planning import GangPlanning
            from scheduler_ext.features.gangs.live.gang_pods import GangPods

            members = GangPods(resources)
            pods.append(members)
            gangs = GangPlanning(live.transport, live, members, config, live.recorder.write)
        self._planning = Planning(live.transport, live, live.extender, followed, config, gangs)
        return Following(pods=(*pods, followed), nodes=(followed.nodes,), loops=(self._planning,))

    def join(self, served: Served) -> Parts:
        source, config = served.source, served.config
        estimates = StartEstimates(source, config, past_runs=self.past_runs)
        view = QueueView(source, served.waiting.lines, estimates, self.plan)
        return Parts(routes=(queue_blueprint(view),), metrics=(QueueMetrics(self.plan),))

    def plan(self) -> Plan | None:
        """The plan for the waiting pods; None without a planner, or if another extender is active."""
        planning = self._planning
        return planning.plan() if planning is not None and planning.is_active() else None

    def past_runs(self) -> PastRuns | None:
        """How long pods ran that have ended; None if that is not remembered."""
        return self._runs.past if self._runs is not None else None

    def changed(self) -> None:
        if self._planning is not None:
            self._planning.wake()

    def answered(self, verb: str, answer: Answer) -> None:
        if self._planning is not None and verb == "filter" and answer.nodes_out and answer.args is not None:
            self._planning.asked(pod_uid(answer.args.pod))

    def holds_back(self, uid: str) -> bool:
        return self._planning is not None and self._planning.is_to_be_nominated(uid)

    def wait_of(self, uid: str) -> Wait | None:
        gangs = self._planning.gangs if self._planning is not None else None
        return gangs.entries.wait(uid) if gangs is not None else None

    def group_of(self, uid: str) -> GangKey | None:
        gangs = self._planning.gangs if self._planning is not None else None
        return gangs.entries.gang_of(uid) if gangs is not None else None


serving = GangsServing
