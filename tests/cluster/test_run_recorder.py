"""Run times are remembered as pods end."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.run_recorder import RunRecorder
from scheduler_ext.wire import kube
from tests.cluster.test_inventory_handlers import Told, read
from tests.kube_idle import running
from tests.kube_objects import Json

WHOLE = "nvidia.com/gpu"
HOUR_S = 3600


@pytest.fixture
def told() -> Told:
    found = Told()
    found.pods.runs = RunRecorder(100)
    return found


def runs_s(told: Told) -> list[int]:
    assert told.pods.runs is not None
    return [round((run.ended_at or 0.0) - run.started_at) for run in told.pods.runs.past.runs()]


def gone(told: Told, *objects: Json) -> None:
    for each in read(kube.Pod, *objects):
        told.pods.gone(each)


def test_a_pod_that_is_deleted_has_run(told: Told) -> None:
    job = running("p", "n", HOUR_S, "ml", "Job/train")
    told.see_pods(job)
    gone(told, job)
    assert runs_s(told) == [pytest.approx(HOUR_S, abs=2)]
    assert told.pods.runs is not None
    (run,) = told.pods.runs.past.runs()
    assert (run.kind.namespace, run.kind.owner) == ("ml", "Job/train")


def test_a_pod_that_finishes_has_run_once(told: Told) -> None:
    job = running("p", "n", HOUR_S)
    told.see_pods(job)
    finished = running("p", "n", HOUR_S)
    finished["status"]["phase"] = "Succeeded"
    told.see_pods(finished, finished)
    gone(told, finished)
    assert len(runs_s(told)) == 1


def test_the_end_of_a_pod_that_a_later_list_lacks_is_unknown(told: Told) -> None:
    told.see_pods(running("p", "n", HOUR_S))
    told.pods.begin()
    told.pods.end()
    assert runs_s(told) == []
