"""Pods with ResourceClaims: where they fit and go, and what is not modelled, on small clusters with an
obvious right answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scheduler_ext.explain.explain import explain
from scheduler_ext.explain.in_words import request_line
from scheduler_ext.whatif.capacity import capacity
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.dra import device_selector
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
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, inventory, node, pod
from tests.views.seen import state
from tests.whatif.placing import nodes_of, placed

CONFIG = Configuration()
IS_A100 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-80GB'"
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


def with_cpu(asking: Json, cpu: str) -> Json:
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return asking


def both_claims(name: str) -> Json:
    """One for each pod, and one for all."""
    made = by_claim(name, "shared")
    made["spec"]["resourceClaims"] += by_template()["spec"]["resourceClaims"]
    return made


def reserved(claim: Json, pods: int) -> Json:
    claim["status"]["reservedFor"] = [
        {"resource": "pods", "name": f"p{i}", "uid": f"u{i}"} for i in range(pods)
    ]
    return claim


def explained(asking: Json, *objects: Json) -> Json:
    (read,) = read_pods(inventory(asking))
    return explain(read, state(*objects), CONFIG)


def asked(*requests: Json, more: Sequence[Json] = ()) -> Json:
    """The explanation of a pod whose claim has these requests."""
    return explained(by_template(), *CLUSTER, *more, claim_template("asked", *requests))


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


def test_a_selector_that_needs_cel_refuses_no_node_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_selector, "installed", lambda: ())
    monkeypatch.setattr(device_selector, "_reader", device_selector._reader.__wrapped__)
    explanation = asked(request(1, "device.attributes['gpu.nvidia.com'].productName.contains('A100')"))
    assert {each["node"] for each in explanation["nodes"] if each["verdict"] == "fits"} == {
        "claimed",
        "single",
    }
    assert explanation["notModelled"] == [
        "a selector (selectors[0].cel.expression: it needs CEL: pip install 'scheduler-ext[claims]')"
        " of ResourceClaimTemplate default/asked"
    ]


def test_a_claim_in_the_inventory() -> None:
    objects = [*CLUSTER, resource_claim("own", request(2))]
    assert explained(by_claim("train", "own"), *objects)["best"] == ["claimed"]


FABRIC = resource_slice("fabric", [gpu_device(9)])
FABRIC["spec"] |= {"nodeName": None, "allNodes": True}
H200_FABRIC = json.loads(json.dumps(FABRIC))
H200_FABRIC["spec"]["devices"] = [gpu_device(9, product="NVIDIA H200")]
IS_H200 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H200'"
NICS = [
    device_class("nic.example.com", "device.driver == 'nic.example.com'", extended=None),
    resource_slice("single", [{"name": "nic-0"}], name="nics", driver="nic.example.com"),
]


TWO_NICS = [
    NICS[0],
    resource_slice("single", [{"name": "nic-0"}, {"name": "nic-1"}], name="nics", driver="nic.example.com"),
]
NICS_NOT_COUNTED = (
    "devices of DeviceClass nic.example.com, which are not known as GPUs, of ResourceClaimTemplate "
    "default/asked"
)
CHANNEL = "channel.example.com"
# As an IMEX channel: one on each node, that of the first held.
CHANNELS = [
    device_class(
        CHANNEL,
        "device.driver == 'channel.example.com' && device.attributes['channel.example.com'].id == 0",
        extended=None,
    ),
    *(
        resource_slice(
            name,
            [{"name": f"channel-{i}", "attributes": {"id": {"int": i}}} for i in range(2)],
            name=f"{name}-channels",
            driver=CHANNEL,
        )
        for name in ("claimed", "single")
    ),
]
HELD_CHANNEL = resource_claim("channel", on="claimed", devices=["channel-0"])
HELD_CHANNEL["status"]["allocation"]["devices"]["results"][0]["driver"] = CHANNEL
GPU_AND_CHANNEL = [request(), request(device_class=CHANNEL) | {"name": "channel"}]
NOT_COUNTED = (
    f"devices of DeviceClass {CHANNEL}, which are not known as GPUs, of ResourceClaimTemplate default/asked"
)
SHARED_CHANNELS = [
    CHANNELS[0],
    resource_slice(
        "claimed",
        [{"name": "channel-0", "allowMultipleAllocations": True, "attributes": {"id": {"int": 0}}}],
        driver=CHANNEL,
        name="shared",
    ),
]
# Sixteen lanes, of which five are held.
LANES = json.loads(json.dumps([*SHARED_CHANNELS, HELD_CHANNEL]))
LANES[1]["spec"]["devices"][0]["capacity"] = {"lanes": {"value": "16"}}
LANES[2]["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"lanes": "5"}
RACK_CHANNELS = [CHANNELS[0], *CHANNELS[1:2], json.loads(json.dumps(CHANNELS[2]))]
RACK_CHANNELS[2]["spec"] |= {"nodeName": None, "allNodes": True}


@pytest.mark.parametrize(
    ("requests", "more", "counts", "features"),
    [
        pytest.param(
            GPU_AND_CHANNEL,
            CHANNELS,
            {"claimed": 1, "single": 1, "plugin": 0},
            [],
            id="one of them on each node",
        ),
        pytest.param(
            GPU_AND_CHANNEL,
            [*CHANNELS, HELD_CHANNEL],
            {"claimed": 0, "single": 1, "plugin": 0},
            [],
            id="one of them is held",
        ),
        pytest.param(
            GPU_AND_CHANNEL[1:],
            [*CHANNELS, HELD_CHANNEL],
            {"claimed": 0, "single": 1, "plugin": 0},
            [],
            id="without a GPU",
        ),
        pytest.param(
            [request(), request(1, "device.attributes['channel.example.com'].id == 1", device_class=CHANNEL)],
            CHANNELS,
            {"claimed": 0, "single": 0, "plugin": 0},
            [],
            id="none meets the selectors",
        ),
        pytest.param(
            GPU_AND_CHANNEL,
            [*CHANNELS, taint_rule("r", driver=CHANNEL)],
            {"claimed": 0, "single": 0, "plugin": 0},
            [],
            id="all are tainted",
        ),
        pytest.param(
            GPU_AND_CHANNEL,
            CHANNELS[:1],
            {"claimed": 0, "single": 0, "plugin": 0},
            [],
            id="no driver publishes any",
        ),
        pytest.param(
            GPU_AND_CHANNEL,
            SHARED_CHANNELS,
            {"claimed": 2, "single": 0, "plugin": 0},
            [],
            id="claims share one, which other nodes lack",
        ),
        pytest.param(
            [request(), request(device_class=CHANNEL, capacity={"requests": {"lanes": "2"}})],
            CHANNELS,
            {"claimed": 0, "single": 0, "plugin": 0},
            [],
            id="none has the capacity",
        ),
        pytest.param(
            [request(device_class=CHANNEL, capacity={"requests": {"lanes": "3"}})],
            LANES,
            {"claimed": 3, "single": 0, "plugin": 0},
            [],
            id="claims share the capacity of one, and some of it is held",
        ),
        pytest.param(
            GPU_AND_CHANNEL,
            RACK_CHANNELS,
            {"claimed": 2, "single": 1, "plugin": 0},
            [NOT_COUNTED],
            id="all nodes reach one",
        ),
        pytest.param(
            [request(), request(device_class=CHANNEL, allocationMode="All") | {"name": "channel"}],
            CHANNELS,
            {"claimed": 1, "single": 1, "plugin": 0},
            ["allocationMode: All of ResourceClaimTemplate default/asked", NOT_COUNTED],
            id="all of a node's",
        ),
        pytest.param(
            [request(device_class="nic.example.com", allocationMode="All")],
            TWO_NICS,
            {"claimed": 0, "single": 1, "plugin": 0},
            ["allocationMode: All of ResourceClaimTemplate default/asked", NICS_NOT_COUNTED],
            id="all of a node's, which are several",
        ),
    ],
)
def test_devices_that_are_no_gpus(
    requests: list[Json], more: list[Json], counts: Mapping[str, int], features: list[str]
) -> None:
    """They are counted where that is possible, and named where not: a node without one is never the best."""
    objects = [*CLUSTER, *more, claim_template("asked", *requests)]
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(*objects), CONFIG)
    assert {each["node"]: each["count"] for each in counted["nodes"]} == counts
    assert counted["notModelled"] == features
    explanation = explained(by_template(), *objects)
    assert {*explanation["best"]} <= {name for name, count in counts.items() if count}
    short = {each["reason"] for each in explanation["nodes"] if each["by"] == "kubernetes"}
    assert short <= {"cannot allocate all claims"}


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
            [FABRIC],
            ["adminAccess of ResourceClaimTemplate default/asked"],
            id="admin access to devices of several nodes",
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


ROOT = "resource.kubernetes.io/pcieRoot"


def on_root(value: Json, device: Json) -> Json:
    return device | {"attributes": {**device.get("attributes", {}), ROOT: value}}


def roots(*names: str) -> list[Json]:
    return [{"string": name} for name in names]


NIC = "nic.example.com"


def with_roots(gpus: Mapping[str, Sequence[Json]], nics: Mapping[str, Sequence[Json]]) -> list[Json]:
    """Nodes whose GPUs and network devices are below these PCIe roots."""
    found = [device_class(), device_class(NIC, "device.driver == 'nic.example.com'", extended=None)]
    for name in gpus:
        devices = [on_root(root, gpu_device(i, node=name)) for i, root in enumerate(gpus[name])]
        others = [on_root(root, {"name": f"nic-{i}"}) for i, root in enumerate(nics.get(name, ()))]
        found += [node(name), resource_slice(name, devices)]
        found += [resource_slice(name, others, name=f"{name}-nics", driver=NIC)] if others else []
    return found


GPU_AND_NIC = [request(), request(device_class=NIC) | {"name": "nic"}]


@pytest.mark.parametrize(
    ("objects", "requests", "constraint", "reasons"),
    [
        pytest.param(
            with_roots({"apart": roots("a", "b"), "together": roots("a", "a")}, {}),
            [request(2)],
            {"matchAttribute": ROOT},
            {"together": None, "apart": f"devices with one value of {ROOT}"},
            id="two GPUs below one root",
        ),
        pytest.param(
            with_roots({"apart": roots("a", "b"), "together": roots("a", "a")}, {}),
            [request(2)],
            {"distinctAttribute": ROOT},
            {"apart": None, "together": f"devices with different values of {ROOT}"},
            id="two GPUs below different roots",
        ),
        pytest.param(
            with_roots(
                {"near": roots("a", "b"), "far": roots("a"), "none": roots("a")},
                {"near": roots("b"), "far": roots("c")},
            ),
            GPU_AND_NIC,
            {"matchAttribute": ROOT, "requests": ["gpu", "nic"]},
            {"near": None, "far": f"devices with one value of {ROOT}", "none": f"1 {NIC}"},
            id="a GPU beside a network device",
        ),
        pytest.param(
            with_roots({"n": roots("a", "b")}, {"n": roots("c")}),
            [request(2), GPU_AND_NIC[1]],
            {"matchAttribute": ROOT, "requests": ["nic"]},
            {"n": None},
            id="of another request",
        ),
        pytest.param(
            with_roots(
                {"near": [{"strings": ["a", "b"]}], "far": [{"strings": ["a", "c"]}]},
                {"near": roots("b"), "far": roots("b")},
            ),
            GPU_AND_NIC,
            {"matchAttribute": ROOT},
            {"near": None, "far": f"devices with one value of {ROOT}"},
            id="attributes of several values",
        ),
        pytest.param(
            [
                *with_roots({"n": roots("a", "a", "b")}, {}),
                resource_claim("held", on="n", devices=["gpu-0"]),
            ],
            [request(2)],
            {"matchAttribute": ROOT},
            {"n": f"devices with one value of {ROOT}"},
            id="one of two is held",
        ),
        pytest.param(
            with_roots({"n": roots("a")}, {}),
            [request(2)],
            {"matchAttribute": ROOT},
            {"n": "2"},
            id="too few devices are too few, whatever their roots",
        ),
        pytest.param(
            [*with_roots({"n": roots("a", "b")}, {}), FABRIC],
            [request(2)],
            {"matchAttribute": ROOT},
            {"n": f"devices with one value of {ROOT}"},
            id="devices of several nodes",
        ),
    ],
)
def test_no_node_that_cannot_meet_a_constraint_is_the_best(
    objects: list[Json], requests: list[Json], constraint: Json, reasons: Mapping[str, str | None]
) -> None:
    """constraint.go of k8s.io/dynamic-resource-allocation: a device without the attribute meets none."""
    template = claim_template("asked", *requests)
    template["spec"]["spec"]["devices"]["constraints"] = [constraint]
    explanation = explained(by_template(), *objects, template)
    needed = {
        each["node"]: str(each["nearestMiss"]["needed"]) if each["nearestMiss"] else None
        for each in explanation["nodes"]
    }
    assert needed == reasons
    assert "constraints between devices of ResourceClaimTemplate default/asked" in explanation["notModelled"]


ANY = [request(), request() | {"name": "second"}]
# GPUs and network devices below the same PCIe roots, two of each; and others that are alone below theirs.
PAIRS = with_roots({"n": roots("a", "a", "b", "c")}, {"n": roots("a", "b", "d", "d")})


@pytest.mark.parametrize(
    ("objects", "requests", "constraint", "count"),
    [
        pytest.param(
            with_roots({"n": roots("a", "b", "a", "b", "c", "d")}, {}),
            [request(2)],
            {"matchAttribute": ROOT},
            2,
            id="two GPUs below one root",
        ),
        pytest.param(
            with_roots({"n": roots("a", "a", "a", "a", "b", "c")}, {}),
            [request(2)],
            {"distinctAttribute": ROOT},
            2,
            id="two GPUs below different roots",
        ),
        pytest.param(PAIRS, GPU_AND_NIC, {"matchAttribute": ROOT}, 2, id="a GPU beside a network device"),
        pytest.param(PAIRS, GPU_AND_NIC, None, 4, id="a GPU and any network device"),
        pytest.param(
            with_roots({"n": [{"strings": ["a", "b"]}] * 2}, {}),
            [request()],
            {"matchAttribute": ROOT},
            2,
            id="a device of several values counts once",
        ),
        pytest.param(
            with_roots({"n": roots("a", "a", "a")}, {}),
            [request(), request(1, "device.driver == 'gpu.nvidia.com'") | {"name": "second"}],
            None,
            1,
            id="two requests for the same GPUs",
        ),
        pytest.param(
            with_roots({"n": roots("a", "b")}, {}),
            ANY,
            {"matchAttribute": ROOT},
            0,
            id="two equal requests, and no two GPUs below one root",
        ),
    ],
)
def test_no_more_pods_than_devices_meet_a_constraint(
    objects: list[Json], requests: list[Json], constraint: Json | None, count: int
) -> None:
    """By capacity, and by a dry run of one more."""
    template = claim_template("asked", *requests)
    template["spec"]["spec"]["devices"]["constraints"] = [constraint] if constraint is not None else []
    (read,) = read_pods(inventory(by_template()))
    assert capacity(read, state(*objects, template), CONFIG)["total"] == count
    *fitting, last = placed([by_template(f"p{i}") for i in range(count + 1)], state(*objects, template))
    assert [each.node for each in fitting] == ["n"] * count
    assert last.refusal is not None
    assert last.refusal["reason"] == "cannot allocate all claims"


@pytest.mark.parametrize(
    ("objects", "requests", "constraints", "like"),
    [
        pytest.param(
            [*CLUSTER, *CHANNELS, HELD_CHANNEL, taint_rule("r", driver=CHANNEL, pool="single")],
            GPU_AND_CHANNEL,
            [],
            ["claimed", "single"],
            id="devices that are held or tainted",
        ),
        pytest.param(
            [
                *with_roots({"n": roots("a", "a", "b")}, {}),
                resource_claim("held", on="n", devices=["gpu-0"]),
            ],
            [request(2)],
            [{"matchAttribute": ROOT}],
            ["n"],
            id="a held device of the only pair",
        ),
        pytest.param(
            with_roots({"n": roots("a", "b")}, {}), [request(2)], [{"matchAttribute": ROOT}], [], id="no pair"
        ),
        pytest.param(
            [*CLUSTER, *SHARED_CHANNELS],
            [request(4), request(device_class=CHANNEL) | {"name": "channel"}],
            [],
            ["claimed"],
            id="a device that claims share",
        ),
    ],
)
def test_a_new_node_has_all_devices_of_its_kind(
    objects: list[Json], requests: list[Json], constraints: list[Json], like: list[str]
) -> None:
    template = claim_template("asked", *requests)
    template["spec"]["spec"]["devices"]["constraints"] = constraints
    explanation = explained(by_template(), *objects, template)
    assert not explanation["fits"]
    verdicts = explanation["autoscaler"]
    assert verdicts["curable"] == len(like)
    assert not like or sorted(verdicts["like"]) == like


@pytest.mark.parametrize(
    ("claimed", "advice"),
    [
        pytest.param(
            request(5),
            "With 2 gpu.nvidia.com instead of 5 it would fit on 1 node now",
            id="more than any node has",
        ),
        pytest.param(
            request(1, capacity={"requests": {"memory": "200Gi"}}),
            "Wait for no pod: no node has such GPUs, even empty; request less, or add other nodes",
            id="with more memory than any has",
        ),
    ],
)
def test_the_advice_where_no_node_ever_fits(claimed: Json, advice: str) -> None:
    """Nobody waits for pods whose end changes nothing."""
    explanation = asked(claimed)
    assert (explanation["advice"], explanation["autoscaler"]["curable"]) == ([advice], 0)


def test_the_advice_where_pods_hold_the_devices() -> None:
    taken = resource_claim("taken", on="single", devices=["gpu-0"])
    (advice,) = asked(request(1, IS_A100), more=[taken])["advice"]
    assert advice == "Wait for a pod to finish, ask for fewer GPUs, or add nodes."


# So many pods of any kind a node takes.
MANY = 110
BESIDE_OTHERS = "adminAccess beside other requests (each is counted alone)"


@pytest.mark.parametrize(
    ("requests", "more", "counts", "features"),
    [
        pytest.param(
            [request(adminAccess=True)], [], {"claimed": MANY, "single": MANY}, [], id="free and held GPUs"
        ),
        pytest.param(
            [request(4, adminAccess=True)], [], {"claimed": MANY}, [], id="more than are free on a node"
        ),
        pytest.param([request(5, adminAccess=True)], [], {}, [], id="more than a node has"),
        pytest.param([request(1, IS_A100, adminAccess=True)], [], {"single": MANY}, [], id="one product"),
        pytest.param(
            [request(adminAccess=True)],
            [taint_rule("r", pool="single")],
            {"claimed": MANY},
            [],
            id="tainted devices",
        ),
        pytest.param(
            [request(adminAccess=True, device_class=CHANNEL)],
            [*CHANNELS, HELD_CHANNEL],
            {"claimed": MANY, "single": MANY},
            [],
            id="devices that are no GPUs",
        ),
        pytest.param(
            [request(allocationMode="All", adminAccess=True)],
            [],
            {"claimed": MANY, "single": MANY},
            ["allocationMode: All of ResourceClaimTemplate default/asked"],
            id="all devices of a node",
        ),
        pytest.param(
            [request(), request(adminAccess=True) | {"name": "monitor"}],
            [],
            {"claimed": 2},
            [BESIDE_OTHERS],
            id="beside a GPU of its own, which is another one",
        ),
    ],
)
def test_admin_access_takes_no_device(
    requests: list[Json], more: list[Json], counts: Mapping[str, int], features: list[str]
) -> None:
    """Nodes need the devices, free or held (k8s.io/dynamic-resource-allocation, allocateDevice)."""
    objects = [*CLUSTER, *more, claim_template("asked", *requests)]
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(*objects), CONFIG)
    assert {each["node"]: each["count"] for each in counted["nodes"] if each["count"] != 0} == counts
    assert counted["notModelled"] == features
    assert {*explained(by_template(), *objects)["best"]} <= set(counts)


def first_available(*wanted: tuple[str, int], expression: str = "") -> Json:
    """A request of these classes and counts, the first that is to be had."""
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {
        "name": "gpu",
        "firstAvailable": [
            {"name": f"choice-{i}", "deviceClassName": name, "count": count} | selectors
            for i, (name, count) in enumerate(wanted)
        ],
    }


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        pytest.param(
            first_available(("gpu.nvidia.com", 2)), {"claimed": 1, "single": 0, "plugin": 0}, id="one choice"
        ),
        pytest.param(
            first_available(("gpu.nvidia.com", 2), ("gpu.nvidia.com", 1)),
            {"claimed": 2, "single": 1, "plugin": 0},
            id="the second of two",
        ),
        pytest.param(
            first_available(("gpu.nvidia.com", 1), expression=IS_A100),
            {"claimed": 0, "single": 1, "plugin": 0},
            id="of one product",
        ),
        pytest.param(
            first_available(("gpu.nvidia.com", 8)), {"claimed": 0, "single": 0, "plugin": 0}, id="nowhere"
        ),
        pytest.param(
            first_available(("gpu.nvidia.com", 8), (CHANNEL, 1)),
            {"claimed": 1, "single": 1, "plugin": 0},
            id="or a device that is no GPU",
        ),
        pytest.param(
            request(allocationMode="All"),
            {"claimed": 0, "single": 1, "plugin": 0},
            id="all devices of a node",
        ),
        pytest.param(
            [first_available(("gpu.nvidia.com", 8), ("gpu.nvidia.com", 1)), request() | {"name": "second"}],
            {"claimed": 1, "single": 0, "plugin": 0},
            id="a choice beside another GPU",
        ),
        pytest.param(
            [
                first_available(("gpu.nvidia.com", 8), ("gpu.nvidia.com", 1)),
                request(1, IS_A100) | {"name": "second"},
            ],
            {"claimed": 0, "single": 0, "plugin": 0},
            id="a choice beside another GPU, which is the only one",
        ),
        pytest.param(
            request(1, IS_RDMA), dict.fromkeys(("claimed", "single", "plugin"), 0), id="a selector fails"
        ),
    ],
)
def test_no_node_without_a_free_device_is_the_best(
    wanted: Json | list[Json], counts: Mapping[str, int | None]
) -> None:
    """Neither is what kube-scheduler decides counted as free."""
    requests = wanted if isinstance(wanted, list) else [wanted]
    objects = [*CLUSTER, *CHANNELS, claim_template("asked", *requests)]
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(*objects), CONFIG)
    assert {each["node"]: each["count"] for each in counted["nodes"]} == counts
    assert {*explained(by_template(), *objects)["best"]} <= {name for name in counts if counts[name] != 0}


def test_all_devices_of_a_node_are_none_where_one_is_held() -> None:
    found = {each["node"]: each["nearestMiss"] for each in asked(request(allocationMode="All"))["nodes"]}
    assert (found["claimed"]["needed"], found["claimed"]["have"]) == (4, 2)


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
    assert (
        request_line(explanation)
        == "Pod default/second asks the devices that ResourceClaim default/shared holds"
    )
    assert explanation["warnings"] == []


def test_a_rule_closes_a_device() -> None:
    rule = taint_rule("sick", driver="gpu.nvidia.com", pool="single")
    assert asked(request(), more=[rule])["best"] == ["claimed"]


def test_a_pool_that_is_published_in_part_is_named() -> None:
    half = resource_slice("n", [gpu_device(0)], generation=3, slices=2)
    explanation = explained(pod("p", {WHOLE: "1"}), device_class(), node("n"), half)
    note = "n: pool n has 1 of 2 ResourceSlices of generation 3; its GPUs are not counted"
    assert (explanation["fits"], explanation["warnings"]) == (False, [note])


SHARED_BY_ALL = "the pods share the devices of ResourceClaim default/shared, which the first one gets"


@pytest.mark.parametrize(
    ("objects", "asking", "counts", "total", "notes"),
    [
        pytest.param(
            [resource_claim("shared", request())],
            by_claim("p", "shared"),
            {"claimed": 110, "single": 110, "plugin": 0},
            110,
            [f"{SHARED_BY_ALL}; all go to its node, so the total is that of the best one"],
            id="a claim without devices yet",
        ),
        pytest.param(
            [resource_claim("shared", request())],
            with_cpu(by_claim("p", "shared"), "20"),
            {"claimed": 3, "single": 3, "plugin": 0},
            3,
            [f"{SHARED_BY_ALL}; all go to its node, so the total is that of the best one"],
            id="the CPU of the node is a limit",
        ),
        pytest.param(
            [resource_claim("shared", request()), claim_template("asked", request())],
            both_claims("p"),
            {"claimed": 1, "single": 0, "plugin": 0},
            1,
            [f"{SHARED_BY_ALL}; all go to its node, so the total is that of the best one"],
            id="beside a GPU for each pod",
        ),
        pytest.param(
            [resource_claim("shared", on="single", devices=["gpu-0"])],
            with_cpu(by_claim("p", "shared"), "20"),
            {"claimed": 0, "single": 3, "plugin": 0},
            3,
            [],
            id="a claim that has its devices",
        ),
        pytest.param(
            [reserved(resource_claim("shared", on="single", devices=["gpu-0"]), 250)],
            by_claim("p", "shared"),
            {"claimed": 0, "single": 6, "plugin": 0},
            6,
            [],
            id="a claim serves 256 pods at most",
        ),
        pytest.param(
            [H200_FABRIC, resource_claim("shared", request(1, IS_H200))],
            with_cpu(by_claim("p", "shared"), "20"),
            {"claimed": 3, "single": 3, "plugin": 3},
            9,
            [SHARED_BY_ALL],
            id="a device that all nodes reach",
        ),
    ],
)
def test_capacity_of_pods_that_share_a_claim(
    objects: list[Json], asking: Json, counts: Mapping[str, int], total: int, notes: list[str]
) -> None:
    (read,) = read_pods(inventory(asking))
    counted = capacity(read, state(*CLUSTER, *objects), CONFIG)
    assert {each["node"]: each["count"] for each in counted["nodes"]} == counts
    assert (counted["total"], counted["warnings"]) == (total, notes)


def test_capacity_counts_what_claims_leave() -> None:
    (read,) = read_pods(inventory(by_template()))
    counted = capacity(read, state(*CLUSTER, claim_template("asked", request())), CONFIG)
    counts = {each["node"]: each["count"] for each in counted["nodes"]}
    assert counts == {"claimed": 2, "single": 1, "plugin": 0}


RACK = json.loads(json.dumps(FABRIC))
RACK["spec"] |= {
    "allNodes": None,
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]
    },
}


@pytest.mark.parametrize(
    ("more", "counts", "total"),
    [
        pytest.param([RACK], {"in": 1, "out": 0}, 1, id="only the nodes of a rack reach them"),
        pytest.param(
            [RACK, resource_slice("out", [gpu_device(0, node="out")])],
            {"in": 1, "out": 1},
            2,
            id="another node has one of its own",
        ),
        pytest.param([FABRIC], {"in": 1, "out": 1}, 1, id="all nodes reach them"),
    ],
)
@pytest.mark.parametrize(
    ("asking", "of", "plugins"),
    [
        pytest.param(by_template(), "ResourceClaimTemplate default/asked", {}, id="for a claim"),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            f"the DeviceClass of {WHOLE}",
            {"full": 0, "free": 2},
            id="for the name of a resource, which device plugins count elsewhere",
        ),
    ],
)
def test_devices_that_several_nodes_reach(
    asking: Json, of: str, plugins: Mapping[str, int], more: list[Json], counts: Mapping[str, int], total: int
) -> None:
    """For claims, their devices are a limit; by the name of a resource they are not counted."""
    (read,) = read_pods(inventory(asking))
    objects = [device_class(), node("in", labels={"rack": "r1"}), node("out"), *more, claim_template("asked")]
    if plugins:
        objects += [node("full", {WHOLE: "2"}), node("free", {WHOLE: "2"})]
        objects += [gpu_node(name, [gpu(0), gpu(1)]) for name in plugins]
        objects.append(pod("held", {WHOLE: "2"}, on="full"))
    counted = capacity(read, state(*objects), CONFIG)
    expected: Mapping[str, int | None] = counts
    if plugins:
        expected = {name: None if count else 0 for name, count in counts.items()}
    assert {each["node"]: each["count"] for each in counted["nodes"]} == {**expected, **plugins}
    assert counted["total"] == (None if plugins else total)
    assert counted["notModelled"] == [f"devices that several nodes can reach of {of}"]


@pytest.mark.parametrize(
    ("asking", "fits"),
    [
        pytest.param(by_template(), [], id="for a claim"),
        pytest.param(pod("p", {WHOLE: "2"}), ["plugin"], id="for the name of a resource"),
    ],
)
def test_more_devices_than_there_are_fit_nowhere_though_several_nodes_reach_them(
    asking: Json, fits: list[str]
) -> None:
    plugin = [node("plugin", {WHOLE: "2"}), gpu_node("plugin", [gpu(0), gpu(1)])]
    explanation = explained(
        asking, device_class(), node("n"), FABRIC, *plugin, claim_template("asked", request(2))
    )
    assert explanation["best"] == fits
    assert {each["reason"] for each in explanation["nodes"] if each["by"] == "kubernetes"} == {
        "cannot allocate all claims"
    }


def test_devices_that_several_nodes_reach_are_given_once() -> None:
    objects = [device_class(), node("a"), node("b"), FABRIC, claim_template("asked")]
    places = nodes_of([by_template(f"p{i}") for i in range(3)], state(*objects))
    assert sorted(map(str, places)) == ["None", "None", "a"]


def test_each_gpu_of_dra_is_given_once() -> None:
    pods = [by_template(f"claim-{i}") for i in range(2)]
    # Three GPUs of DRA and four of the device plugin are free.
    pods += [pod(f"plain-{i}", {WHOLE: "1"}) for i in range(6)]
    places = nodes_of(pods, state(*CLUSTER, claim_template("asked", request())))
    assert {node: places.count(node) for node in ("claimed", "single", "plugin", None)} == {
        "claimed": 2,
        "single": 1,
        "plugin": 4,
        None: 1,
    }


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


def by_templates(*templates: str, **more: Any) -> Json:
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]
    return pod("p", resourceClaims=claims, **more)


def alike(template: Json, *requests: str) -> Json:
    """With devices of one product for these requests."""
    constraint = {"matchAttribute": "gpu.nvidia.com/productName", "requests": list(requests)}
    template["spec"]["spec"]["devices"]["constraints"] = [constraint]
    return template


def choice(*wanted: tuple[str, int | str]) -> Json:
    """The first that is to be had of so many GPUs of a product, or of all."""
    return {
        "name": "choice",
        "firstAvailable": [
            {
                "name": f"s{i}",
                "deviceClassName": "gpu.nvidia.com",
                **({"count": count} if isinstance(count, int) else {"allocationMode": count}),
                "selectors": [{"cel": {"expression": expression}}],
            }
            for i, (expression, count) in enumerate(wanted)
        ],
    }


IS_H100 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"
A100 = "NVIDIA A100-SXM4-80GB"
MIXED = [
    device_class(),
    node("many"),
    resource_slice("many", [gpu_device(i, node="many", product=A100) for i in range(5)]),
    node("few"),
    resource_slice("few", [gpu_device(0), *(gpu_device(i, node="few", product=A100) for i in (1, 2))]),
]
EACH_ITS_OWN = json.loads(json.dumps(FABRIC))
EACH_ITS_OWN["spec"] |= {"allNodes": None, "perDeviceNodeSelection": True}
EACH_ITS_OWN["spec"]["devices"] = [
    gpu_device(0, nodeName="a"),
    gpu_device(1, nodeName="b"),
    gpu_device(2, allNodes=True),
]
SHARED_PAIR = [request(2, capacity={"requests": {"memory": "30Gi"}})]


@pytest.mark.parametrize(
    ("objects", "asking", "counts"),
    [
        pytest.param(
            [*parted({"one": [0], "two": [0, 0]}), claim_template("t", *SHARED_PAIR)],
            by_templates("t"),
            {"one": 0, "two": 2},
            id="a request gets no shared device twice",
        ),
        pytest.param(
            [*parted({"one": [0], "two": [0, 40]}), claim_template("t", part(30), part(30) | {"name": "b"})],
            by_templates("t"),
            {"one": 1, "two": 1},
            id="two requests may",
        ),
        pytest.param(
            [*MIXED, claim_template("t", choice((IS_H100, 1), (IS_A100, 2)))],
            by_templates("t"),
            {"many": 2, "few": 2},
            id="alternatives of one request",
        ),
        pytest.param(
            [*MIXED, claim_template("t", choice((IS_H100, 1), (IS_A100, 2)), request(1, IS_A100))],
            by_templates("t"),
            {"many": 1, "few": 1},
            id="alternatives beside another request",
        ),
        pytest.param(
            [
                *MIXED,
                alike(
                    claim_template("t", choice((IS_H100, 1), (IS_A100, 2)), request(1, IS_A100)),
                    "choice",
                    "gpu",
                ),
            ],
            by_templates("t"),
            {"many": 1, "few": 0},
            id="alternatives with a constraint",
        ),
        pytest.param(
            [
                *MIXED,
                alike(
                    claim_template("t", choice((IS_H100, 1), (IS_A100, 2)), request(1, IS_A100)),
                    "choice/s1",
                ),
            ],
            by_templates("t"),
            {"many": 1, "few": 1},
            id="a constraint of one alternative",
        ),
        pytest.param(
            [
                *MIXED,
                resource_claim("held", on="few", devices=["gpu-2"]),
                claim_template("t", choice((IS_H100, 2), (IS_A100, "All"))),
            ],
            by_templates("t"),
            {"many": 1, "few": 0},
            id="all devices as an alternative",
        ),
        pytest.param(
            [
                *parted({"full": [60], "half": [40]}),
                claim_template("t", request(adminAccess=True, capacity={"requests": {"memory": "30Gi"}})),
            ],
            by_templates("t"),
            {"full": 0, "half": MANY},
            id="a part of a shared device with admin access",
        ),
        pytest.param(
            [*MIXED, claim_template("t", choice((IS_H100, 1), (IS_A100, 2)))],
            by_templates("t", "t"),
            {"many": 1, "few": 1},
            id="two claims choose alternatives of their own",
        ),
        pytest.param(
            [*MIXED, claim_template("any", request()), claim_template("one", request(1, IS_H100))],
            by_templates("any", "one"),
            {"many": 0, "few": 1},
            id="two claims of a pod get different devices",
        ),
        pytest.param(
            [*MIXED, claim_template("any", request(2))],
            by_templates("any", containers=pod("p", {WHOLE: "2"})["spec"]["containers"]),
            {"many": 2, "few": 0},
            id="a claim and a resource get different devices",
        ),
        pytest.param(
            [device_class(), node("a"), node("b"), node("c"), EACH_ITS_OWN, claim_template("t", request(2))],
            by_templates("t"),
            {"a": 1, "b": 1, "c": 0},
            id="each device has nodes of its own",
        ),
        pytest.param(
            [
                *MIXED,
                claim_template("t", request(1, IS_A100)),
                resource_claim("made", request(1, IS_A100), on="many", devices=["gpu-0"], pod="p"),
            ],
            by_templates("t")
            | {"status": {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "made"}]}},
            {"many": 4, "few": 2},
            id="another pod gets another claim than the one that was made",
        ),
        pytest.param(
            [*MIXED, resource_claim("made", request(1, IS_A100))],
            by_templates("t")
            | {"status": {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "made"}]}},
            {"many": 5, "few": 2},
            id="a claim that waits stands for its template",
        ),
    ],
)
def test_what_the_claims_of_a_pod_get(objects: list[Json], asking: Json, counts: Mapping[str, int]) -> None:
    """allocator_incubating.go of k8s.io/dynamic-resource-allocation, whose allocator answers the same."""
    (read,) = read_pods(inventory(asking))
    counted = capacity(read, state(*objects), CONFIG)
    assert {each["node"]: each["count"] for each in counted["nodes"]} == counts


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
        pytest.param({"n": [0, 50]}, [*SHARED_PAIR, part(50)], ["n", "n"], id="two parts are of two GPUs"),
    ],
)
def test_gpus_are_filled_as_kube_scheduler_does(
    held_gi: Held, wanted: list[Json], places: list[str | None]
) -> None:
    templates = [claim_template(f"asked-{i}", each) for i, each in enumerate(wanted)]
    pods = [by_template(f"p{i}", f"asked-{i}") for i in range(len(wanted))]
    assert nodes_of(pods, state(*parted(held_gi), *templates)) == places


def test_gpus_of_hami_are_gpus() -> None:
    """Project-HAMi/k8s-dra-driver: claims share the memory and the cores of a GPU."""
    driver = "hami-core-gpu.project-hami.io"
    device = gpu_device(0, memory="23028Mi", product="NVIDIA A10", allowMultipleAllocations=True)
    device["attributes"]["type"] = {"string": "hami-gpu"}
    device["capacity"]["cores"] = {"value": "100"}
    wanted = request(device_class=driver, capacity={"requests": {"memory": "10Gi", "cores": "50"}})
    objects = [
        device_class(driver, f"device.driver == '{driver}'", extended=None),
        node("n"),
        resource_slice("n", [device], driver=driver),
        claim_template("asked", wanted),
    ]
    (read,) = read_pods(inventory(by_template()))
    assert capacity(read, state(*objects), CONFIG)["total"] == 2
    (found,) = explained(by_template(annotations={f"{ANNOTATION}model": "A10"}), *objects)["nodes"]
    assert (found["verdict"], found["model"]) == ("fits", "A10")


@pytest.mark.parametrize(
    ("used_mib", "verdict", "said"),
    [
        pytest.param(
            None, "rejected", "n GPU 0 is not known: it has no report", id="only slices list the GPU"
        ),
        pytest.param(0, "fits", None, id="an agent measures that it is free"),
        pytest.param(60000, "rejected", "is 19,401 MiB short", id="an agent measures use beside all claims"),
    ],
)
def test_free_memory_is_what_an_agent_measures(used_mib: int | None, verdict: str, said: str | None) -> None:
    report = gpu_node("n", [gpu(0, "GPU-n0")])
    report["status"]["devices"][0]["memory"] |= {"totalMiB": 81559, "usedMiB": used_mib}
    there = [device_class(), node("n"), resource_slice("n", [gpu_device(0, node="n")])]
    wish = {f"{ANNOTATION}min-free-memory": "40Gi"}
    found = explained(
        pod("p", {WHOLE: "1"}, annotations=wish), *there, *([report] if used_mib is not None else [])
    )
    assert found["nodes"][0]["verdict"] == verdict
    assert said is None or said in found["nearest"]["text"]
