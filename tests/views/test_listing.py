"""The inventory as a list: the contract of its JSON, and its arithmetic."""

from __future__ import annotations

import json

import pytest

from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, node, pod
from tests.views.seen import infos_of, state

SHARING = {"gpu.scheduler-ext.io/sharing": "memory"}
WHOLE = "nvidia.com/gpu"


def listed(*objects: Json) -> Json:
    there = state(*objects)
    listing = inventory_list(there.infos.values(), Configuration(), {}, readings=there.readings)
    json.dumps(listing)  # plain values only
    return listing


def device_of(*objects: Json) -> Json:
    """The one device of the one node."""
    (item,) = listed(*objects)["items"]
    (device,) = item["devices"]
    assert isinstance(device, dict)
    return device


def test_what_a_gpu_did_is_that_of_the_report() -> None:
    did: Json = {
        "utilizationPercent": 93,
        "memoryUtilizationPercent": 40,
        "powerWatts": 650,
        "temperatureCelsius": 71,
        "smClockMHz": 1980,
        # The second is one that only a newer agent knows.
        "throttleReasons": ["PowerCap", "Humidity2"],
        "idleSeconds": 0,
    }
    device = device_of(gpu_node("n", [gpu(0, **did)]))
    assert {key: device[key] for key in did} == did


def test_pods_and_instances_have_their_own_readings() -> None:
    shared = gpu(0, holders=[{"uid": "u", "memoryMiB": 90, "idleSeconds": 60, "peakMiB": 100}, holder("p")])
    (known,) = device_of(gpu_node("n", [shared]))["holders"]
    pod = {"uid": "u", "namespace": None, "name": None}
    assert known == {**pod, "instance": None, "idleSeconds": 60, "peakMiB": 100}
    busy = {"uuid": "MIG-a", "profile": "1g.10gb", "start": 0, "size": 1, "utilizationPercent": 30}
    busy |= {"idleSeconds": 0, "holder": {"uid": "u", "memoryMiB": 5, "peakMiB": 7}}
    quiet = {"uuid": "MIG-b", "profile": "1g.10gb", "start": 1, "size": 1}
    device = device_of(gpu_node("n", [gpu(0, mig={"enabled": True, "instances": [busy, quiet]})]))
    assert [(each["utilizationPercent"], each["idleSeconds"]) for each in device["mig"]["instances"]] == [
        (30, 0),
        (None, None),
    ]
    assert device["holders"] == [{**pod, "instance": "MIG-a", "idleSeconds": None, "peakMiB": 7}]


def test_a_report_that_is_refused_says_why() -> None:
    infos = infos_of(node("a", {WHOLE: "8"}, labels=GFD_H100), node("b"), node("c"))
    problems = {"a": "GPUNode a: impossible", "b": "GPUNode b: impossible"}
    items = inventory_list(infos, Configuration(), {}, problems)["items"]
    # Also where nothing is known of its GPUs.
    assert [(item["node"], item["source"], item["problem"]) for item in items] == [
        ("a", "labels", "GPUNode a: impossible"),
        ("b", "labels", "GPUNode b: impossible"),
    ]


def test_cordons_of_no_gpu_are_listed() -> None:
    found = gpu_node("n", [gpu(0), gpu(1)])
    found["metadata"]["annotations"] = {"gpu.scheduler-ext.io/cordoned": "GPU-9, GPU-0, gpu-1,"}
    (item,) = listed(found, node("n", {WHOLE: "2"}))["items"]
    assert [device["cordoned"] for device in item["devices"]] == [True, False]
    assert item["cordonsUnknown"] == ["GPU-9", "gpu-1"]
    (closed,) = item["notOffered"]
    assert closed["text"] == ("1 GPU not given to pods: GPU 0 is cordoned, and the kubelet might hand it out")


def test_nodes_by_name_and_devices_by_index() -> None:
    """Nodes without GPUs are left out, but not those whose report is missing."""
    silent: Json = {"kind": "GPUNode", "metadata": {"name": "silent"}}
    listing = listed(gpu_node("b", [gpu(2, "A"), gpu(0, "C"), gpu(1, "B")]), node("cpu"), silent)
    assert [(item["node"], item["state"]) for item in listing["items"]] == [
        ("b", "Fresh"),
        ("silent", "Missing"),
    ]
    assert [device["index"] for device in listing["items"][0]["devices"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("objects", "requested", "free"),
    [
        pytest.param(
            [
                gpu_node("n", [gpu(0, memory={"totalMiB": 81920, "usedMiB": 40000})]),
                pod("p", {SHARE: "30000"}, on="n"),
            ],
            30000,
            41920,
            id="a share that uses more than it asked",
        ),
        pytest.param(
            [gpu_node("n", [gpu(0, holders=[holder("stranger", memoryMiB=700)])])],
            0,
            81220,
            id="a stranger's memory",
        ),
    ],
)
def test_promised_and_free_memory(objects: list[Json], requested: int, free: int) -> None:
    memory = device_of(*objects)["memory"]
    assert (memory["requestedMiB"], memory["freeMiB"]) == (requested, free)


@pytest.mark.parametrize(
    ("labels", "total"),
    [
        pytest.param({}, None, id="no source has it"),
        pytest.param({"gpu.scheduler-ext.io/gpu-memory-mib": "122880"}, 122880, id="a label has the total"),
    ],
)
def test_unknown_memory_is_null(labels: dict[str, str], total: int | None) -> None:
    objects = gpu_node("n", [gpu(0, model="GB10", total=0)]), node("n", {WHOLE: "1"}, labels=labels)
    memory = device_of(*objects)["memory"]
    assert memory.pop("totalMiB") == total
    assert set(memory.values()) == {None}


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        pytest.param(None, 700, id="use by pods without holdings there, where the agent knows no more"),
        pytest.param(100, 800, id="and with what no pod uses"),
    ],
)
def test_unaccounted_memory(reported: int | None, shown: int) -> None:
    memory = {"totalMiB": 81920, "usedMiB": 5000, "unaccountedMiB": reported}
    entry = gpu(0, memory=memory, holders=[holder("stranger", memoryMiB=700)])
    assert device_of(gpu_node("n", [entry]))["memory"]["unaccountedMiB"] == shown


def test_instances_by_start_with_who_is_free() -> None:
    instances = [
        {"uuid": "MIG-4", "profile": "3g.40gb", "start": 4, "size": 4},
        {"uuid": "MIG-0", "profile": "1G.10GB", "start": 0, "size": 1, "holder": holder("p")},
    ]
    device = device_of(
        gpu_node("n", [gpu(0, mig={"enabled": True, "instances": instances})]),
        pod("p", {"nvidia.com/mig-1g.10gb": "1"}, on="n"),
    )
    assert [(each["profile"], each["free"]) for each in device["mig"]["instances"]] == [
        ("1g.10gb", False),
        ("3g.40gb", True),
    ]
    assert (device["memory"]["requestedMiB"], device["memory"]["freeMiB"]) == (9728, 81920 - 9728)


FOUR_OF_EIGHT = (gpu_node("n", [gpu(index) for index in range(8)]), pod("p", {WHOLE: "4"}, on="n"))


def test_gpus_held_on_devices_that_are_not_known_are_not_free() -> None:
    (item,) = listed(*FOUR_OF_EIGHT)["items"]
    assert item["unknownDeviceGpus"] == 4
    text = "at least 4 GPUs held, devices unknown"
    assert item["unattributed"] == [{"resource": WHOLE, "count": 4, "text": text}]
    memory = [each["memory"] for each in item["devices"]]
    assert (
        sum(each["freeMiB"] for each in memory) == sum(each["requestedMiB"] for each in memory) == 4 * 81920
    )
    assert {(each["requestedAtLeastMiB"], each["freeAtMostMiB"]) for each in memory} == {(0, 81920)}
    assert all(each["mayBeHeld"] for each in item["devices"])


def test_gpus_that_are_not_offered_are_not_free() -> None:
    (item,) = listed(node("n", {WHOLE: "6"}), FOUR_OF_EIGHT[0])["items"]
    text = "2 GPUs not offered: allocatable has 6 nvidia.com/gpu"
    assert item["notOffered"] == [{"resource": WHOLE, "count": 2, "text": text}]
    memory = [each["memory"] for each in item["devices"]]
    assert sum(each["freeMiB"] for each in memory) == 6 * 81920
    assert {(each["requestedMiB"], each["freeAtMostMiB"]) for each in memory} == {(0, 81920)}
    assert {(each["offered"], each["mayBeHeld"]) for each in item["devices"]} == {(None, False)}


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param(
            (node("n", {WHOLE: "6"}), *FOUR_OF_EIGHT),
            "2 GPUs not offered: allocatable has 6 nvidia.com/gpu, of which pods request 4",
            id="beside those that pods request",
        ),
        pytest.param(
            (node("n", {WHOLE: "0"}, labels=GFD_H100),),
            "8 GPUs not offered: allocatable has 0 nvidia.com/gpu",
            id="of a node known by labels",
        ),
        pytest.param(
            (
                node("n", {WHOLE: "5"}),
                gpu_node("n", [gpu(0), gpu(1)], sharing={"strategy": "time-slicing", "replicas": 4}),
            ),
            "3 replicas not offered: allocatable has 5 nvidia.com/gpu",
            id="replicas",
        ),
        pytest.param(
            (node("n"), gpu_node("n", [gpu(0)], migStrategy="single")),
            "1 GPU not offered: allocatable has 0 nvidia.com/gpu",
            id="a GPU without MIG under strategy single",
        ),
    ],
)
def test_what_is_not_offered_in_words(objects: tuple[Json, ...], text: str) -> None:
    (item,) = listed(*objects)["items"]
    assert [each["text"] for each in item["notOffered"]] == [text]
    wanted = False if "has 0" in text else None
    assert {device["offered"] for device in item["devices"]} == {wanted}


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        pytest.param(
            (gpu_node("n", [gpu(0, mig={"enabled": True})], migStrategy="single"),),
            "GPU 0 is in MIG mode without instances",
            id="by its report",
        ),
        pytest.param(
            (node("n", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID"}),),
            "its labels call its MIG layout invalid: no instances, or unlike ones",
            id="by its labels",
        ),
        pytest.param((gpu_node("n", [gpu(0)]),), None, id="none"),
    ],
)
def test_the_problem_of_a_mig_layout(objects: tuple[Json, ...], problem: str | None) -> None:
    (item,) = listed(*objects)["items"]
    assert item["layoutProblem"] == problem


@pytest.mark.parametrize(
    ("labels", "change"),
    [
        pytest.param(
            {"nvidia.com/mig.config.state": "failed"},
            "a change of its GPUs failed (nvidia.com/mig.config.state=failed): it takes no pod with GPUs",
            id="failed",
        ),
        pytest.param(
            {"nvidia.com/mig.config.state": "pending"},
            "its MIG layout or its driver is being changed: it takes no pod with GPUs meanwhile",
            id="in progress",
        ),
        pytest.param({"nvidia.com/mig.config.state": "success"}, None, id="done"),
    ],
)
def test_a_change_of_gpus(labels: dict[str, str], change: str | None) -> None:
    (item,) = listed(gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, labels=labels))["items"]
    assert item["change"] == change
    assert item["devices"][0]["memory"]["freeMiB"] == (0 if change else 81920)


def test_instances_beyond_allocatable_are_not_free() -> None:
    instances = [{"uuid": f"MIG-{at}", "profile": "1g.10gb", "start": at, "size": 1} for at in range(2)]
    device = gpu(0, mig={"enabled": True, "instances": instances})
    objects = node("n", {"nvidia.com/mig-1g.10gb": "1"}), gpu_node("n", [device], migStrategy="mixed")
    (item,) = listed(*objects)["items"]
    assert item["migFree"] == {"1g.10gb": 1}
    (found,) = item["devices"]
    assert [each["offered"] for each in found["mig"]["instances"]] == [None, None]
    assert found["memory"]["freeAtMostMiB"] - found["memory"]["freeMiB"] == 9728
    assert found["memory"]["requestedMiB"] == 0


def test_an_instance_that_may_be_held_says_so() -> None:
    instances = [{"uuid": f"MIG-{at}", "profile": "1g.10gb", "start": at, "size": 1} for at in range(2)]
    device = gpu(0, mig={"enabled": True, "instances": instances})
    asking = pod("p", {"nvidia.com/mig-1g.10gb": "1"}, on="n")
    (item,) = listed(gpu_node("n", [device], migStrategy="mixed"), asking)["items"]
    found = item["devices"][0]
    assert [(each["free"], each["mayBeHeld"]) for each in found["mig"]["instances"]] == [(True, True)] * 2
    assert (found["mayBeHeld"], item["migFree"]) == (True, {"1g.10gb": 1})
    assert found["memory"]["freeAtMostMiB"] - found["memory"]["freeMiB"] == 9728


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param((gpu_node("n", [gpu(0)]), pod("p", {WHOLE: "1"}, on="n")), "1 GPU held", id="one GPU"),
        pytest.param(
            (node("n", {WHOLE: "8"}, labels=GFD_H100), pod("p", {WHOLE: "3"}, on="n")),
            "3 GPUs held",
            id="of a node known by labels",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0)], sharing={"strategy": "time-slicing", "replicas": 4}),
                pod("p", {WHOLE: "1"}, on="n"),
            ),
            "1 replica held",
            id="a replica",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0, mig={"enabled": True})], migStrategy="mixed"),
                pod("p", {"nvidia.com/mig-1g.10gb": "2"}, on="n"),
            ),
            "2 × 1g.10gb held",
            id="instances of a profile, also where none is reported",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0, mig={"enabled": True})], migStrategy="single"),
                pod("p", {WHOLE: "2"}, on="n"),
            ),
            "2 MIG instances held",
            id="instances that are asked as GPUs",
        ),
    ],
)
def test_holdings_are_described_in_words(objects: tuple[Json, ...], text: str) -> None:
    (item,) = listed(*objects)["items"]
    assert [each["text"] for each in item["unattributed"]] == [f"at least {text}, devices unknown"]


def shares_said(*objects: Json) -> list[Json]:
    (item,) = listed(node("n", {SHARE: "140000"}, labels=SHARING), *objects)["items"]
    return list(item["unattributed"])


def test_shares_on_gpus_that_are_not_known_are_said_in_words() -> None:
    report = gpu_node("n", [gpu(0, "GPU-a"), gpu(1, "GPU-b")])
    p, q = pod("p", {SHARE: "20000"}, on="n"), pod("q", {SHARE: "50000"}, on="n")
    text = "2 memory shares of 70,000 MiB held, GPU unknown: counted on every GPU"
    assert shares_said(report, p, q) == [{"resource": SHARE, "count": 2, "text": f"at least {text}"}]
    held = gpu(0, "GPU-a", holders=[holder("p", memoryMiB=100)])
    assert shares_said(gpu_node("n", [held, gpu(1, "GPU-b")]), p) == [], "the agent sees it"
    assert shares_said(gpu_node("n", [gpu(0)]), p) == [], "there is one GPU only"
    p["metadata"]["annotations"] = {"devices.gpu.scheduler-ext.io/main": "GPU-b"}
    assert shares_said(report, p) == [], "the pod says it"
