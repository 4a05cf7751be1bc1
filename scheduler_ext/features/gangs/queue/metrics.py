"""The metrics of the planner's queue, read at each scrape."""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.features.gangs.planning.plan import Plan, State


class QueueMetrics(Collector):
    """The waiting pods by their state in the plan, and the age of the plan; no series without a plan."""

    def __init__(self, plan: Callable[[], Plan | None], wall_time: Callable[[], float] = time.time) -> None:
        self._plan = plan
        self._wall_time = wall_time

    def collect(self) -> Iterator[GaugeMetricFamily]:
        plan = self._plan()
        pods = GaugeMetricFamily(
            "gpu_extender_queue_pods",
            "Waiting pods by their state in the plan; no series without nominate.enabled, and on extenders "
            "that are not active.",
            labels=("state",),
        )
        age = GaugeMetricFamily("gpu_extender_plan_age_seconds", "Time since the planner last planned.")
        if plan is not None:
            counts = plan.counts()
            for state in State:
                pods.add_metric((state.value,), counts[state])
            if plan.made_at:
                age.add_metric((), max(0.0, self._wall_time() - plan.made_at))
        yield pods
        yield age
