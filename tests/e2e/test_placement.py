"""A pod with schedulerName gpu-scheduler lands where the extender decides, on a real kube-scheduler.

The nodes that the extender prefers are those that kube-scheduler itself prefers least.
"""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import Json
from tests.e2e.installation import filter_calls
from tests.e2e.workload import MIG_HALF, Workload
from tests.kube_objects import ANNOTATION, SHARE, gpu

pytestmark = pytest.mark.smoke


def mixed_cluster(workload: Workload) -> None:
    """Models, fullness, MIG and shares: for every wish some nodes fit, with different scores."""
    workload.add_whole("a100-a", 4)
    workload.add_whole("a100-b", 8)
    workload.add_whole("h100", 8, "H100-80GB")
    workload.add_whole("t4", 2, "T4")
    used = {"totalMiB": 81920, "usedMiB": 60000, "unaccountedMiB": 60000}
    busy = [gpu(i, f"GPU-busy-{i}", memory=used) for i in range(2)]
    workload.add_node("a100-busy", {"nvidia.com/gpu": "2"}, busy)
    workload.add_mig("mig-b")
    one = {"enabled": True, "instances": [{"uuid": "MIG-1", "profile": "3g.40gb", "start": 0, "size": 4}]}
    workload.add_node("mig-a", {MIG_HALF: "1"}, [gpu(0, "GPU-mig-a", mig=one)], migStrategy="mixed")
    sharing = {"gpu.scheduler-ext.io/sharing": "memory"}
    # 8192 MiB are free on the second: whatever the forecast, which follows pods of other tests, a share of
    # that size leaves nothing behind there.
    for stem, mib in (("share-a", 0), ("share-b", 33269)):
        device = gpu(0, f"GPU-{stem}", total=46068, model="L40S")
        device["memory"] |= {"usedMiB": mib, "unaccountedMiB": mib}
        workload.add_node(stem, {SHARE: "41461"}, [device], sharing)


@pytest.mark.parametrize(
    ("limits", "annotations", "fits"),
    [
        pytest.param(
            {"nvidia.com/gpu": "1"}, {}, {"a100-a", "a100-b", "h100", "t4", "a100-busy"}, id="one whole GPU"
        ),
        pytest.param(
            {"nvidia.com/gpu": "1"},
            {"model": "A100-80GB", "min-free-memory": "60Gi"},
            {"a100-a", "a100-b"},
            id="a GPU with so much memory free",
        ),
        pytest.param({MIG_HALF: "2"}, {}, {"mig-b"}, id="two MIG instances"),
        pytest.param({SHARE: "35000"}, {}, {"share-a"}, id="a share too large for the one in use"),
    ],
)
def test_lands_on_a_node_that_explain_calls_best(
    workload: Workload, limits: Json, annotations: Json, fits: set[str]
) -> None:
    mixed_cluster(workload)
    workload.publish()
    pod = workload.pod(
        limits, annotations={f"{ANNOTATION}{key}": value for key, value in annotations.items()}
    )
    explanation = workload.installation.explain(pod)
    judged_fit = {each["node"] for each in explanation["nodes"] if each["verdict"] == "fits"}
    assert judged_fit == {workload.name(stem) for stem in fits}
    for node in explanation["best"]:
        workload.load(node)
    calls = filter_calls(workload.installation)
    assert workload.place(pod) in explanation["best"]
    assert calls() == 1
    assert not workload.events(pod["metadata"]["name"], "FailedScheduling")


def test_a_pod_of_the_default_scheduler_is_untouched(workload: Workload) -> None:
    workload.add_whole("a100", 1)
    workload.publish()
    wish = {f"{ANNOTATION}model": "H100"}
    calls = filter_calls(workload.installation)
    pod = workload.pod({"nvidia.com/gpu": "1"}, annotations=wish, scheduler="default-scheduler")
    assert workload.place(pod) == workload.name("a100")
    assert calls() == 0
    scheduled = workload.await_event(pod["metadata"]["name"], "Scheduled")
    assert scheduled["reportingController"] == "default-scheduler"


def test_a_pod_of_ours_that_asks_no_gpu_goes_anywhere(workload: Workload) -> None:
    calls = filter_calls(workload.installation)
    assert workload.place(workload.pod()).startswith("plain-")
    assert calls() == 0


def test_an_event_has_the_decision(workload: Workload) -> None:
    where = workload.add_whole("small", 1)
    workload.publish()
    name = workload.create(workload.pod({"nvidia.com/gpu": "1"}))
    assert where in workload.await_event(name, "GPUPlacement")["note"]
