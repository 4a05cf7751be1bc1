"""The free units that allocatable does not cover."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.views.node_usage import node_usage
from tests.core.asked import labelled
from tests.core.reported import A100, NAMES, ONE_G, SHARE, SHARED, WHOLE, bound, device, node, sliced, wants
from tests.dra_objects import device_class, gpu_device, resource_slice
from tests.free_memory import clusters_with_closed_parts
from tests.kube_objects import node as node_object
from tests.views.seen import info_of

EIGHT = node(*(device(i) for i in range(8)))
LABELLED = labelled("NVIDIA-A100-SXM4-80GB")
TWO_HELD = (bound("p", wants(2, WHOLE)),)
THREE_SLICES = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2))
MIXED = node(device(0, mig=THREE_SLICES), report={"mig_strategy": "mixed"})
SINGLE = node(device(0, mig=THREE_SLICES), report={"mig_strategy": "single"})
REPLICAS = {"sharing_strategy": "time-slicing", "replicas": 4}
SICK = node(*(device(i, healthy=i < 6) for i in range(8)))
CORDONED = node(*(device(i, cordoned=i == 0) for i in range(8)))
ON_THE_CORDONED = (bound("p", wants(1, WHOLE), devices={"main": ("GPU-0",)}),)
CLAIMED = info_of(
    node_object("n", {}), device_class(extended=None), resource_slice("n", [gpu_device(i) for i in range(2)])
)


@pytest.mark.parametrize(
    ("info", "beyond"),
    [
        pytest.param(EIGHT, {}, id="nothing is known to be withheld without a Node object"),
        pytest.param(replace(EIGHT, allocatable={WHOLE: 8}), {}, id="nor where all GPUs are offered"),
        pytest.param(
            replace(EIGHT, allocatable={WHOLE: 6}), {WHOLE: 2}, id="GPUs beyond those of allocatable"
        ),
        pytest.param(replace(EIGHT, allocatable={}), {WHOLE: 8}, id="all of them without a device plugin"),
        pytest.param(
            replace(EIGHT, allocatable={WHOLE: 6}, pods=TWO_HELD),
            {WHOLE: 2},
            id="beside those that pods hold",
        ),
        pytest.param(
            replace(EIGHT, allocatable={WHOLE: 1}, pods=TWO_HELD),
            {WHOLE: 6},
            id="also if pods hold withheld ones",
        ),
        pytest.param(replace(SICK, allocatable={WHOLE: 6}), {}, id="sick GPUs are the withheld ones"),
        pytest.param(
            replace(CORDONED, allocatable={WHOLE: 8}), {WHOLE: 7}, id="a free cordoned GPU withholds all"
        ),
        pytest.param(
            replace(CORDONED, allocatable={WHOLE: 8}, pods=ON_THE_CORDONED), {}, id="one that is held none"
        ),
        pytest.param(
            replace(LABELLED, allocatable={WHOLE: 6}), {WHOLE: 2}, id="also of GPUs known by labels"
        ),
        pytest.param(
            NodeInfo("n", estimate=Estimate("amd", A100, 8), allocatable={"amd.com/gpu": 6}),
            {"amd.com/gpu": 2},
            id="and of other vendors",
        ),
        pytest.param(
            node(device(0), device(1), report=REPLICAS, allocatable={WHOLE: 0, SHARED: 5}),
            {SHARED: 3},
            id="replicas, under the name that is offered",
        ),
        pytest.param(replace(MIXED, allocatable={ONE_G: 1}), {ONE_G: 2}, id="instances of a profile"),
        pytest.param(
            replace(SINGLE, allocatable={WHOLE: 2}), {WHOLE: 1}, id="instances that are called GPUs"
        ),
        pytest.param(
            replace(EIGHT, allocatable={SHARE: 99}, share_node=True), {}, id="shares need no device plugin"
        ),
        pytest.param(CLAIMED, {}, id="nor do claims"),
    ],
)
def test_units_beyond_allocatable(info: NodeInfo, beyond: dict[str, int]) -> None:
    assert dict(resolve(info, NAMES, 10).state.beyond) == beyond


offered = st.dictionaries(st.sampled_from((WHOLE, SHARED, ONE_G, "amd.com/gpu")), st.integers(0, 9))


def counts_by_number(info: NodeInfo) -> bool:
    """Whether the node's GPUs are alike, so that it does not matter which of them are held or withheld."""
    devices = info.devices
    in_service = all(each.healthy for each in devices) or not info.pods
    whole = not any(each.mig.enabled for each in devices)
    return in_service and whole and len({each.vendor for each in devices}) == 1


@given(clusters_with_closed_parts(), offered)
def test_the_free_gpus_of_a_view_are_those_of_the_node(
    infos: tuple[NodeInfo, ...], offered: dict[str, int]
) -> None:
    for info in filter(counts_by_number, infos):
        found = resolve(replace(info, allocatable=offered), NAMES, 10)
        usage = node_usage(found, NAMES, 10)
        assert sum(each.free for each in usage.by_model.values()) == found.free_gpus
