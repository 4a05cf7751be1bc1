"""The workload that a policy expects: that of the trace, or that of the pods so far."""

import re
from collections import Counter
from collections.abc import Sequence

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.request.pod_kinds import UNKNOWN, SeenPods, Workload
from scheduler_ext.sim.trace_workload import PodKind, TracePod, task_class

# The first interval between updates in pods; it doubles up to the last one.
_FIRST_INTERVAL = 25
_LAST_INTERVAL = 800
_MOST_FIRST = 999_999_999
_FIRST_PATTERN = re.compile(r"first:([1-9][0-9]{0,8})")


def workload_of(pods: Sequence[TracePod]) -> Workload:
    """The workload of all these pods."""
    return Workload.of(Counter(task_class(pod.kind) for pod in pods))


def first_count(target: str) -> int | None:
    """N of a target "first:N"; None for the targets "trace" and "online". Raises SimulationError for anything
    else."""
    match = _FIRST_PATTERN.fullmatch(target)
    if match is None and target not in ("trace", "online"):
        raise SimulationError(
            f"target {target[:80]}: unknown; write trace, online, or first:N with N of 1 to {_MOST_FIRST}"
        )
    return int(match[1]) if match else None


class Expectation:
    """The expected workload, updated by arriving pods; only the target "trace" knows later pods."""

    def __init__(self, target: str, pods: Sequence[TracePod]) -> None:
        self._first = first_count(target)
        self._online = target == "online"
        self.workload = workload_of(pods) if target == "trace" else UNKNOWN
        # Of the first N, all pods count alike: none is forgotten.
        self._seen = SeenPods(HALF_LIFE_PODS, UNKNOWN_PODS) if self._online else SeenPods(float("inf"))
        self._due = self._first or _FIRST_INTERVAL

    def saw(self, kind: PodKind) -> Workload | None:
        """Count a pod; the new workload to expect, None for no change."""
        if not self._online and (self._first is None or self._seen.seen >= self._first):
            return None
        self._seen.saw(task_class(kind))
        if self._seen.seen < self._due:
            return None
        self._due += min(self._due, _LAST_INTERVAL)
        self.workload = self._seen.workload()
        return self.workload
