"""One block: a contender's kube-scheduler binds a queue of pods, measured by its own metrics.

All pods are in the queue before the process starts, so that it never waits for one. The first `warm_up` of
them fill caches, connections and the extender's memory and are not counted: /metrics is read when they are
bound and again when the last one is, and the difference counts. The watch only determines when to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.scheduler.binding_watch import BindingWatch
from benchmarks.scheduler.contenders import SCHEDULERS
from benchmarks.scheduler.exposition import Exposition, Histogram
from benchmarks.scheduler.process import Reading, SchedulerProcess
from tests.e2e.cluster import unverified
from tests.e2e.cluster.control_plane import ControlPlane

_ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
_ATTEMPTS = "scheduler_schedule_attempts_total"
_EXTENSION_POINT = "scheduler_framework_extension_point_duration_seconds"
_EXTENDER = "gpu_extender_request_duration_seconds"
_METRICS_S = 10.0
_BATCHES = "scheduler_batch_attempts_total"
_FAILED = ("unschedulable", "error")


@dataclass(frozen=True, slots=True)
class Running:
    """A contender's extender: its address for kube-scheduler, its metrics if it has any, and whether it
    binds. `scheduler` is one of SCHEDULERS.
    """

    url: str | None = None
    health_url: str | None = None
    binds: bool = False
    scheduler: str = SCHEDULERS[0]


@dataclass(frozen=True, slots=True)
class Block:
    """The measurements of one contender in one round; times are per pod.

    `filter_plugins_ms` and `score_plugins_ms` are kube-scheduler's own plugins with their preparation,
    `extender_ms` is from the extender's metrics, filter and prioritize together; None if it has none.
    `scheduler_cpu_ms` is processor time, which two cores share. `batched` is the part of all pods, those of
    the warm-up included, that kube-scheduler placed by the scores of an earlier equal pod.
    """

    contender: str
    nodes: int
    round: int
    pods: int
    elapsed_s: float
    algorithm: Histogram
    filter_plugins_ms: float | None = None
    score_plugins_ms: float | None = None
    scheduler_cpu_ms: float | None = None
    extender_ms: float | None = None
    batched: float = 0.0
    errors: int = 0
    messages: tuple[str, ...] = field(default=())

    @property
    def pods_per_s(self) -> float | None:
        """Bound pods per second; None if nothing was bound."""
        return self.pods / self.elapsed_s if self.pods > 0 and self.elapsed_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        """The values that differ from round to round, in the report's `blocks`."""
        return {
            "nodes": self.nodes,
            "contender": self.contender,
            "round": self.round,
            "pods": self.pods,
            "elapsedSeconds": round(self.elapsed_s, 3),
            "algorithmMeanMs": _rounded(self.algorithm.mean_ms),
            "podsPerSecond": _rounded(self.pods_per_s),
            "batchedPart": _rounded(self.batched),
            "errors": self.errors,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@dataclass(frozen=True, slots=True)
class Readings:
    """All readings of a block; None for those that were not taken."""

    bound: int
    scheduler: tuple[Reading | None, Reading]
    extender: tuple[str, str] | None
    last_words: str


def run_block(
    plane: ControlPlane,
    directory: Path,
    name: str,
    running: Running,
    warm_up: int,
    pods: int,
    patience_s: float,
) -> Readings:
    """Start kube-scheduler on `warm_up` + `pods` waiting pods, and stop it when all are bound.

    It is also stopped if none was bound for `patience_s`. Raises ChildError if it does not start, OSError or
    ApiError if it does not answer.
    """
    before = _extender_metrics(running)
    watch = BindingWatch(plane.api, patience_s)
    scheduler = SchedulerProcess(plane, directory, name, running.url, running.binds, running.scheduler)
    try:
        scheduler.wait_ready()
        bound, first = 0, None
        for _ in watch.bindings():
            bound += 1
            if bound == warm_up:
                first = scheduler.read_metrics()
            if bound == warm_up + pods:
                break
        last = scheduler.read_metrics()
        last_words = scheduler.last_words()
    finally:
        scheduler.stop()
    after = _extender_metrics(running)
    extender = (before, after) if before is not None and after is not None else None
    return Readings(bound, (first, last), extender, last_words)


def _extender_metrics(running: Running) -> str | None:
    if running.health_url is None:
        return None
    return unverified.get(f"{running.health_url}/metrics", timeout_s=_METRICS_S)


def block_of(name: str, nodes: int, number: int, expected: int, readings: Readings) -> Block:
    """The Block from the readings of a run with `expected` pods, warm-up included."""
    first, last = readings.scheduler
    after = Exposition(last.text)
    before = Exposition(first.text if first else "")
    errors, messages = _scheduler_errors(after, expected, readings)
    extender_ms = None
    if readings.extender is not None:
        wrong, extender_ms = _extender(readings.extender, readings.bound)
        errors += len(wrong)
        messages += wrong
    pods = int(_scheduled(after) - _scheduled(before)) if first else 0
    return Block(
        contender=name,
        nodes=nodes,
        round=number,
        pods=pods,
        elapsed_s=last.at_s - first.at_s if first else 0.0,
        algorithm=_algorithm(before, after, pods),
        filter_plugins_ms=_plugins_ms(before, after, pods, "PreFilter", "Filter"),
        score_plugins_ms=_plugins_ms(before, after, pods, "PreScore", "Score"),
        scheduler_cpu_ms=_per_pod_ms(before, after, pods, "process_cpu_seconds_total"),
        extender_ms=extender_ms,
        batched=after.total(_BATCHES, result="hint_used") / expected,
        errors=errors,
        messages=tuple(messages),
    )


def _scheduled(exposition: Exposition) -> float:
    return exposition.total(_ATTEMPTS, result="scheduled")


def _algorithm(before: Exposition, after: Exposition, pods: int) -> Histogram:
    """The decisions after the first reading.

    In a small cluster decisions run far ahead of bindings; if few are left after it, all count.
    """
    whole = after.histogram(_ALGORITHM)
    later = whole.since(before.histogram(_ALGORITHM))
    return later if 2 * later.count >= pods else whole


def _scheduler_errors(after: Exposition, expected: int, readings: Readings) -> tuple[int, list[str]]:
    """Failed attempts, and pods that were not bound at the end."""
    attempts = after.by(_ATTEMPTS, "result")
    errors, messages = 0, []
    for result in _FAILED:
        count = int(attempts.get(result, 0))
        if count:
            errors += count
            messages.append(f"{count} scheduling attempts ended as {result}")
    missing = expected - readings.bound
    if missing:
        errors += missing
        messages.append(f"{missing} of {expected} pods were not bound; {readings.last_words}")
    return errors, messages


def _extender(texts: tuple[str, str], bound: int) -> tuple[list[str], float | None]:
    """The extender's errors, and its mean time per pod in ms.

    kube-scheduler asks for no points where filter returns a single node.
    """
    before, after = map(Exposition, texts)
    wrong, total_s = [], 0.0
    for verb in ("filter", "prioritize"):
        good = after.histogram(_EXTENDER, verb=verb, code="200").since(
            before.histogram(_EXTENDER, verb=verb, code="200")
        )
        calls = after.total(f"{_EXTENDER}_count", verb=verb) - before.total(f"{_EXTENDER}_count", verb=verb)
        if calls != good.count:
            wrong.append(f"{calls - good.count:g} of {calls:g} {verb} calls were not answered with 200")
        if verb == "filter" and good.count < bound:
            wrong.append(f"{bound} pods were bound after only {good.count:g} {verb} calls")
        total_s += good.sum_s
    return wrong, 1000 * total_s / bound if bound else None


def _plugins_ms(before: Exposition, after: Exposition, pods: int, *points: str) -> float | None:
    times = [
        _per_pod_ms(before, after, pods, f"{_EXTENSION_POINT}_sum", extension_point=point) for point in points
    ]
    known = [time_ms for time_ms in times if time_ms is not None]
    return sum(known) if known else None


def _per_pod_ms(before: Exposition, after: Exposition, pods: int, name: str, **labels: str) -> float | None:
    if not pods:
        return None
    return 1000 * (after.total(name, **labels) - before.total(name, **labels)) / pods
