"""DRA in the scheduler cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.dra.published import DeviceRequirements, RequestedDevices
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.pod_kinds import TaskClass
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from tests.core.cache.seen import info_of
from tests.core.dra.published import (
    DRIVER,
    GPU_CLASS,
    MIG_CLASS,
    WHOLE,
    claim,
    gpu,
    one_slice,
    waiting,
)
from tests.core.reported import bound

H100 = DeviceRequirements(
    DRIVER, ("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'",)
)
LABELLED = NodeRecord(uid="uid", estimate=Estimate("nvidia", canonical_model("H100"), 1))


def cache_with_node(record: NodeRecord) -> Cache:
    cache = Cache(60.0, 300.0, compile_selectors=DeviceSelector)
    cache.update_node("node", record, 0.0)
    cache.take_changes()
    return cache


def cache_with_gpus(count: int) -> Cache:
    """A cache of a node whose GPUs are published in a slice."""
    cache = cache_with_node(NodeRecord(uid="uid"))
    cache.devices.update_class(GPU_CLASS)
    cache.devices.update_slice(one_slice("node", [gpu(i) for i in range(count)]))
    return cache


def test_slices_and_claims_change_a_node() -> None:
    cache = cache_with_node(NodeRecord(uid="uid"))
    cache.touch_devices(cache.devices.update_class(GPU_CLASS), 1.0)
    assert cache.take_changes() == {}, "no node has devices yet"
    cache.touch_devices(cache.devices.update_slice(one_slice("node", [gpu(0)])), 1.0)
    assert cache.take_changes() == {"node": Cause.REPORT}
    info = info_of(cache, "node")
    assert ([device.uuid for device in info.devices], info.by_claim(WHOLE)) == (["GPU-0"], True)
    cache.touch_devices(cache.devices.update_claim(claim("train", "gpu-0")), 1.0)
    assert cache.take_changes() == {"node": Cause.REPORT}
    assert [each.key for each in info_of(cache, "node").claims] == ["default/train"]


def test_a_node_with_slices_needs_no_agent() -> None:
    cache = cache_with_node(LABELLED)
    cache.devices.update_class(GPU_CLASS)
    cache.touch_devices(cache.devices.update_slice(one_slice("node", [gpu(0)])), 1.0)
    cache.tick(1000.0)
    assert info_of(cache, "node").freshness == "Fresh"
    cache.touch_devices(cache.devices.remove_slice("node-1"), 1001.0)
    assert info_of(cache, "node").freshness == "Missing"


def test_slices_of_unknown_nodes_change_nothing() -> None:
    cache = cache_with_node(LABELLED)
    cache.touch_devices(cache.devices.update_slice(one_slice("other", [gpu(0)])), 1.0)
    assert cache.take_changes() == {}


def test_nodes_learn_new_names_some_at_a_time() -> None:
    cache = Cache(60.0, 300.0, compile_selectors=DeviceSelector)
    cache.devices.update_class(GPU_CLASS)
    names = [f"node-{i:03}" for i in range(250)]
    for name in names:
        cache.update_node(name, NodeRecord(uid=name), 0.0)
        cache.devices.update_slice(one_slice(name, [gpu(0)]))
    cache.take_changes()
    cache.devices.update_claim(waiting("h100", H100))
    cache.touch_devices(["node-000"], 1.0)
    parts = []
    while cache.devices.is_renaming:
        parts.append(list(cache.take_changes()))
    assert [len(part) for part in parts] == [101, 100, 49, 0]
    assert sorted(name for part in parts for name in part) == names
    assert "node-000" in parts[0], "what changed otherwise waits for nothing"


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        pytest.param([(DeviceRequirements(DRIVER), 2)], TaskClass(4000, 2), id="two GPUs"),
        pytest.param([(H100, 1)], TaskClass(4000, 1), id="a GPU with requirements"),
        pytest.param([(DeviceRequirements(DRIVER), 0)], None, id="a number that depends on the node"),
        pytest.param(
            [(DeviceRequirements(DRIVER, capacity=(("memory", "20Gi"),)), 2)],
            TaskClass(4000, shares_mib=(20480, 20480)),
            id="two parts of GPUs",
        ),
        pytest.param(
            [(DeviceRequirements(DRIVER, capacity=(("bandwidth", "20"),)), 1)],
            None,
            id="a part of something else",
        ),
        pytest.param([(DeviceRequirements("mig.nvidia.com"), 1)], None, id="a MIG instance"),
        pytest.param(
            [(DeviceRequirements(DRIVER), 8, False, 0, True), (DeviceRequirements(DRIVER), 1)],
            TaskClass(4000, 1),
            id="a GPU, and admin access to others",
        ),
    ],
)
def test_pods_that_ask_through_claims_are_demand(
    asks: Sequence[tuple[Any, ...]], expected: TaskClass | None
) -> None:
    cache = cache_with_node(NodeRecord(uid="uid"))
    cache.devices.update_class(GPU_CLASS)
    cache.devices.update_class(MIG_CLASS)
    pod = bound("p", cpu_milli=4000)
    pending = PendingPod(pod, "1", "ours", claims=("c",))
    cache.update_pending(pending)
    assert not cache.demand.workload().parts, "its claim is not known yet"
    requests = tuple(RequestedDevices(*each) for each in asks)
    cache.devices.update_claim(replace(waiting("c", asks[0][0]), namespace=pod.namespace, requests=requests))
    for _ in range(2):
        cache.update_pending(pending)
        assert list(cache.demand.workload().parts) == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    "claim_first", [True, False], ids=["the claim is seen first", "the pod is seen first"]
)
def test_running_pods_that_ask_through_claims_are_demand(claim_first: bool) -> None:
    """As after a restart, when nothing was seen waiting."""
    cache = cache_with_gpus(2)
    pod = bound("p", cpu_milli=4000)
    held = replace(
        claim("train", "gpu-0", "gpu-1", pod=pod.uid),
        requests=waiting("train", DeviceRequirements(DRIVER), 2).requests,
    )
    if not claim_first:
        cache.confirm(pod, "node", 1.0)
    cache.touch_devices(cache.devices.update_claim(held), 1.0)
    if claim_first:
        cache.confirm(pod, "node", 1.0)
    for _ in range(2):
        assert list(cache.demand.workload().parts) == [TaskClass(4000, 2)]
        cache.confirm(replace(pod, labels={"a": "b"}), "node", 2.0)
        cache.touch_devices(["node"], 2.0)
    assert cache.demand.seen == 1


def test_running_pods_that_share_a_claim_are_one_demand() -> None:
    cache = cache_with_gpus(1)
    pods = [bound(name) for name in ("p", "q")]
    held = replace(
        claim("train", "gpu-0"),
        requests=waiting("train", DeviceRequirements(DRIVER)).requests,
        pods=tuple((pod.uid, pod.name) for pod in pods),
    )
    cache.touch_devices(cache.devices.update_claim(held), 1.0)
    for pod in pods:
        cache.confirm(pod, "node", 1.0)
    assert cache.demand.seen == 1
