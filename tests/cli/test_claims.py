"""explain, capacity and simulate cluster for pods with ResourceClaims, on an inventory file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Written, run
from tests.dra_objects import (
    claim_template,
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
    taint_rule,
)
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod

WHOLE = "nvidia.com/gpu"
A100 = "NVIDIA A100-SXM4-80GB"
IS_A100 = "device.attributes['gpu.nvidia.com'].productName.contains('A100')"
FROM_TEMPLATE = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "asked"}])


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Four H100s, two of them held by claims; an A100; and four A100s of a device plugin."""
    path = tmp_path / "inventory.json"
    path.write_bytes(
        inventory(
            device_class(),
            node("claimed"),
            resource_slice("claimed", [gpu_device(i, node="claimed") for i in range(4)]),
            resource_claim("held", on="claimed", devices=["gpu-0", "gpu-1"]),
            node("single"),
            resource_slice("single", [gpu_device(0, node="single", product=A100)]),
            node("plugin", {WHOLE: "4"}),
            gpu_node("plugin", [gpu(i, f"GPU-plugin-{i}") for i in range(4)]),
        )
    )
    return path


def asked(written: Written, *requests: Json) -> Path:
    """A file with a pod, and the template of its claim."""
    return written("pod.json", inventory(claim_template("asked", *requests), FROM_TEMPLATE).decode())


def explain(cluster: Path, pods: Path) -> Json:
    result = run("explain", "-f", pods, "--inventory", cluster, "-o", "json")
    assert result.exit_code in (0, 3), result.output
    found: Json = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("requests", "fits"),
    [
        pytest.param([request(2)], {"claimed"}, id="two GPUs of one node"),
        pytest.param([request(3)], set(), id="more than any node has free"),
        pytest.param([request(1, IS_A100)], {"single"}, id="a GPU of one product"),
        pytest.param(
            [request(device_class="unknown.example.com")],
            {"claimed", "plugin", "single"},
            id="a class without GPUs is left to kube-scheduler",
        ),
    ],
)
def test_where_a_claim_fits(cluster: Path, written: Written, requests: list[Json], fits: set[str]) -> None:
    explanation = explain(cluster, asked(written, *requests))
    found = {each["node"] for each in explanation["nodes"] if each["verdict"] == "fits"}
    assert found == fits


def test_the_table_says_by_claim_beside_by_device_plugin(cluster: Path, written: Written) -> None:
    result = run("explain", "-f", asked(written, request(2)), "--inventory", cluster)
    assert result.stdout.startswith("Pod default/train asks 2 of gpu.nvidia.com by claim\n")
    assert "2 by claim" in result.stdout
    assert "needs 2, has 1 gpu.nvidia.com" in result.stdout
    plain = written("plain.json", json.dumps(pod("plain", {WHOLE: "1"})))
    table = run("explain", "-f", plain, "--inventory", cluster).stdout
    ways = {line.split()[0]: line for line in table.splitlines() if " fits " in line}
    assert "main: 1 by claim" in ways["claimed"]
    assert "main: 1 by device plugin" in ways["plugin"]


def test_a_claim_in_the_inventory(cluster: Path, written: Written) -> None:
    found = json.loads(cluster.read_bytes())
    found["items"].append(resource_claim("own", request(2)))
    cluster.write_text(json.dumps(found))
    named = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimName": "own"}])
    assert explain(cluster, written("pod.json", json.dumps(named)))["best"] == ["claimed"]


@pytest.mark.parametrize(
    ("requests", "feature"),
    [
        pytest.param(
            [{"name": "gpu", "firstAvailable": [{"name": "one", "deviceClassName": "gpu.nvidia.com"}]}],
            "firstAvailable",
            id="alternatives",
        ),
    ],
)
def test_what_is_not_modelled_is_named(
    cluster: Path, written: Written, requests: list[Json], feature: str
) -> None:
    explanation = explain(cluster, asked(written, *requests))
    assert explanation["notModelled"] == [f"{feature} of ResourceClaimTemplate default/asked"]


@pytest.mark.parametrize(
    ("requests", "features"),
    [
        pytest.param(
            [request(adminAccess=True)],
            ["adminAccess of ResourceClaimTemplate default/asked"],
            id="a claim of devices that stay free for others",
        ),
        pytest.param(
            [request(1, "device.attributes['gpu.nvidia.com'].rdma == true")],
            [
                'a selector (selectors[0].cel.expression: Key not found in map : "rdma": test with has()'
                " whether the device has the attribute) of ResourceClaimTemplate default/asked"
            ],
            id="a selector that fails for some device",
        ),
    ],
)
def test_what_kube_scheduler_alone_knows_is_named(
    cluster: Path, written: Written, requests: list[Json], features: list[str]
) -> None:
    assert explain(cluster, asked(written, *requests))["notModelled"] == features


def test_a_class_that_fails_is_named_for_its_resource(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "cluster.json"
    failing = device_class(expression="device.attributes['gpu.nvidia.com'].rdma == true")
    path.write_bytes(inventory(failing, node("n"), resource_slice("n", [gpu_device(0)])))
    (feature,) = explain(path, written("pod.json", json.dumps(pod("p", {WHOLE: "1"}))))["notModelled"]
    assert feature.startswith('a selector (selectors[0].cel.expression: Key not found in map : "rdma"')
    assert feature.endswith("of the DeviceClass of nvidia.com/gpu")


SHARED = [{"name": "gpu", "resourceClaimName": "shared"}]


def test_a_claim_that_holds_a_device_ties_its_pods_to_the_node(cluster: Path, written: Written) -> None:
    found = json.loads(cluster.read_bytes())
    found["items"].append(resource_claim("shared", on="single", devices=["gpu-0"], pod="first"))
    cluster.write_text(json.dumps(found))
    explanation = explain(cluster, written("pod.json", json.dumps(pod("second", resourceClaims=SHARED))))
    assert explanation["best"] == ["single"]
    assert explanation["counts"] == {"resourceclaim not available on the node": 2}


def test_pods_that_share_a_claim_share_its_device(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "cluster.json"
    slices = [resource_slice(name, [gpu_device(0, node=name)]) for name in ("a", "b")]
    path.write_bytes(
        inventory(device_class(), node("a"), node("b"), *slices, resource_claim("shared", request()))
    )
    sharing = [pod(f"p{i}", resourceClaims=SHARED) for i in range(3)]
    lot = written("pods.json", inventory(*sharing, pod("alone", {WHOLE: "1"})).decode())
    result = run("simulate", "cluster", "--cluster", path, "--pods", lot, "-o", "json")
    places = [item["node"] for item in json.loads(result.stdout)["items"]]
    assert places[0] == places[1] == places[2]
    assert {*places} == {"a", "b"}


def test_capacity_counts_what_claims_leave(cluster: Path, written: Written) -> None:
    result = run("capacity", "-f", asked(written, request()), "--inventory", cluster, "-o", "json")
    counted = json.loads(result.stdout)
    assert {each["node"]: each["count"] for each in counted["nodes"]} == {
        "claimed": 2,
        "single": 1,
        "plugin": 0,
    }


def test_a_simulation_gives_each_gpu_of_dra_once(cluster: Path, written: Written) -> None:
    template = claim_template("asked", request())
    pods = [pod(f"claim-{i}", resourceClaims=FROM_TEMPLATE["spec"]["resourceClaims"]) for i in range(2)]
    # Three GPUs of DRA and four of the device plugin are free.
    pods += [pod(f"plain-{i}", {WHOLE: "1"}) for i in range(6)]
    lot = written("pods.json", inventory(template, *pods).decode())
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", lot, "-o", "json")
    assert result.exit_code == 3
    places = [item["node"] for item in json.loads(result.stdout)["items"]]
    assert places.count(None) == 1
    assert {node: places.count(node) for node in ("claimed", "single", "plugin")} == {
        "claimed": 2,
        "single": 1,
        "plugin": 4,
    }


HELD = resource_claim("held", on="n", devices=["gpu-0"], pod="low")
BY_CLAIM: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}]}


@pytest.mark.parametrize(
    ("objects", "asking", "evicted"),
    [
        pytest.param(
            [node("n", {WHOLE: "1"}), gpu_node("n", [gpu(0)]), pod("low", {WHOLE: "1"}, on="n")],
            pod("high", {WHOLE: "1"}, priority=9),
            ["default/low"],
            id="a device plugin's GPU",
        ),
        pytest.param(
            [node("n"), resource_slice("n", [gpu_device(0)]), HELD, pod("low", on="n", **BY_CLAIM)],
            pod("high", {WHOLE: "1"}, priority=9),
            [],
            id="a GPU by claim, asked by its resource: kube-scheduler evicts nobody for devices",
        ),
        pytest.param(
            [
                node("n", {"cpu": "4"}),
                resource_slice("n", [gpu_device(0)]),
                pod("low", {"cpu": "3"}, on="n"),
            ],
            pod("high", {WHOLE: "1", "cpu": "3"}, priority=9),
            ["default/low"],
            id="the CPU beside a free GPU of DRA",
        ),
    ],
)
def test_who_is_evicted(
    tmp_path: Path, written: Written, objects: list[Json], asking: Json, evicted: list[str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(inventory(device_class(), *objects))
    pods = written("pods.json", inventory(claim_template("asked", request()), asking).decode())
    result = run("simulate", "cluster", "--cluster", path, "--pods", pods, "-o", "json")
    (item,) = json.loads(result.stdout)["items"]
    assert (item["node"], item["victims"]) == ("n" if evicted else None, evicted), result.output


def test_a_pool_that_is_published_in_part_is_named(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "cluster.json"
    half = resource_slice("n", [gpu_device(0)], generation=3, slices=2)
    path.write_bytes(inventory(device_class(), node("n"), half))
    note = "n: pool n has 1 of 2 ResourceSlices of generation 3; its GPUs are not counted"
    explanation = explain(path, written("pod.json", json.dumps(pod("p", {WHOLE: "1"}))))
    assert (explanation["fits"], explanation["warnings"]) == (False, [note])
    assert f"Note: {note}\n" in run("inventory", "--inventory", path).stdout


def test_devices_of_several_nodes_are_named(cluster: Path, written: Written) -> None:
    found = json.loads(cluster.read_bytes())
    fabric = resource_slice("fabric", [gpu_device(9)])
    fabric["spec"] |= {"nodeName": None, "allNodes": True}
    found["items"].append(fabric)
    cluster.write_text(json.dumps(found))
    assert explain(cluster, asked(written, request()))["notModelled"] == [
        "devices that several nodes can reach of ResourceClaimTemplate default/asked"
    ]


@pytest.mark.parametrize(
    ("second", "features"),
    [
        pytest.param(request(1, IS_A100), ["several requests for the same devices"], id="GPUs of one class"),
        pytest.param(request(device_class="nic.example.com"), [], id="a GPU and a network device"),
    ],
)
def test_two_requests_of_a_claim(cluster: Path, written: Written, second: Json, features: list[str]) -> None:
    found = json.loads(cluster.read_bytes())
    nic = resource_slice("single", [{"name": "nic-0"}], name="nics", driver="nic.example.com")
    nics = device_class("nic.example.com", "device.driver == 'nic.example.com'", extended=None)
    found["items"] += [nics, nic]
    cluster.write_text(json.dumps(found))
    explanation = explain(cluster, asked(written, request(), second | {"name": "second"}))
    assert explanation["notModelled"] == features


def test_a_rule_closes_a_device(cluster: Path, written: Written) -> None:
    found = json.loads(cluster.read_bytes())
    found["items"].append(taint_rule("sick", driver="gpu.nvidia.com", pool="single"))
    cluster.write_text(json.dumps(found))
    explanation = explain(cluster, asked(written, request()))
    assert explanation["best"] == ["claimed"]
