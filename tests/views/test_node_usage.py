"""The totals of one node's GPUs: counts and memory that may be summed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.state import resolve
from scheduler_ext.views.node_usage import Amounts, Instances, NodeUsage, node_usage, pod_usage, total
from tests.core.reported import NAMES
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, node, pod
from tests.views.seen import info_of

WHOLE = "nvidia.com/gpu"
SHARING = {"gpu.scheduler-ext.io/sharing": "memory"}
PRODUCT = "NVIDIA A100-SXM4-80GB"


def usage_of(*objects: Json, headroom_percent: int = 0) -> NodeUsage:
    """The usage of the single node of these objects."""
    return node_usage(resolve(info_of(*objects), NAMES, headroom_percent), NAMES, headroom_percent)


def device(index: int = 0, used: int = 0, unaccounted: int | None = None, **more: Any) -> Json:
    memory: Json = {"totalMiB": 1000, "reservedMiB": 100, "usedMiB": used}
    if unaccounted is not None:
        memory["unaccountedMiB"] = unaccounted
    return gpu(index, product=PRODUCT, **more) | {"memory": memory}


def one(*devices: Json, pods: tuple[Json, ...] = (), **status: Any) -> Amounts:
    """All GPUs of a node together."""
    offered = len(devices) * status.get("sharing", {}).get("replicas", 1)
    (amounts,) = usage_of(
        node("n", {WHOLE: str(offered)}), gpu_node("n", devices, **status), *pods
    ).by_model.values()
    return amounts


HELD = [holder("train", uid="uid-train")]
TRAIN = pod("train", {WHOLE: "1"}, on="n")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            one(device(mig={"enabled": True}), migStrategy="mixed"),
            Amounts(gpus=1, total_mib=1000),
            id="a GPU in MIG mode without instances has nothing free",
        ),
        pytest.param(
            one(device(used=63, holders=HELD), pods=(TRAIN,)),
            Amounts(gpus=1, allocated=1, unopened=1, total_mib=1000, requested_mib=900, used_mib=63),
            id="a GPU that its pod has not opened is idle",
        ),
        pytest.param(
            one(device(used=500, unaccounted=450, holders=HELD), pods=(TRAIN,)),
            Amounts(
                gpus=1,
                allocated=1,
                unopened=1,
                total_mib=1000,
                requested_mib=900,
                used_mib=500,
                unaccounted_mib=450,
            ),
            id="what no pod explains does not make it busy",
        ),
        pytest.param(
            one(device(used=3)),
            Amounts(gpus=1, free=1, total_mib=1000, used_mib=3, free_mib=897),
            id="a GPU without a holder is not idle but free",
        ),
        pytest.param(
            one(device(health={"state": "Unhealthy", "reason": "XID 79"})),
            Amounts(gpus=1, unhealthy=1, total_mib=1000),
            id="nothing of a sick GPU is free",
        ),
        pytest.param(
            one(device(0), device(1), pods=(TRAIN,)),
            Amounts(
                gpus=2,
                allocated=1,
                free=1,
                unattributed=1,
                total_mib=2000,
                requested_mib=900,
                free_mib=900,
            ),
            id="a pod with an unreported GPU holds one of them, whole",
        ),
        pytest.param(
            one(
                device(0),
                device(1),
                pods=tuple(pod(f"p{number}", {WHOLE: "1"}, on="n") for number in range(5)),
                sharing={"strategy": "time-slicing", "replicas": 4},
            ),
            Amounts(gpus=2, allocated=2, unattributed=2, total_mib=2000, free_mib=900),
            id="five replicas are of two GPUs, and nothing is left of the one that has four",
        ),
    ],
)
def test_the_amounts_of_a_node(found: Amounts, expected: Amounts) -> None:
    # The use of GPUs with a fresh report is known.
    assert found == expected._replace(measured_mib=expected.total_mib)


def test_a_share_is_promised_and_leaves_the_headroom() -> None:
    asking = pod("p", {SHARE: "300"}, on="n", annotations={"devices.gpu.scheduler-ext.io/main": "GPU-0"})
    objects = (node("n", {SHARE: "2000"}, labels=SHARING), gpu_node("n", [device(0), device(1)]), asking)
    usage = usage_of(*objects, headroom_percent=10)
    assert [amounts.requested_mib for _, amounts in usage.devices] == [300, 0]
    assert [amounts.free_mib for _, amounts in usage.devices] == [500, 800]
    assert [amounts.allocated for _, amounts in usage.devices] == [1, 0]


def test_models_are_distinguished_by_the_names_of_the_driver() -> None:
    devices = [device(0), device(1), gpu(2, model="T4", product="Tesla T4", total=16384)]
    usage = usage_of(node("n", {WHOLE: "3"}), gpu_node("n", devices))
    assert {model: amounts.gpus for model, amounts in usage.by_model.items()} == {PRODUCT: 2, "Tesla T4": 1}


def test_gpus_known_by_labels_have_no_memory_figures() -> None:
    usage = usage_of(node("n", {WHOLE: "8"}, labels=GFD_H100), TRAIN)
    assert usage == NodeUsage(by_model={"H100-80GB": Amounts(gpus=8, allocated=1, free=7, unattributed=1)})
    shared = GFD_H100 | {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
    pods = [pod(f"p{number}", {WHOLE: "1"}, on="n") for number in range(5)]
    (amounts,) = usage_of(node("n", {WHOLE: "32"}, labels=shared), *pods).by_model.values()
    assert (amounts.allocated, amounts.unattributed) == (2, 2)


def partitioned(**more: Any) -> Json:
    instances = [
        {
            "uuid": "MIG-0",
            "profile": "3g.40gb",
            "start": 0,
            "size": 4,
            "holder": holder("train", uid="uid-train"),
        },
        {"uuid": "MIG-1", "profile": "3g.40gb", "start": 4, "size": 4},
    ]
    return gpu(0, product=PRODUCT, mig={"enabled": True, "gridSize": 8, "instances": instances}, **more)


THREE = "nvidia.com/mig-3g.40gb"


@pytest.mark.parametrize(
    ("device", "pods", "expected"),
    [
        pytest.param(
            partitioned(),
            (pod("train", {THREE: "1"}, on="n"),),
            Instances(2, 1, 8, 4),
            id="one that a pod holds is not free",
        ),
        pytest.param(
            partitioned(),
            (pod("train", {THREE: "1"}, on="n"), pod("new", {THREE: "1"}, on="n")),
            Instances(2, 0, 8, 0),
            id="nor is one that a pod holds unreported",
        ),
    ],
)
def test_instances_by_profile(device: Json, pods: tuple[Json, ...], expected: Instances) -> None:
    usage = usage_of(node("n", {THREE: "2"}), gpu_node("n", [device], migStrategy="mixed"), *pods)
    assert usage.instances == {(PRODUCT, "3g.40gb"): expected}
    assert [amounts.unopened for _, amounts in usage.devices] == [0]


@pytest.mark.parametrize(
    ("offered", "free", "instances"),
    [
        pytest.param(2, 1, 2, id="all of its instances"),
        pytest.param(1, 1, 1, id="one of them, so that the GPU takes a pod"),
        pytest.param(0, 0, 0, id="none, so that no pod can have anything of it"),
    ],
)
def test_a_gpu_in_mig_mode_is_free_where_it_is_offered(offered: int, free: int, instances: int) -> None:
    device = partitioned()
    del device["mig"]["instances"][0]["holder"]
    usage = usage_of(node("n", {THREE: str(offered)}), gpu_node("n", [device], migStrategy="mixed"))
    assert [amounts.free for _, amounts in usage.devices] == [free]
    assert usage.instances[PRODUCT, "3g.40gb"].free == instances


@given(st.lists(st.builds(Amounts, *[st.integers(0, 10**6)] * len(Amounts._fields))))
def test_amounts_add_up_field_by_field(amounts: list[Amounts]) -> None:
    assert total(amounts) == Amounts(
        *(sum(getattr(each, name) for each in amounts) for name in Amounts._fields)
    )


def test_pods_ask_by_namespace() -> None:
    objects = (
        node("n", {WHOLE: "8"}),
        gpu_node("n", [device(index) for index in range(8)]),
        pod("a", {WHOLE: "2"}, on="n"),
        pod("b", {WHOLE: "1"}, on="n"),
        pod("c", {SHARE: "300"}, on="n"),
        pod("done", {WHOLE: "4"}, on="n", phase="Succeeded"),
        pod("none", {}, on="n"),
    )
    usage = pod_usage(info_of(*objects))
    assert usage is not None
    assert (usage.units, usage.share_mib) == ({("default", WHOLE): 3}, {"default": 300})
    assert usage.states == {"Confirmed": 3, "Nominated": 0}
