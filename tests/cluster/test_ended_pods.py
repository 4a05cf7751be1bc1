"""Pods that end: containers that ran out of GPU memory are counted, and run times are remembered."""

from __future__ import annotations

import pytest

from scheduler_ext.features.gangs.queue.run_recorder import RunRecorder
from scheduler_ext.features.idle.recommend import failure_count
from scheduler_ext.wire import kube
from tests.cluster.test_inventory_handlers import Told, read
from tests.kube_idle import running
from tests.kube_objects import SHARE, Json, pod, terminated

WHOLE = "nvidia.com/gpu"
HOUR_S = 3600
LACKED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failed(name: str, number: int = 1, *, namespace: str = "team", **ended: bool) -> Json:
    each = pod(name, {WHOLE: "1"}, on="n")
    each["metadata"]["namespace"] = namespace
    return terminated(each, LACKED, number=number, **ended)


def counted(told: Told) -> dict[object, int]:
    """The counts above 0."""
    return {labels: count for labels, count in told.pods.failures.counts.items() if count}


def listed(*pods: Json) -> Told:
    """A handler after its first list."""
    told = Told()
    told.pods.begin()
    told.see_pods(*pods)
    told.pods.end()
    return told


def test_a_failure_counts_when_the_container_ends_and_not_again_when_it_runs_again() -> None:
    told = listed(pod("p", {WHOLE: "1"}, on="n"))
    told.see_pods(failed("p", running=False))
    assert counted(told) == {"team": 1}
    told.see_pods(failed("p"), failed("p"))
    assert counted(told) == {"team": 1}


def test_failures_before_the_start_do_not_count() -> None:
    told = listed(failed("p"))
    assert counted(told) == {}
    told.see_pods(failed("p"), failed("p", 2))
    assert counted(told) == {"team": 1}


def test_a_failure_while_the_watch_was_lost_counts_with_the_next_list() -> None:
    told = listed(failed("old"))
    told.pods.begin()
    told.see_pods(failed("old"), failed("new"))
    told.pods.end()
    assert counted(told) == {"team": 1}


def test_a_finished_pod_counts_and_a_pod_without_gpus_does_not() -> None:
    told = listed()
    job = failed("job", running=False)
    job["status"]["phase"] = "Failed"
    plain = terminated(pod("plain", {"cpu": "1"}, on="n"), LACKED)
    share = terminated(pod("share", {SHARE: "1024"}, on="n"), LACKED)
    told.see_pods(job, plain, share)
    assert counted(told) == {"team": 1, "default": 1}


def test_a_deleted_pod_is_forgotten() -> None:
    told = listed()
    told.see_pods(failed("p"))
    told.pods.remove(["uid-p"])
    assert told.pods.failures._known == {}


def test_namespaces_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_count, "_MAX_NAMESPACES", 1)
    told = listed()
    told.see_pods(failed("a"), failed("b", namespace="other"), failed("c"), failed("d", namespace="third"))
    assert counted(told) == {"team": 2, "_others": 2}


@pytest.fixture
def told() -> Told:
    found = Told()
    found.pods.runs = RunRecorder(100)
    return found


def runs_s(told: Told) -> list[int]:
    assert told.pods.runs is not None
    return [round((run.ended_at or 0.0) - run.started_at) for run in told.pods.runs.past.runs()]


def gone(told: Told, each: Json) -> None:
    (found,) = read(kube.Pod, each)
    told.pods.gone(found)


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
