"""One burst: a contender binds pods that all come at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.scheduler.binding_watch import BindingWatch
from benchmarks.scheduler.bursts.contenders import RunningContender
from benchmarks.scheduler.bursts.cores import Cores, started_on
from benchmarks.scheduler.bursts.creation import create_pods
from benchmarks.scheduler.bursts.processor_time import processor_time
from benchmarks.scheduler.exposition import Exposition
from benchmarks.scheduler.pods import delete_pods
from benchmarks.scheduler.process import SchedulerProcess
from tests.e2e.cluster.control_plane import ControlPlane

_ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
_ATTEMPTS = "scheduler_schedule_attempts_total"
_BATCHES = "scheduler_batch_attempts_total"
_WARM_UP = 40
# kube-scheduler's back-off ends at 10 s, so a pod that is tried again is seen within this time.
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst of one contender in one round. `elapsed_s` is the time until the last binding, `retries` are
    scheduling attempts that bound no pod, `batched` is the part of the pods that were placed by the scores of
    an equal pod. `cpu_ms` is the processor time of each process for one pod."""

    contender: str
    nodes: int
    round: int
    pods: int
    bound: int
    elapsed_s: float
    algorithm_ms: float | None
    batched: float
    retries: int
    cpu_ms: dict[str, float] = field(default_factory=dict)

    @property
    def pods_per_s(self) -> float | None:
        """Bound pods per second; None unless all were bound."""
        return self.bound / self.elapsed_s if self.bound == self.pods and self.elapsed_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        """The values that differ from round to round."""
        per_s, mean_ms = self.pods_per_s, self.algorithm_ms
        return {
            "nodes": self.nodes,
            "contender": self.contender,
            "round": self.round,
            "pods": self.pods,
            "bound": self.bound,
            "elapsedSeconds": round(self.elapsed_s, 3),
            "podsPerSecond": None if per_s is None else round(per_s, 2),
            "algorithmMeanMs": None if mean_ms is None else round(mean_ms, 3),
            "batchedPart": round(self.batched, 3),
            "retries": self.retries,
            "cpuMsPerPod": self.cpu_ms,
        }


def run_burst(
    plane: ControlPlane,
    directory: Path,
    contender: RunningContender,
    nodes: int,
    number: int,
    pods: int,
    cores: Cores,
) -> Burst:
    """Start kube-scheduler on its cores, warm it up on other pods, and let it bind the burst; all pods are
    deleted at the end. Raises ChildError, OSError or ApiError if a part does not answer."""
    running = contender.running
    with started_on(cores.scheduler):
        scheduler = SchedulerProcess(
            plane, directory, contender.name, running.url, scheduler=running.scheduler
        )
    groups = [each for each in (scheduler.pid, contender.pid) if each is not None]
    try:
        scheduler.wait_ready()
        _bind(plane, _WARM_UP, -1 - number, ())
        delete_pods(plane.api)
        before = Exposition(scheduler.read_metrics().text)
        bound, elapsed_s, used = _bind(plane, pods, number, groups)
        after = Exposition(scheduler.read_metrics().text)
    finally:
        scheduler.stop()
        delete_pods(plane.api)
    attempts = {result: after.total(_ATTEMPTS, result=result) for result in ("unschedulable", "error")}
    failed = sum(count - before.total(_ATTEMPTS, result=result) for result, count in attempts.items())
    batched = after.total(_BATCHES, result="hint_used") - before.total(_BATCHES, result="hint_used")
    return Burst(
        contender=contender.name,
        nodes=nodes,
        round=number,
        pods=pods,
        bound=bound,
        elapsed_s=elapsed_s,
        algorithm_ms=after.histogram(_ALGORITHM).since(before.histogram(_ALGORITHM)).mean_ms,
        batched=batched / pods,
        retries=int(failed),
        cpu_ms={name: round(1000 * seconds / pods, 1) for name, seconds in used.items()},
    )


def _bind(
    plane: ControlPlane, pods: int, seed: int, paused: Sequence[int]
) -> tuple[int, float, dict[str, float]]:
    """Create pods while these process groups are paused, and wait until the pods are bound: how many were,
    the seconds since the end of the pause, and the processor time of each process since then."""
    watch = BindingWatch(plane.api, _PATIENCE_S)
    with _paused(paused):
        create_pods(plane.api, pods, seed)
    before, start = processor_time(), time.monotonic()
    bound, last = 0, start
    for _ in watch.bindings():
        bound, last = bound + 1, time.monotonic()
        if bound == pods:
            break
    used = {name: seconds - before[name] for name, seconds in processor_time().items()}
    return bound, last - start, used


@contextlib.contextmanager
def _paused(groups: Sequence[int]) -> Iterator[None]:
    try:
        for group in groups:
            os.killpg(group, signal.SIGSTOP)
        yield
    finally:
        for group in groups:
            os.killpg(group, signal.SIGCONT)
