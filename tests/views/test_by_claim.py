"""All views say which GPUs ResourceClaims hold, and for which pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.explain.waiting import pod_list
from scheduler_ext.views.ledger_dump import node_ledger
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.views.node_usage import node_usage, pod_usage
from scheduler_ext.views.node_value import node_value
from scheduler_ext.wire.config import Configuration
from tests.core.reported import NAMES
from tests.dra_objects import WHOLE, device_class, gpu_device, request, resource_claim, resource_slice
from tests.kube_objects import GFD_H100, Json, gpu, gpu_node, holder, node, pod
from tests.views.seen import info_of

CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
SLICE = resource_slice("n", [gpu_device(0), gpu_device(1), gpu_device(2)])
REPORT = gpu_node(
    "n", [gpu(i, f"GPU-{i}", holders=[holder("train", uid="uid-train")] if i == 0 else []) for i in range(3)]
)
TRAIN = resource_claim("weights", on="n", devices=["gpu-0"], pod="train")
SPARE = resource_claim("spare", on="n", devices=["gpu-1"])


def reserved_for_none(claim: Json) -> Json:
    return claim | {"status": claim["status"] | {"reservedFor": []}}


def extended(claim: Json) -> Json:
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return claim | {"metadata": claim["metadata"] | {"annotations": annotations}}


NODE = (node("n", {}), device_class(), SLICE)
CLAIM_ONLY = info_of(*NODE, REPORT, TRAIN, reserved_for_none(SPARE))
BY_RESOURCE = info_of(*NODE, REPORT, extended(TRAIN), pod("train", {WHOLE: "1"}, on="n"))
ALL = pytest.mark.parametrize("info", [CLAIM_ONLY, BY_RESOURCE], ids=["claim-only pod", "nvidia.com/gpu"])


def holdings(info: NodeInfo) -> dict[str, list[dict[str, Any]]]:
    devices = node_ledger(info, NAMES)["devices"]
    return {uuid: gpu["holdings"] for uuid, gpu in devices.items() if gpu["holdings"]}


@ALL
def test_the_ledger_names_the_claim_once(info: NodeInfo) -> None:
    (entry,) = holdings(info)["GPU-0"]
    assert entry == {
        "uid": "uid-train",
        "namespace": "default",
        "name": "train",
        "container": None,
        "memoryMiB": 81920,
        "profile": None,
        "start": None,
        "state": "Confirmed",
        "by": "claim",
        "claim": "weights",
    }


def test_a_claim_without_a_pod_holds_its_gpu() -> None:
    (entry,) = holdings(CLAIM_ONLY)["GPU-1"]
    assert (entry["uid"], entry["name"], entry["claim"]) == (None, None, "spare")


@ALL
def test_pods_of_claims_are_listed(info: NodeInfo) -> None:
    (item,) = pod_list([info], [])["items"]
    assert (item["name"], item["node"], item["state"]) == ("train", "n", "Bound")
    assert item["devices"] == [{"container": None, "uuid": "GPU-0", "by": "claim"}]
    assert item["priority"] == (None if info is CLAIM_ONLY else 0)
    assert item["asks"] == ("1 × gpu.nvidia.com by claim" if info is CLAIM_ONLY else "1 × nvidia.com/gpu")


def test_gpus_of_claims_count_for_their_namespace() -> None:
    usage = pod_usage(CLAIM_ONLY)
    assert usage is not None
    assert usage.units == {("default", CLASS): 2}
    assert usage.states["Confirmed"] == 1
    usage = pod_usage(BY_RESOURCE)
    assert usage is not None
    assert (usage.units, usage.states["Confirmed"]) == ({("default", WHOLE): 1}, 1)


def test_a_class_asked_with_admin_access_names_no_held_gpu() -> None:
    requests = [request(device_class="a-monitor", adminAccess=True), request()]
    held = resource_claim("spare", *requests, on="n", devices=["gpu-1"])
    usage = pod_usage(info_of(*NODE, device_class("a-monitor", extended=None), held))
    assert usage is not None
    assert usage.units == {("default", CLASS): 1}


def test_claimed_gpus_are_counted() -> None:
    (amounts,) = node_usage(resolve(CLAIM_ONLY, NAMES, 0), NAMES, 0).by_model.values()
    assert (amounts.gpus, amounts.allocated, amounts.claimed) == (3, 2, 2)


LABELLED = node("n", {}, labels=GFD_H100 | {"nvidia.com/gpu.memory": "81000"})


@pytest.mark.parametrize("there", [NODE[0], LABELLED], ids=["no label", "labels that cap the memory"])
def test_without_a_report_the_slices_name_the_gpus(there: Json) -> None:
    """Nobody measures the use of their memory: it is unknown, and not 0."""
    info = info_of(there, *NODE[1:], TRAIN)
    assert [entry["name"] for entry in holdings(info)["GPU-0"]] == ["train"]
    (amounts,) = node_usage(resolve(info, NAMES, 0), NAMES, 0).by_model.values()
    assert (amounts.allocated, amounts.unopened, amounts.measured_mib) == (1, 0, 0)
    (item,) = inventory_list([info], Configuration())["items"]
    assert [(each["memory"]["usedMiB"], each["memory"]["freeMiB"]) for each in item["devices"]] == [
        (None, None)
    ] * 3


def test_shared_devices_have_what_claims_left_of_them() -> None:
    shared = [gpu_device(0, allowMultipleAllocations=True)]
    (item,) = inventory_list(
        [info_of(node("n", {}), device_class(), resource_slice("n", shared))], Configuration()
    )["items"]
    memory = item["devices"][0]["memory"]
    assert (memory["usedMiB"], memory["freeMiB"]) == (None, 81559)


def shareable(**capacity: str) -> Json:
    """A GPU that claims share, as HAMi's driver publishes it."""
    return gpu_device(0, allowMultipleAllocations=True) | {
        "capacity": {name: {"value": value} for name, value in capacity.items()}
    }


def sharing(**consumed: str) -> Json:
    claim = resource_claim("part", on="n", devices=["gpu-0"], pod="train")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result["consumedCapacity"] = consumed
    return claim


@pytest.mark.parametrize(
    ("device", "consumed", "shares"),
    [
        pytest.param(
            shareable(memory="80Gi", cores="100"),
            {"memory": "20Gi", "cores": "50"},
            {"held": 0.25, "unheld": 0.75, "unavailable": 0.0},
            id="the rest of a GPU that claims share is free",
        ),
        pytest.param(
            shareable(memory="80Gi", cores="100"),
            {"memory": "20Gi", "cores": "100"},
            {"held": 0.25, "unheld": 0.0, "unavailable": 0.75},
            id="not if another capacity of it is used up",
        ),
    ],
)
def test_the_value_of_shared_gpus(
    device: Json, consumed: Mapping[str, str], shares: Mapping[str, float]
) -> None:
    info = info_of(node("n", {}), device_class(), resource_slice("n", [device]), sharing(**consumed))
    value = node_value(resolve(info, NAMES, 0), Configuration().sizing(), 1.0)
    sums = {
        "held": sum(each.value for each in value.held),
        "unheld": sum(value.unheld.values()),
        "unavailable": sum(value.unavailable.values()),
    }
    whole = sum(sums.values())
    assert {name: amount / whole for name, amount in sums.items()} == pytest.approx(dict(shares))


def test_the_memory_of_a_partition_that_a_claim_created_is_requested() -> None:
    partition = gpu_device(1) | {"capacity": {"memory": {"value": "20Gi"}}, "consumesCounters": []}
    partition["attributes"] |= {
        "type": {"string": "mig"},
        "parentUUID": {"string": "GPU-0"},
        "profile": {"string": "2g.20gb"},
    }
    del partition["attributes"]["uuid"]
    whole = gpu_device(0) | {"capacity": {"memory": {"value": "80Gi"}}}
    claim = resource_claim("part", on="n", devices=["gpu-1"], pod="train")
    info = info_of(node("n", {}), device_class(), resource_slice("n", [whole, partition]), claim)
    (amounts,) = node_usage(resolve(info, NAMES, 0), NAMES, 0).by_model.values()
    assert (amounts.allocated, amounts.free) == (1, 0)
    assert (amounts.requested_mib, amounts.free_mib) == (20480, 61440)
