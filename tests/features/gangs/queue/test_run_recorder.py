"""The run times of pods that end are remembered."""

from __future__ import annotations

import pytest

from scheduler_ext.features.gangs.queue.run_recorder import RunRecorder
from scheduler_ext.wire import kube
from tests.cluster.test_inventory_handlers import Told, read
from tests.kube_idle import running
from tests.kube_objects import Json

HOUR_S = 3600


@pytest.fixture
def runs() -> RunRecorder:
    return RunRecorder(100)


@pytest.fixture
def told(runs: RunRecorder) -> Told:
    return Told(runs)


def runs_s(runs: RunRecorder) -> list[int]:
    return [round((run.ended_at or 0.0) - run.started_at) for run in runs.past.runs()]


def gone(told: Told, each: Json) -> None:
    (found,) = read(kube.Pod, each)
    told.pods.gone(found)


def test_a_pod_that_is_deleted_has_run(told: Told, runs: RunRecorder) -> None:
    job = running("p", "n", HOUR_S, "ml", "Job/train")
    told.see_pods(job)
    gone(told, job)
    assert runs_s(runs) == [pytest.approx(HOUR_S, abs=2)]
    (run,) = runs.past.runs()
    assert (run.kind.namespace, run.kind.owner) == ("ml", "Job/train")


def test_a_pod_that_finishes_has_run_once(told: Told, runs: RunRecorder) -> None:
    job = running("p", "n", HOUR_S)
    told.see_pods(job)
    finished = running("p", "n", HOUR_S)
    finished["status"]["phase"] = "Succeeded"
    told.see_pods(finished, finished)
    gone(told, finished)
    assert len(runs_s(runs)) == 1


def test_the_end_of_a_pod_that_a_later_list_lacks_is_unknown(told: Told, runs: RunRecorder) -> None:
    told.see_pods(running("p", "n", HOUR_S))
    told.pods.begin()
    told.pods.end()
    assert runs_s(runs) == []
