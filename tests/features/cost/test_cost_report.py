"""The cost of GPUs per hour: what pods hold, what idles, and what nobody can use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.features.cost.cost_report import cost_report
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.views.placed_pods import placed_pods
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.times import time_text
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, node, pod
from tests.views.seen import state

WHOLE = "nvidia.com/gpu"
HOUR = 3600
CONFIG = Configuration()
NOW = 1_800_000_000.0
# An A100-80GB is worth 3.4, an H100-80GB 6.9, a T4 0.5.
FREE_MIG = {"enabled": True, "instances": [{"uuid": "MIG-1", "profile": "1g.10gb"}]}
MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-0", "profile": "3g.40gb", "start": 0, "size": 4, "holder": holder("p")},
        {"uuid": "MIG-4", "profile": "1g.10gb", "start": 4, "size": 1},
    ],
}
FAILED = {"nvidia.com/mig.config.state": "failed"}
SHARE_NODE = {"gpu.scheduler-ext.io/sharing": "memory"}


def in_namespace(namespace: str, each: Json) -> Json:
    each["metadata"]["namespace"] = namespace
    return each


def since_long(each: Json) -> Json:
    """The pod, which has run for a day."""
    each["status"]["startTime"] = time_text(NOW - 24 * HOUR)
    return each


def report(*objects: Json, freshness: str = "Fresh", workload: Workload | None = None) -> dict[str, Any]:
    there = state(*objects)
    infos = {name: replace(info, freshness=freshness) for name, info in there.infos.items()}
    there = replace(there, infos=infos, workload=workload or there.workload)
    return cost_report(there.snapshot(CONFIG.sizing()), there.readings, there.facts, CONFIG, NOW)


def unsplit(entry: dict[str, Any]) -> dict[str, Any]:
    """With free and stranded value as one, because the division between them is a forecast."""
    return entry | {"free": entry["free"] + entry["stranded"], "stranded": 0.0}


def amounts(entry: dict[str, Any]) -> dict[str, float]:
    """The values above 0, in cents."""
    values = {key: value for key, value in entry.items() if key != "gpus" and isinstance(value, float)}
    return {key: round(value, 2) for key, value in values.items() if value}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [gpu_node("n", [gpu(0, health={"state": "Unhealthy"}), gpu(1)])],
            {"free": 3.4, "unavailable": 3.4, "total": 6.8},
            id="a sick GPU is unavailable",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0, model="GB10", total=0)])],
            {"free": 1.5, "total": 1.5},
            id="a GPU of unknown memory that no pod holds is free",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0, mig={"enabled": True})], migStrategy="single")],
            {"unavailable": 3.4, "total": 3.4},
            id="a GPU in MIG mode without instances is unavailable",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0, mig=FREE_MIG), gpu(1)], migStrategy="single")],
            {"unavailable": 6.8, "total": 6.8},
            id="so are all of a layout that strategy single does not hand out",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, labels=FAILED)],
            {"unavailable": 3.4, "total": 3.4},
            id="and those of a node whose MIG layout could not be changed",
        ),
        pytest.param(
            [node("n", {WHOLE: "1"}, labels={"nvidia.com/gpu.product": "A100-80GB", **FAILED})],
            {"unavailable": 3.4, "total": 3.4},
            id="also of one that is known by its labels",
        ),
        pytest.param(
            [gpu_node("n", [gpu(i) for i in range(8)]), node("n", {WHOLE: "6"})],
            {"free": 20.4, "unavailable": 6.8, "total": 27.2},
            id="GPUs that are not offered are unavailable",
        ),
        pytest.param(
            [
                gpu_node("n", [gpu(0, mig=MIG)], migStrategy="mixed"),
                node("n", {"nvidia.com/mig-3g.40gb": "1"}),
            ],
            {"allocated": 2.72, "unmeasured": 2.72, "unavailable": 0.68, "total": 3.4},
            id="and so are such instances",
        ),
        pytest.param(
            [
                gpu_node(
                    "n", [gpu(0, memory={"totalMiB": 81920, "usedMiB": 36864, "unaccountedMiB": 36864})]
                ),
                node("n", {SHARE: "73728"}, labels=SHARE_NODE),
            ],
            {"free": 1.7, "unavailable": 1.7, "total": 3.4},
            id="memory that no known pod uses is unavailable to shares",
        ),
        pytest.param(
            [
                gpu_node(
                    "n",
                    [gpu(0), gpu(1, mig=FREE_MIG)],
                    migStrategy="mixed",
                    sharing={"strategy": "time-slicing", "replicas": 4},
                ),
                node(
                    "n",
                    {WHOLE: "1", "nvidia.com/mig-1g.10gb": "4"},
                    labels={"nvidia.com/gpu.replicas": "1", "nvidia.com/mig-1g.10gb.replicas": "4"},
                ),
                pod("p", {WHOLE: "1"}, on="n"),
            ],
            {"allocated": 3.4, "unmeasured": 3.4, "free": 3.4, "total": 6.8},
            id="whole GPUs are not shared where only MIG instances are",
        ),
        pytest.param(
            [
                gpu_node("n", [gpu(0), gpu(1)]),
                node("n", {SHARE: "147456", WHOLE: "2"}, labels=SHARE_NODE),
                pod("p", {WHOLE: "1"}, on="n"),
            ],
            {"allocated": 3.4, "unmeasured": 3.4, "free": 3.4, "total": 6.8},
            id="beside a GPU that is held, whichever it is, the other is free for shares",
        ),
        pytest.param(
            [
                node(
                    "n",
                    {WHOLE: "4"},
                    labels={
                        "cloud.google.com/gke-accelerator": "nvidia-a100-80gb",
                        "cloud.google.com/gke-gpu-partition-size": "3g.40gb",
                    },
                )
            ],
            {"free": 6.8, "total": 6.8},
            id="of MIG instances that labels offer as GPUs, as many as fit on a GPU cost as much as it",
        ),
    ],
)
def test_the_total(objects: list[Json], expected: dict[str, float]) -> None:
    assert amounts(unsplit(report(*objects)["total"])) == expected


def test_mig_instances_that_labels_offer_as_gpus_count_as_parts_of_one() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.count": "14"}
    objects = node("n", {WHOLE: "14"}, labels=labels), pod("p", {WHOLE: "7"}, on="n")
    there = state(*objects)
    (listed,) = inventory_list(there.infos.values(), CONFIG)["items"]
    (placed,) = placed_pods(there.snapshot(CONFIG.sizing()).nodes["n"])
    total = report(*objects)["total"]
    assert (total["gpus"], listed["gpus"], placed.gpus, total["allocated"]) == (2.0, 2.0, 1.0, 3.4)


def test_each_namespace_pays_for_its_pods() -> None:
    devices = [
        gpu(0, holders=[holder("a", "research")], idleSeconds=HOUR),
        gpu(1, holders=[holder("b", "serving")], idleSeconds=0),
        gpu(2, model="T4", total=15360, holders=[holder("c", "serving")], idleSeconds=HOUR),
    ]
    pods = [
        since_long(in_namespace(namespace, pod(name, {WHOLE: "1"}, on="n")))
        for name, namespace in (("a", "research"), ("b", "serving"), ("c", "serving"))
    ]
    found = report(gpu_node("n", devices), *pods)["namespaces"]
    assert [(each["namespace"], amounts(each)) for each in found] == [
        ("serving", {"allocated": 3.9, "idle": 0.5}),
        ("research", {"allocated": 3.4, "idle": 3.4}),
    ]
    assert [(each["model"], amounts(each)) for each in found[0]["models"]] == [
        ("A100-80GB", {"allocated": 3.4}),
        ("T4", {"allocated": 0.5, "idle": 0.5}),
    ]


def test_two_shares_of_one_gpu_pay_in_proportion_and_idle_by_their_own_processes() -> None:
    holders = [
        {"uid": "uid-a", "memoryMiB": 100, "idleSeconds": HOUR},
        {"uid": "uid-b", "memoryMiB": 100, "idleSeconds": 5},
    ]
    where = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}
    found = report(
        gpu_node("n", [gpu(0, holders=holders, idleSeconds=5)]),
        node("n", {SHARE: "73728"}, labels=SHARE_NODE),
        since_long(in_namespace("small", pod("a", {SHARE: "18432"}, on="n", annotations=where))),
        since_long(in_namespace("large", pod("b", {SHARE: "36864"}, on="n", annotations=where))),
    )
    assert [(each["namespace"], amounts(each)) for each in found["namespaces"]] == [
        ("large", {"allocated": 1.7}),
        ("small", {"allocated": 0.85, "idle": 0.85}),
    ]


@pytest.mark.parametrize(
    ("idle_s", "key"),
    [
        pytest.param(HOUR, "idle", id="an idle GPU has idle instances"),
        pytest.param(5, "unmeasured", id="of a busy GPU, it is unknown which instance is"),
    ],
)
def test_an_idle_mig_instance(idle_s: int, key: str) -> None:
    total = report(gpu_node("n", [gpu(0, mig=MIG, idleSeconds=idle_s)], migStrategy="mixed"))["total"]
    assert amounts(unsplit(total)) == {"allocated": 2.72, key: 2.72, "free": 0.68, "total": 3.4}


def test_a_holder_that_is_no_known_pod_has_the_namespace_that_the_agent_saw() -> None:
    found = report(
        gpu_node("n", [gpu(0, holders=[holder("p", "elsewhere")]), gpu(1, holders=[{"uid": "u"}])])
    )
    assert [(each["namespace"], amounts(each)["allocated"]) for each in found["namespaces"]] == [
        ("_unknown", 3.4),
        ("elsewhere", 3.4),
    ]


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        pytest.param(1, {"free": 3.4}, id="pods of one GPU can use what is left"),
        pytest.param(8, {"stranded": 3.4}, id="pods of eight GPUs cannot use one"),
    ],
)
def test_gpus_that_no_expected_pod_can_use_are_stranded(gpus: int, expected: dict[str, float]) -> None:
    objects = gpu_node("n", [gpu(0), gpu(1, holders=[holder("p")])]), pod("p", {WHOLE: "1"}, on="n")
    expecting = Workload.of({TaskClass(0, gpus, (), (), ()): 1000}, 0.0)
    total = report(*objects, workload=expecting)["total"]
    assert amounts({key: total[key] for key in ("free", "stranded")}) == expected


def test_a_node_that_no_agent_reports_any_more_is_left_out_by_name() -> None:
    found = report(gpu_node("n", [gpu(0)]), freshness="Missing")
    assert (found["total"]["total"], found["nodesLeftOut"]) == (0.0, ["n"])


def test_idle_times_of_an_old_report_do_not_count() -> None:
    objects = gpu_node("n", [gpu(0, holders=[holder("p")], idleSeconds=HOUR)]), pod("p", {WHOLE: "1"}, on="n")
    found = report(*objects, freshness="Stale")
    assert amounts(found["namespaces"][0]) == {"allocated": 3.4, "unmeasured": 3.4}
