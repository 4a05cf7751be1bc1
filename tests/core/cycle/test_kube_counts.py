"""The counts of kube-scheduler from a snapshot, compared with its filter."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cycle.cycle import short_by_count
from scheduler_ext.core.intree.resource_fit import shortages
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources.clusterstate import state_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.node_info import node_facts
from scheduler_ext.wire.objects import read_objects, read_pods
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.dra_objects import device_class, gpu_device, resource_slice
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, node, pod

WHOLE, SMALL = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
SHARED = {"gpu.scheduler-ext.io/sharing": "memory"}
CLUSTER = [
    *(gpu_node("free", [gpu(0), gpu(1)]), node("free", {WHOLE: "2"})),
    *(gpu_node("half", [gpu(0), gpu(1)]), node("half", {WHOLE: "2"}), pod("a", {WHOLE: "1"}, on="half")),
    *(gpu_node("withdrawn", [gpu(0), gpu(1)]), node("withdrawn", {WHOLE: "1"})),
    # kubelet counts no use by processes outside of pods.
    *(gpu_node("stranger", [gpu(0, holders=[holder("s")])]), node("stranger", {WHOLE: "1"})),
    *(gpu_node("shares", [gpu(0)]), node("shares", {SHARE: "73728"}, labels=SHARED)),
    pod("b", {SHARE: "60000"}, on="shares", annotations={"devices.gpu.scheduler-ext.io/main": "GPU-0"}),
    node("empty", {}),
    node("unreported", {WHOLE: "4"}),
]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({WHOLE: "1"}, id="one GPU"),
        pytest.param({WHOLE: "2"}, id="two GPUs"),
        pytest.param({SMALL: "1"}, id="MIG instances, which no node has"),
        pytest.param({SHARE: "20000"}, id="a memory share that is not free"),
    ],
)
def test_states_are_short_where_kube_schedulers_filter_finds_too_little(limits: Json) -> None:
    config = Configuration()
    objects = read_objects(inventory(*CLUSTER))
    snapshot = state_of(objects, "a file", config.resource_names()).snapshot(config.sizing())
    (asking,) = read_pods(inventory(pod("p", limits)))
    request, needs = pod_request(asking, config.resource_names()), pod_needs(asking)
    assert isinstance(request, GpuRequest)
    short = short_by_count(request, snapshot)
    pods = objects.pods_by_node()
    for name, each in objects.nodes.items():
        facts = node_facts(each, pods.get(name, ()))
        found = shortages(
            needs.requests,
            allocatable=facts.allocatable,
            requested=facts.requested,
            pod_count=facts.pod_count,
            ignore_resources=frozenset(),
        )
        assert bool(short[snapshot.state_at(name)]) == bool(list(found)), name


def test_devices_of_claims_count_in_place_of_allocatable() -> None:
    config = Configuration()
    cluster = [
        device_class(),
        resource_slice("n", [gpu_device(0), gpu_device(1)]),
        node("n", {}),
    ]
    state = state_of(read_objects(inventory(*cluster)), "a file", ResourceNames())
    snapshot = state.snapshot(config.sizing())

    def short(count: int) -> bool:
        (asking,) = read_pods(inventory(pod("p", {WHOLE: str(count)})))
        request = pod_request(asking, ResourceNames(), state.claims)
        assert isinstance(request, GpuRequest)
        return bool(short_by_count(request, snapshot)[snapshot.state_at("n")])

    assert [short(count) for count in (1, 2, 3)] == [False, False, True]
