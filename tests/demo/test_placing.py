"""The demo's pods on the sample cluster: as the inventory has them that the demo serves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.cli.demo import raw_pods
from scheduler_ext.demo.placing import DemoInventory, with_pods
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import Objects, read_objects, read_pods
from tests.kube_objects import gpu, gpu_node, inventory, node, pod
from tests.pages import SAMPLE, SAMPLE_PODS

CONFIG = Configuration()
TEXT = SAMPLE_PODS.read_bytes()


def read(inventory: bytes) -> tuple[Objects, ClusterState]:
    objects = read_objects(inventory)
    return objects, state_of(objects, "the sample", CONFIG.resource_names())


@pytest.fixture(scope="module")
def placed() -> DemoInventory:
    _, before = read(SAMPLE.read_bytes())
    return with_pods(SAMPLE.read_bytes(), list(raw_pods(TEXT)), read_pods(TEXT), before, 1_800_000_000.0)


def test_pods_that_fit_run_and_the_others_wait(placed: DemoInventory) -> None:
    objects, after = read(placed.inventory)
    nodes = {pod.metadata.name: pod.spec.node_name for pod in objects.pods if pod.metadata and pod.spec}
    expected = {
        "one-gpu": "t4-01",
        "train-8": "h100-02",
        "a100-else-h100": "a100-01",
        "big-and-new": "h100-01",
        "urgent": "t4-01",
        "batch": "a100-40-01",
        "mig-small": "mig-a100-01",
        "mig-half-rtx": "mig-rtx-01",
        "share-8g": "share-l4-01",
        "two-shares": "share-l4-02",
    }
    waiting = {"three-a100", "t4-new-cuda", "mig-two-large", "share-40g", "unit-forgotten"}
    assert {name: nodes[name] for name in (*expected, *waiting)} == expected | dict.fromkeys(waiting)
    assert (placed.running, placed.waiting) == (len(expected), len(waiting))
    assert {each.pod.name for each in after.pending} == waiting


def test_the_gpus_of_each_pod_are_known(placed: DemoInventory) -> None:
    _, after = read(placed.inventory)
    items: list[dict[str, Any]] = inventory_list(after.infos.values(), CONFIG)["items"]
    assert {item["node"]: item["unattributed"] for item in items if item["unattributed"]} == {}
    of = {item["node"]: item for item in items}
    full = [device["memory"]["freeMiB"] == 0 for device in of["h100-02"]["devices"]]
    assert full == [True] * 8, "train-8 has all of it"


def test_a_kubelet_gives_no_sick_gpu_to_a_pod() -> None:
    devices = [gpu(0, health={"state": "Unhealthy", "reason": "XID 79"}), gpu(1)]
    documents = gpu_node("n", devices), node("n", {"nvidia.com/gpu": "1"})
    nodes = "\n---\n".join(map(json.dumps, documents)).encode()
    manifest = pod("one", {"nvidia.com/gpu": "1"})
    _, before = read(nodes)
    placed = with_pods(nodes, [manifest], read_pods(inventory(manifest)), before, 1_800_000_000.0)
    _, after = read(placed.inventory)
    (item,) = inventory_list(after.infos.values(), CONFIG)["items"]
    assert [device["memory"]["requestedMiB"] for device in item["devices"]] == [0, 81920]
    assert item["unattributed"] == [], "which is known"


def test_no_more_is_promised_than_there_is(placed: DemoInventory) -> None:
    _, after = read(placed.inventory)
    for item in inventory_list(after.infos.values(), CONFIG)["items"]:
        for device in item["devices"]:
            memory = device["memory"]
            if memory["requestedMiB"] is not None:
                assert memory["requestedMiB"] + memory["freeMiB"] <= memory["totalMiB"]
