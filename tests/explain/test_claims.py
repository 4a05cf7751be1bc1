"""Pods with ResourceClaims: where they fit and go, and what is not modelled, on small clusters with an
obvious right answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scheduler_ext.explain.explain import explain
from scheduler_ext.whatif.capacity import capacity
from scheduler_ext.whatif.simulation import simulate
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from tests.dra_objects import (
    WHOLE,
    claim_template,
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
    taint_rule,
)
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod
from tests.views.seen import state

CONFIG = Configuration()
IS_A100 = "device.attributes['gpu.nvidia.com'].productName.contains('A100')"
IS_RDMA = "device.attributes['gpu.nvidia.com'].rdma == true"
# Four H100s, two of them held by claims; an A100; and four A100s of a device plugin.
CLUSTER = [
    device_class(),
    node("claimed"),
    resource_slice("claimed", [gpu_device(i, node="claimed") for i in range(4)]),
    resource_claim("held", on="claimed", devices=["gpu-0", "gpu-1"]),
    node("single"),
    resource_slice("single", [gpu_device(0, node="single", product="NVIDIA A100-SXM4-80GB")]),
    node("plugin", {WHOLE: "4"}),
    gpu_node("plugin", [gpu(i, f"GPU-plugin-{i}") for i in range(4)]),
]


def by_template(name: str = "train", template: str = "asked", **more: Any) -> Json:
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return pod(name, resourceClaims=claims, **more)


def by_claim(name: str, claim: str, **more: Any) -> Json:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}], **more)


def explained(asking: Json, *objects: Json) -> Json:
    (read,) = read_pods(inventory(asking))
    return explain(read, state(*objects), CONFIG)


def asked(*requests: Json, more: Sequence[Json] = ()) -> Json:
    """The explanation of a pod whose claim has these requests."""
    return explained(by_template(), *CLUSTER, *more, claim_template("asked", *requests))


def placed(pods: Sequence[Json], *objects: Json) -> list[Json]:
    """The outcome of these pods, one after the other."""
    items: list[Json] = simulate(read_pods(inventory(*pods)), state(*objects), CONFIG)["items"]
    return items


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        pytest.param(request(2), {"claimed"}, id="two GPUs of one node"),
        pytest.param(request(3), set(), id="more than any node has free"),
        pytest.param(request(1, IS_A100), {"single"}, id="a GPU of one product"),
        pytest.param(
            request(device_class="unknown.example.com"),
            {"claimed", "plugin", "single"},
            id="a class without GPUs is left to kube-scheduler",
        ),
    ],
)
def test_where_a_claim_fits(wanted: Json, fits: set[str]) -> None:
    assert {each["node"] for each in asked(wanted)["nodes"] if each["verdict"] == "fits"} == fits


def test_a_claim_in_the_inventory() -> None:
    objects = [*CLUSTER, resource_claim("own", request(2))]
    assert explained(by_claim("train", "own"), *objects)["best"] == ["claimed"]


FABRIC = resource_slice("fabric", [gpu_device(9)])
FABRIC["spec"] |= {"nodeName": None, "allNodes": True}
NICS = [
    device_class("nic.example.com", "device.driver == 'nic.example.com'", extended=None),
    resource_slice("single", [{"name": "nic-0"}], name="nics", driver="nic.example.com"),
]


@pytest.mark.parametrize(
    ("requests", "more", "features"),
    [
        pytest.param(
            [{"name": "gpu", "firstAvailable": [{"name": "one", "deviceClassName": "gpu.nvidia.com"}]}],
            [],
            ["firstAvailable of ResourceClaimTemplate default/asked"],
            id="alternatives",
        ),
        pytest.param(
            [request(adminAccess=True)],
            [],
            ["adminAccess of ResourceClaimTemplate default/asked"],
            id="a claim of devices that stay free for others",
        ),
        pytest.param(
            [request(1, IS_RDMA)],
            [],
            [
                'a selector (selectors[0].cel.expression: Key not found in map : "rdma": test with has()'
                " whether the device has the attribute) of ResourceClaimTemplate default/asked"
            ],
            id="a selector that fails for some device",
        ),
        pytest.param(
            [request()],
            [FABRIC],
            ["devices that several nodes can reach of ResourceClaimTemplate default/asked"],
            id="devices of several nodes",
        ),
        pytest.param(
            [request(), request(1, IS_A100) | {"name": "second"}],
            [],
            ["several requests for the same devices"],
            id="two requests of one class",
        ),
        pytest.param(
            [request(), request(device_class="nic.example.com") | {"name": "second"}],
            NICS,
            [],
            id="a GPU and a network device are modelled",
        ),
    ],
)
def test_what_is_not_modelled_is_named(requests: list[Json], more: list[Json], features: list[str]) -> None:
    assert asked(*requests, more=more)["notModelled"] == features


def test_a_class_that_fails_is_named_for_its_resource() -> None:
    objects = [device_class(expression=IS_RDMA), node("n"), resource_slice("n", [gpu_device(0)])]
    (feature,) = explained(pod("p", {WHOLE: "1"}), *objects)["notModelled"]
    assert feature.startswith('a selector (selectors[0].cel.expression: Key not found in map : "rdma"')
    assert feature.endswith("of the DeviceClass of nvidia.com/gpu")


def test_a_claim_that_holds_a_device_ties_its_pods_to_the_node() -> None:
    shared = resource_claim("shared", on="single", devices=["gpu-0"], pod="first")
    explanation = explained(by_claim("second", "shared"), *CLUSTER, shared)
    assert explanation["best"] == ["single"]
    assert explanation["counts"] == {"resourceclaim not available on the node": 2}


def test_a_rule_closes_a_device() -> None:
    rule = taint_rule("sick", driver="gpu.nvidia.com", pool="single")
    assert asked(request(), more=[rule])["best"] == ["claimed"]


def test_a_pool_that_is_published_in_part_is_named() -> None:
    half = resource_slice("n", [gpu_device(0)], generation=3, slices=2)
    explanation = explained(pod("p", {WHOLE: "1"}), device_class(), node("n"), half)
    note = "n: pool n has 1 of 2 ResourceSlices of generation 3; its GPUs are not counted"
    assert (explanation["fits"], explanation["warnings"]) == (False, [note])


def test_pods_that_share_a_claim_share_its_device() -> None:
    objects = [device_class(), resource_claim("shared", request())]
    for name in ("a", "b"):
        objects += [node(name), resource_slice(name, [gpu_device(0, node=name)])]
    sharing = [by_claim(f"p{i}", "shared") for i in range(3)]
    places = [item["node"] for item in placed([*sharing, pod("alone", {WHOLE: "1"})], *objects)]
    assert places[0] == places[1] == places[2]
    assert {*places} == {"a", "b"}


def test_capacity_counts_what_claims_leave() -> None:
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(*CLUSTER, claim_template("asked", request())), CONFIG)
    counts = {each["node"]: each["count"] for each in counted["nodes"]}
    assert counts == {"claimed": 2, "single": 1, "plugin": 0}


def test_capacity_knows_no_limit_of_devices_that_several_nodes_can_reach() -> None:
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(node("n"), device_class(), FABRIC, claim_template("asked")), CONFIG)
    assert counted["nodes"] == [{"node": "n", "count": None, "gpus": 0, "limit": None}]
    several = "devices that several nodes can reach of ResourceClaimTemplate default/asked"
    assert counted["notModelled"] == [several]


def test_a_simulation_gives_each_gpu_of_dra_once() -> None:
    pods = [by_template(f"claim-{i}") for i in range(2)]
    # Three GPUs of DRA and four of the device plugin are free.
    pods += [pod(f"plain-{i}", {WHOLE: "1"}) for i in range(6)]
    places = [item["node"] for item in placed(pods, *CLUSTER, claim_template("asked", request()))]
    assert {node: places.count(node) for node in ("claimed", "single", "plugin", None)} == {
        "claimed": 2,
        "single": 1,
        "plugin": 4,
        None: 1,
    }


HELD = resource_claim("held", on="n", devices=["gpu-0"], pod="low")


@pytest.mark.parametrize(
    ("objects", "asks", "evicted"),
    [
        pytest.param(
            [node("n", {WHOLE: "1"}), gpu_node("n", [gpu(0)]), pod("low", {WHOLE: "1"}, on="n")],
            {WHOLE: "1"},
            ["default/low"],
            id="a device plugin's GPU",
        ),
        pytest.param(
            [node("n"), resource_slice("n", [gpu_device(0)]), HELD, by_claim("low", "held", on="n")],
            {WHOLE: "1"},
            [],
            id="a GPU by claim, asked by its resource: kube-scheduler evicts nobody for devices",
        ),
        pytest.param(
            [
                node("n", {"cpu": "4"}),
                resource_slice("n", [gpu_device(0)]),
                pod("low", {"cpu": "3"}, on="n"),
            ],
            {WHOLE: "1", "cpu": "3"},
            ["default/low"],
            id="the CPU beside a free GPU of DRA",
        ),
    ],
)
def test_who_is_evicted(objects: list[Json], asks: Json, evicted: list[str]) -> None:
    (item,) = placed([pod("high", asks, priority=9)], device_class(), *objects)
    assert (item["node"], item["victims"]) == ("n" if evicted else None, evicted)


# What claims hold of each GPU of a node, in GiB, in the order of its slice.
Held = Mapping[str, Sequence[int]]


def parted(held_gi: Held) -> list[Json]:
    """Nodes with GPUs of 80 GiB that claims can share."""
    found = [device_class()]
    for name, gpus in held_gi.items():
        devices = [
            gpu_device(i, node=name, memory="80Gi", allowMultipleAllocations=True) for i in range(len(gpus))
        ]
        found += [node(name), resource_slice(name, devices)]
        for i, gi in enumerate(gpus):
            if gi:
                holder = resource_claim(f"{name}-{i}", on=name, devices=[f"gpu-{i}"])
                (result,) = holder["status"]["allocation"]["devices"]["results"]
                result["consumedCapacity"] = {"memory": f"{gi}Gi"}
                found.append(holder)
    return found


def part(gi: int) -> Json:
    return request(1, capacity={"requests": {"memory": f"{gi}Gi"}})


@pytest.mark.parametrize(
    ("held_gi", "wanted", "best"),
    [
        pytest.param(
            {"empty": [0, 0], "used": [40, 0]},
            part(40),
            ["used"],
            id="a GPU in use is filled before one is opened",
        ),
        pytest.param(
            {"last": [0, 40], "first": [40, 0]},
            part(40),
            ["first"],
            id="kube-scheduler takes the first GPU that fits, so that the other node would open one",
        ),
        pytest.param(
            {"empty": [0, 0], "used": [40, 0]},
            request(1),
            ["used"],
            id="a whole GPU leaves two idle ones together",
        ),
        pytest.param(
            {"one": [20, 20], "two": [0, 40]}, request(1), ["two"], id="a whole GPU needs an idle one"
        ),
    ],
)
def test_where_a_part_goes(held_gi: Held, wanted: Json, best: list[str]) -> None:
    assert explained(by_template(), *parted(held_gi), claim_template("asked", wanted))["best"] == best


@pytest.mark.parametrize(
    ("held_gi", "wanted", "places"),
    [
        pytest.param(
            {"n": [0]}, [part(50), part(30), request(1)], ["n", "n", None], id="a GPU is full to the last MiB"
        ),
        pytest.param(
            {"n": [0, 0]}, [part(10), request(1), part(70)], ["n", "n", "n"], id="parts, and the rest whole"
        ),
        pytest.param({"n": [20, 0]}, [part(60), request(1)], ["n", "n"], id="beside what claims hold"),
    ],
)
def test_a_simulation_fills_gpus_as_kube_scheduler_does(
    held_gi: Held, wanted: list[Json], places: list[str | None]
) -> None:
    templates = [claim_template(f"asked-{i}", each) for i, each in enumerate(wanted)]
    pods = [by_template(f"p{i}", f"asked-{i}") for i in range(len(wanted))]
    assert [item["node"] for item in placed(pods, *parted(held_gi), *templates)] == places
