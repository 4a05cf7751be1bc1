"""Containers that ran out of GPU memory are counted when they end."""

from __future__ import annotations

import pytest

from scheduler_ext.features.idle.recommend import failure_count
from scheduler_ext.features.idle.recommend.failure_count import FailureCount
from tests.cluster.test_inventory_handlers import Told
from tests.kube_objects import SHARE, Json, pod, terminated

WHOLE = "nvidia.com/gpu"
LACKED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failed(name: str, number: int = 1, *, namespace: str = "team", **ended: bool) -> Json:
    each = pod(name, {WHOLE: "1"}, on="n")
    each["metadata"]["namespace"] = namespace
    return terminated(each, LACKED, number=number, **ended)


def count_of(told: Told) -> FailureCount:
    (found,) = told.pods.followers
    assert isinstance(found, FailureCount)
    return found


def counted(told: Told) -> dict[object, int]:
    """The counts above 0."""
    return {labels: count for labels, count in count_of(told).counts.items() if count}


def listed(*pods: Json) -> Told:
    """A handler after its first list."""
    told = Told(FailureCount())
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
    assert count_of(told)._known == {}


def test_namespaces_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_count, "_MAX_NAMESPACES", 1)
    told = listed()
    told.see_pods(failed("a"), failed("b", namespace="other"), failed("c"), failed("d", namespace="third"))
    assert counted(told) == {"team": 2, "_others": 2}
