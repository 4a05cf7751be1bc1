"""A pod has one value per hour, whichever command shows it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.features.cost.cost_report import ClusterValueCache, cost_report
from scheduler_ext.features.defrag.movable import Rules, movable_pods
from scheduler_ext.features.idle.idle_pods import idle_pod_list
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.views.placed_pods import placed_pods
from scheduler_ext.whatif.whatif import WhatIf
from scheduler_ext.wire.config import Configuration, CostSection
from scheduler_ext.wire.times import time_text
from tests.dra_objects import device_class, gpu_device, resource_claim, resource_slice
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, node, owned, pod
from tests.views.seen import state
from tests.whatif.placing import placed

WHOLE, ONE_G = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
VALUE_LABEL = "gpu.scheduler-ext.io/value"
NOW = 1_800_000_000.0
HOUR, HOURS = 3600, 72
CONFIG = Configuration(values={"T4": 2.0}, cost=CostSection(per_unit=0.5, currency="EUR"))
PLAIN = Configuration()
MIG = {
    "enabled": True,
    "instances": [{"uuid": f"MIG-{i}", "profile": "1g.10gb", "start": i, "size": 1} for i in range(4)],
}
SHARING = node("n", {SHARE: "73728"}, labels={"gpu.scheduler-ext.io/sharing": "memory"})
EIGHTH = {"model": "L4", "total": 2862}
VGPU = {"model": "GRID A100-10C", "total": 10240}
PRICED = node("n", {WHOLE: "1"}, labels={VALUE_LABEL: "1"})


def of_a_cloud(value: str | None = None) -> Json:
    """A machine with an eighth of an L4, and perhaps the price of that."""
    labels = {"node.kubernetes.io/instance-type": "g6f.xlarge"}
    return node("n", {WHOLE: "1"}, labels=labels | ({VALUE_LABEL: value} if value is not None else {}))


def device(*, held: bool, **fields: Any) -> Json:
    """A GPU, or its first MIG instance, on which a pod computed nothing for an hour."""
    where: Json = gpu(0, **fields, idleSeconds=HOUR)
    if held:
        whose = {"namespace": "default", "name": "p", "uid": "uid-p"}
        if "mig" in fields:
            first, *others = fields["mig"]["instances"]
            where["mig"] = fields["mig"] | {"instances": [first | {"holder": whose}, *others]}
        else:
            where["holders"] = [whose]
    return where


def running(asks: dict[str, str]) -> Json:
    on_first = {"devices.gpu.scheduler-ext.io/main": "GPU-0"} if SHARE in asks else {}
    each = pod("p", asks, on="n", annotations=on_first, schedulerName="gpu-scheduler")
    each["status"]["startTime"] = time_text(NOW - HOURS * HOUR)
    return owned(each)


@pytest.mark.parametrize(
    ("asks", "fields", "status", "others", "value"),
    [
        pytest.param({WHOLE: "1"}, {}, {}, [], 1.7, id="a whole GPU"),
        pytest.param({WHOLE: "1"}, {"model": "T4", "total": 15360}, {}, [], 1.0, id="a value of its model"),
        pytest.param({WHOLE: "1"}, {}, {}, [PRICED], 0.5, id="a price of its node"),
        pytest.param({WHOLE: "1"}, EIGHTH, {}, [of_a_cloud()], 0.05, id="an eighth of a GPU, by the cloud"),
        pytest.param(
            {WHOLE: "1"}, EIGHTH, {}, [of_a_cloud("0.2")], 0.1, id="a price of a node with an eighth"
        ),
        pytest.param({WHOLE: "1"}, VGPU, {}, [node("n", {WHOLE: "1"})], 0.3375, id="a quarter, as a vGPU"),
        pytest.param({SHARE: "18432"}, {}, {}, [SHARING], 0.425, id="a quarter of the memory for shares"),
        pytest.param(
            {WHOLE: "1"},
            {},
            {"sharing": {"strategy": "time-slicing", "replicas": 4}},
            [],
            0.425,
            id="one of four time slices",
        ),
        pytest.param(
            {ONE_G: "1"}, {"mig": MIG}, {"migStrategy": "mixed"}, [], 0.425, id="one of four MIG instances"
        ),
    ],
)
def test_the_value_per_hour(
    asks: dict[str, str], fields: Json, status: Json, others: list[Json], value: float
) -> None:
    here = state(gpu_node("n", [device(held=True, **fields)], **status), *others, running(asks))
    snapshot = here.snapshot(CONFIG.sizing())
    (idle,) = idle_pod_list(snapshot.nodes.values(), CONFIG, here.readings, here.facts, NOW)["items"]
    cost = cost_report(snapshot, here.readings, here.facts, CONFIG, NOW)["total"]
    (movable,), _ = movable_pods(here, WhatIf(here, CONFIG), CONFIG, Rules(0.0, NOW))
    assert (idle["valuePerHour"], cost["allocated"], cost["idle"]) == (value, value, value)
    # Of the price of the GPUs, as many of them.
    assert idle["gpus"] == pytest.approx(cost["gpus"] * value / cost["total"], abs=1e-3)
    (listed,) = inventory_list(here.infos.values(), CONFIG)["items"]
    (pod_there,) = placed_pods(snapshot.nodes["n"])
    assert listed["gpus"] == cost["gpus"]
    assert pod_there.gpus == idle["gpus"]
    assert movable.value_at_risk == pytest.approx(value * HOURS)
    empty = state(gpu_node("n", [device(held=False, **fields)], **status), *others)
    (new,) = placed([pod("new", asks)], empty, CONFIG)
    assert new.value_per_hour == pytest.approx(value)


def test_the_pods_of_one_claim_share_the_value_of_its_gpu() -> None:
    claim = resource_claim("c", on="n", devices=["gpu-0"], pod="a")
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "b", "uid": "uid-b"})
    pods = [pod(name, {}, on="n") for name in ("a", "b")]
    for each in pods:
        each["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
        each["status"]["startTime"] = time_text(NOW - HOURS * HOUR)
    published = resource_slice("n", [gpu_device(0)])
    reported = gpu_node("n", [gpu(0, model="T4", idleSeconds=HOUR)])
    there = state(node("n", {}), device_class(), published, reported, claim, *pods)
    snapshot = there.snapshot(CONFIG.sizing())
    found = idle_pod_list(snapshot.nodes.values(), CONFIG, there.readings, there.facts, NOW)
    assert [(item["gpus"], item["valuePerHour"]) for item in found["items"]] == [(0.5, 0.5), (0.5, 0.5)]
    cost = cost_report(snapshot, there.readings, there.facts, CONFIG, NOW)
    assert (cost["total"]["allocated"], cost["total"]["idle"]) == (1.0, 1.0)


def test_the_list_of_idle_pods_has_the_idle_value_of_the_cost_too() -> None:
    """A pod that computes on one of its two GPUs is not idle; its other GPU is."""
    pods = [pod("p", {WHOLE: "2"}, on="n"), pod("q", {WHOLE: "1"}, on="n")]
    for each in pods:
        each["status"]["startTime"] = time_text(NOW - HOUR)
    idle_s = {0: 5, 1: HOUR, 2: HOUR}
    devices = [gpu(i, holders=[holder("q" if i == 2 else "p")], idleSeconds=s) for i, s in idle_s.items()]
    there = state(gpu_node("n", devices), *pods)
    snapshot = there.snapshot(PLAIN.sizing())
    cost = cost_report(snapshot, there.readings, there.facts, PLAIN, NOW)["total"]
    found = idle_pod_list(snapshot.nodes.values(), PLAIN, there.readings, there.facts, NOW)
    assert [each["name"] for each in found["items"]] == ["q"]
    assert found["items"][0]["valuePerHour"] == 3.4
    assert found["idleGpuValue"] == cost["idle"] == 6.8


def test_a_pod_becomes_idle_without_any_change_but_the_time() -> None:
    """As in the list of idle pods: when it has run for the window on a GPU that was idle before."""
    running = pod("p", {WHOLE: "1"}, on="n")
    running["status"]["startTime"] = time_text(NOW - 60)
    there = state(gpu_node("n", [gpu(0, holders=[holder("p")], idleSeconds=2 * HOUR)]), running)
    snapshot, values = there.snapshot(PLAIN.sizing()), ClusterValueCache(PLAIN)
    nodes = snapshot.nodes.values()
    for later_s, idle in ((0, 0.0), (1739, 0.0), (1740, 3.4)):
        now = NOW + later_s
        assert round(values.of(snapshot, there.readings, there.facts, now).total.idle, 2) == idle
        listed = idle_pod_list(nodes, PLAIN, there.readings, there.facts, now)["items"]
        assert sum(each["valuePerHour"] for each in listed) == idle
