"""capacity: copies per node, the limit of each, and the refusal of the next copy."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.errors import InventoryError, PodError
from scheduler_ext.core.intree import NO_NODES
from tests.explain.explaining import mig
from tests.extender.foreseeing import ONE_G, WHOLE, asks, counted, counts
from tests.extender.preempting import share_node, whole_node
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, node, pod

GPUS = "Insufficient nvidia.com/gpu per device"


@pytest.mark.parametrize(
    ("asking", "objects", "count", "limit"),
    [
        pytest.param(
            asks("p", {SHARE: "1", "cpu": "10"}),
            [*share_node("n", 1), pod("x", {"cpu": "30"}, on="n")],
            3,
            "Insufficient cpu",
            id="as long as CPU lasts",
        ),
        pytest.param(
            asks("p", {SHARE: "1"}),
            share_node("n", 1),
            110,
            "Too many pods",
            id="as many as pods may be there",
        ),
    ],
)
def test_a_node_takes(asking: Json, objects: list[Json], count: int, limit: str) -> None:
    answer = counted(asking, *objects)
    (there,) = answer["nodes"]
    assert (there["node"], there["count"], there["limit"]) == ("n", count, limit)
    assert (answer["total"], answer["next"]["reason"]) == (count, limit)


FOUR_SLICES = {"strategy": "time-slicing", "replicas": 4}


@pytest.mark.parametrize(
    ("asking", "objects", "pods", "gpus"),
    [
        pytest.param(
            asks("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0), gpu(1)], sharing=FOUR_SLICES), node("n", {WHOLE: "8"})],
            8,
            2,
            id="eight time slices are two GPUs",
        ),
        pytest.param(
            asks("p", {WHOLE: "3"}, annotations={"sharing": "any"}),
            [gpu_node("n", [gpu(0), gpu(1)], sharing=FOUR_SLICES), node("n", {WHOLE: "8"})],
            2,
            2,
            id="however many a pod takes",
        ),
        pytest.param(
            asks("p", {WHOLE: "1"}),
            [
                gpu_node("n", [gpu(0), gpu(1, health={"state": "Unhealthy"})], sharing=FOUR_SLICES),
                node("n", {WHOLE: "4"}),
            ],
            4,
            1,
            id="none of which is on a sick one",
        ),
        pytest.param(
            asks("p", {WHOLE: "1"}),
            [
                node(
                    "n",
                    {WHOLE: "8"},
                    labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "8"},
                )
            ],
            8,
            8,
            id="so are those of a node known by its labels",
        ),
        pytest.param(
            asks("p", {ONE_G: "2"}),
            [
                gpu_node("n", [gpu(0, mig=mig(*(("1g.10gb", start, 1) for start in range(5))))]),
                node("n", {ONE_G: "5"}),
            ],
            2,
            1,
            id="and the one of several instances",
        ),
    ],
)
def test_physical_gpus_are_counted(asking: Json, objects: list[Json], pods: int, gpus: int) -> None:
    answer = counted(asking, *objects)
    assert (answer["total"], answer["gpus"], answer["nodes"][0]["gpus"]) == (pods, gpus, gpus)


def test_equal_nodes_have_equal_counts_with_gpus_of_their_own() -> None:
    objects = [each for name in "abc" for each in share_node(name, 2)]
    answer = counted(asks("p", {SHARE: "30000"}), *objects)
    assert counts(answer) == {"a": 4, "b": 4, "c": 4}
    assert answer["next"]["nearestMiss"]["device"] == "GPU-a-0"


def test_nodes_that_look_alike_now_may_take_different_numbers() -> None:
    # Promises explain part of the used memory; the unexplained rest is no promise.
    used = {"totalMiB": 81920, "usedMiB": 40000}
    objects = [
        gpu_node("a", [gpu(0, "GPU-a", memory=used)]),
        gpu_node("b", [gpu(0, "GPU-b", memory=used | {"unaccountedMiB": 40000})]),
    ]
    assert counts(counted(asks("p", {SHARE: "20000"}), *objects)) == {"a": 3, "b": 1}


def test_where_nothing_known_limits_a_node_there_is_no_count() -> None:
    answer = counted(asks("p", {}), gpu_node("bare", [gpu(0)]), node("n", {"pods": "2"}))
    assert answer["nodes"] == [
        {"node": "bare", "count": None, "gpus": 0, "limit": None},
        {"node": "n", "count": 2, "gpus": 0, "limit": "Too many pods"},
    ]
    assert answer["total"] is None


TAINTS = [{"key": "dedicated", "effect": "NoSchedule"}]
FULL_B = whole_node("b", "x", "y")


def free_node(name: str, gpus: int, **spec: Any) -> list[Json]:
    return [gpu_node(name, [gpu(i) for i in range(gpus)]), node(name, {WHOLE: str(gpus)}, **spec)]


@pytest.mark.parametrize(
    ("objects", "where"),
    [
        pytest.param([*whole_node("a", "x", "y", None), *FULL_B], "a", id="the smallest part missing"),
        pytest.param(
            [*whole_node("a", None), *FULL_B, gpu_node("c", [gpu(0)])],
            "b",
            id="a node that is full before nodes that never have as many",
        ),
        pytest.param(
            [gpu_node("a", []), node("a", {}), *free_node("b", 2, taints=TAINTS)],
            "b",
            id="a taint before a node without GPUs",
        ),
        pytest.param(
            [
                *free_node("a", 2, unschedulable=True, taints=TAINTS),
                *free_node("b", 2, unschedulable=True),
            ],
            "b",
            id="one mismatch before two of kube-scheduler's",
        ),
        pytest.param([*free_node("a", 4, taints=TAINTS), *FULL_B], "b", id="an amount before a mismatch"),
        pytest.param(
            [*free_node("a", 3, taints=TAINTS), gpu_node("b", [gpu(0, model="T4")])],
            "a",
            id="a taint alone before another model",
        ),
    ],
)
def test_the_nearest_refusal_of_the_next_copy_is_shown(objects: list[Json], where: str) -> None:
    asking = asks("p", {WHOLE: "2"}, annotations={"model": "A100-80GB"})
    assert counted(asking, *objects)["next"]["node"] == where


def test_the_most_frequent_reason_of_equal_misses_is_shown() -> None:
    objects = [*whole_node("a", None), *whole_node("b", "x"), *whole_node("c", "y")]
    objects.append(pod("z", {"cpu": "64"}, on="a"))
    told = counted(asks("p", {WHOLE: "1", "cpu": "64"}), *objects)["next"]
    assert (told["node"], told["reason"]) == ("b", GPUS)


def test_a_node_known_only_by_name_is_refused_by_its_name() -> None:
    asking = asks("p", {WHOLE: "1"}, nodeName="b")
    answer = counted(asking, gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(0), gpu(1)]))
    told = [(entry["node"], entry["count"], entry["limit"]) for entry in answer["nodes"]]
    assert told == [("b", 2, GPUS), ("a", 0, "node(s) didn't match the requested node name")]
    (warning,) = answer["warnings"]
    assert warning.startswith("no Node object of a and 1 more: selectors, ")


def test_a_pod_that_cannot_be_read_fits_nowhere() -> None:
    answer = counted(asks("p", {SHARE: "8Gi"}), *share_node("n", 1))
    assert "absurd" in answer["invalid"]
    assert (answer["total"], answer["nodes"]) == (
        0,
        [{"node": "n", "count": 0, "gpus": 0, "limit": "pod's GPU request is invalid"}],
    )


def test_without_nodes_nothing_fits_and_kube_scheduler_says_so() -> None:
    answer = counted(asks("p", {WHOLE: "1"}), pod("elsewhere"))
    assert (answer["total"], answer["nodes"]) == (0, [])
    assert answer["next"] == {"node": None, "reason": NO_NODES, "nearestMiss": None}


def test_unmodelled_and_ineffective_fields_are_named() -> None:
    asking = asks("p", {WHOLE: "1"}, schedulingGates=[{"name": "g"}])
    asking["metadata"]["annotations"] = {ANNOTATION + "modle": "T4"}
    answer = counted(asking, *whole_node("n", None))
    assert answer["notModelled"] == ["scheduling gate g: the component that set it has to remove it"]
    assert answer["warnings"] == [
        "annotation gpu.scheduler-ext.io/modle: unknown, does nothing; did you mean "
        "gpu.scheduler-ext.io/model?"
    ]


def test_gpus_that_a_device_plugin_does_not_offer_are_named() -> None:
    bare = node("bare", labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"})
    answer = counted(asks("p", {WHOLE: "1"}), *whole_node("n", None), bare)
    assert answer["total"] == 1
    assert answer["warnings"] == [
        "have an operator see to bare: it has 4 × T4 by its labels, but none in its allocatable: no device "
        "plugin has registered there"
    ]


@pytest.mark.parametrize(
    ("limits", "room", "error", "named"),
    [
        pytest.param({"cpu": "lots"}, {}, PodError, "Pod default/p: cpu: quantity", id="of the pod"),
        pytest.param({}, {"cpu": "lots"}, InventoryError, "Node n or a pod on it: cpu", id="of a node"),
    ],
)
def test_an_amount_that_cannot_be_read_is_an_error(limits: Json, room: Json, error: Any, named: str) -> None:
    with pytest.raises(error, match=f"^{named}"):
        counted(asks("p", limits), node("n", room))


@pytest.mark.parametrize("room", ["1e30", "0", "-5"])
def test_absurd_limits_of_a_node_end_soon(room: str) -> None:
    (count,) = counts(counted(asks("p", {"cpu": "1"}), node("n", {"pods": room}))).values()
    assert count == (64 if room == "1e30" else 0)
