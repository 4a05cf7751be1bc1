"""The next step for each idle pod, and for each pod that was warned."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.pod_facts import NO_FACTS, FactsOfPods, PodFacts
from scheduler_ext.features.idle.idle import Idleness, IdlePod, idleness
from scheduler_ext.features.idle.reclaim.reclaim_policy import (
    RECLAIM_LABEL,
    ReclaimPolicy,
    Step,
    next_step,
    opted_in,
)
from scheduler_ext.features.idle.settings import ReclaimSection
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.times import seconds


class Warned(NamedTuple):
    """A warning that this extender knows of: its text as a time, and the server's time of the knowledge."""

    evict_at: float
    known_at: float


class ReclaimInput(NamedTuple):
    """The cluster as this extender knows it; ages of reports are by node, in seconds, and `warned` is by the
    uid of the pod."""

    infos: list[NodeInfo]
    readings: NodeReadings
    facts: FactsOfPods
    ages_s: Mapping[str, float]
    warned: Mapping[str, Warned]


@dataclass(frozen=True, slots=True)
class Planned:
    """A step for a pod; `idle` is None for one that is not idle. `value` of its GPUs is per hour."""

    step: Step
    pod: BoundPod
    info: NodeInfo
    idle: IdlePod | None
    value: float
    evict_at: float | None


class ReclaimPlanner:
    """Decides by the configuration."""

    def __init__(self, config: Configuration) -> None:
        settings = config.of(ReclaimSection)
        self._policy = ReclaimPolicy(settings.duration_s("min_age"), settings.duration_s("warn_for"))
        self._after_s = config.idle_after_s()
        self._values = config.policy().values
        self._headroom_percent = config.memory.headroom_percent

    def concerned(self, seen: ReclaimInput) -> list[NodeInfo]:
        """The nodes on which something was idle for long enough, or a pod was warned: cheap enough for every
        node at every look."""
        warned = {uid for uid, facts in list(seen.facts.items()) if facts.reclaim_at is not None}
        return [
            info
            for info in seen.infos
            if any(
                idle_s >= self._after_s
                for did in seen.readings.get(info.name, ())
                for idle_s in did.idle_times_s
            )
            or (warned and any(pod.uid in warned for pod in info.pods))
        ]

    def plan(
        self, infos: Iterable[NodeInfo], seen: ReclaimInput, namespaces: Mapping[str, str], now: float
    ) -> Iterator[Planned]:
        """The steps of idle and of warned pods, at the server's time. `namespaces` are the labels of those
        that have one."""
        for info in infos:
            if not any(
                opted_in(namespaces.get(pod.namespace), pod.labels.get(RECLAIM_LABEL))
                or seen.facts.get(pod.uid, NO_FACTS).reclaim_at is not None
                for pod in info.pods
            ):
                # To judge its pods takes ten times as long.
                continue
            idle = {each.pod.uid: each for each in self._idle(info, seen, seen.facts, now).pods}
            for pod in info.pods:
                facts = seen.facts.get(pod.uid, NO_FACTS)
                if pod.uid in idle or facts.reclaim_at is not None:
                    label = namespaces.get(pod.namespace)
                    yield self._planned(pod, info, idle.get(pod.uid), facts, label, seen, now)

    def again(
        self, planned: Planned, seen: ReclaimInput, pod: kube.Pod, namespaces: Mapping[str, str], now: float
    ) -> Planned | None:
        """The same decision by the pod as the API server has it now; None if its node is gone."""
        info = next((each for each in seen.infos if each.name == planned.info.name), None)
        if info is None:
            return None
        metadata, facts = pod.metadata or kube.ObjectMeta(), pod_facts(pod)
        latest = replace(
            planned.pod,
            labels=strings(metadata.labels),
            terminating=is_terminating(pod),
            finished=is_finished(pod),
        )
        # The watch may remove one meanwhile.
        others = {each.uid: seen.facts.get(each.uid, NO_FACTS) for each in info.pods}
        found = self._idle(info, seen, others | {latest.uid: facts}, now).pods
        idle = next((each for each in found if each.pod.uid == latest.uid), None)
        return self._planned(latest, info, idle, facts, namespaces.get(latest.namespace), seen, now)

    def evict_at(self, now: float) -> float:
        """The time for the warning of a pod that is warned now."""
        return now + self._policy.warn_for_s

    def _idle(self, info: NodeInfo, seen: ReclaimInput, facts: FactsOfPods, now: float) -> Idleness:
        readings = seen.readings.get(info.name, ())
        return idleness(info, readings, facts, now, self._after_s, self._headroom_percent)

    def _planned(
        self,
        pod: BoundPod,
        info: NodeInfo,
        idle: IdlePod | None,
        facts: PodFacts,
        namespace: str | None,
        seen: ReclaimInput,
        now: float,
    ) -> Planned:
        ages_s, evict_at = seen.ages_s, None
        if facts.reclaim_at is not None:
            at = seconds(facts.reclaim_at)
            evict_at = math.nan if at is None else at
        step: Step = "none"
        known = seen.warned.get(pod.uid)
        # A report that is old says nothing, and a pod that ends needs nothing.
        if info.freshness == "Fresh" and info.name in ages_s and pod.holds and not pod.terminating:
            idle_since = None
            # The eviction of a pod that comes back at once frees nothing.
            may_go = opted_in(namespace, pod.labels.get(RECLAIM_LABEL)) and not facts.returns
            if idle is not None and may_go:
                idle_since = now - ages_s[info.name] - idle.idle_s
            step = next_step(
                self._policy,
                idle_since=idle_since,
                ran_s=now - facts.running_since if facts.running_since is not None else 0.0,
                evict_at=evict_at,
                known_at=known.known_at if known is not None and known.evict_at == evict_at else None,
                report_age_s=ages_s[info.name],
                now=now,
            )
        value = idle.value_per_hour(info, self._values) if idle is not None else 0.0
        return Planned(step, pod, info, idle, value, evict_at)
