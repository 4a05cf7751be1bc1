"""Since when a pod runs, and its workload."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.times import seconds, span_text

CREATED, BOUND, STARTED, RUNNING = (f"2026-11-01T0{hour}:00:00Z" for hour in (1, 2, 3, 4))
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
FIRST = {"state": {"running": {"startedAt": RUNNING}}}


def facts(metadata: dict[str, Any] | None = None, **status: Any) -> PodFacts:
    pod = {"metadata": {"name": "p", "creationTimestamp": CREATED} | (metadata or {}), "status": status}
    return pod_facts(msgspec.convert(pod, kube.Pod))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Running", "startTime": STARTED}, STARTED, id="its start on the node"),
        pytest.param({"phase": "Pending", "startTime": STARTED}, None, id="not while its image is pulled"),
        pytest.param({"phase": "Running"}, None, id="never without a time of the node"),
        pytest.param(
            {"phase": "Running", "startTime": STARTED, "containerStatuses": [FIRST]},
            RUNNING,
            id="the start of its container, after the image was pulled",
        ),
        pytest.param(
            {
                "phase": "Running",
                "startTime": STARTED,
                "containerStatuses": [FIRST, {"state": {"running": {"startedAt": STARTED}}}, {"state": {}}],
            },
            STARTED,
            id="the first of several containers",
        ),
        pytest.param(
            {"phase": "Running", "startTime": "2026-10-01T00:00:00Z", "conditions": [SCHEDULED]},
            BOUND,
            id="its binding, where the clock of the node is behind",
        ),
        pytest.param(
            {"phase": "Running", "startTime": "2026-10-01T00:00:00Z"},
            CREATED,
            id="its creation, where that is all",
        ),
    ],
)
def test_since_when_a_pod_runs(status: dict[str, Any], expected: str | None) -> None:
    assert facts(**status).running_since == seconds(expected)


def test_the_workload_of_a_pod_by_itself_and_of_a_job() -> None:
    job = {"kind": "Job", "name": "train", "uid": "u", "controller": True}
    assert (facts().owner, facts({"ownerReferences": [job]}).owner) == ("", "Job/train")


def test_the_time_of_its_eviction() -> None:
    annotations = {"gpu.scheduler-ext.io/reclaim-at": "2026-11-01T05:00:00Z"}
    assert facts({"annotations": annotations}).reclaim_at == "2026-11-01T05:00:00Z"


@pytest.mark.parametrize(
    ("span_s", "expected"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (7500, "2h5m"), (90_000, "1d1h"), (86_460, "1d")],
)
def test_spans_have_their_two_largest_units(span_s: float, expected: str) -> None:
    assert span_text(span_s) == expected
