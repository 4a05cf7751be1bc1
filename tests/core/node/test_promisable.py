"""Promises never exceed a node's capacity, and filters never accept too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cycle.placement import SharePlacement, Sizing, place, place_nominated
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import share, whole
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import SHARE, WHOLE, bound, device, sliced, wants
from tests.strategies import MIG_RESOURCES, RESOURCES, node_infos, requests

ROOM = {WHOLE: 8, SHARE: 10**6, "nvidia.com/mig-1g.10gb": 8}
ON_0 = {"c0": ("GPU-0",)}
TWO = (device(0, memory=Memory(1000)), device(1, memory=Memory(1000)))
TEN = tuple(device(i) for i in range(10))
HELD = (device(0, holders=(Holder(uid="a pod"),)),)
CUT = (device(0, mig=sliced(("1g.10gb", 0))),)


def inventory(*devices: Device) -> Cache:
    """Node a with this report; without a report if there are no devices."""
    return cache_with(*devices, allocatable=ROOM)


def asking(request: GpuRequest, devices: Mapping[str, tuple[str, ...]] | None = None) -> BoundPod:
    return BoundPod("uid-p", "ns", "p", 0, request, devices or {})


@pytest.mark.parametrize(
    ("devices", "pod", "says"),
    [
        pytest.param(TWO, asking(whole(3)), "3 nvidia.com/gpu would be promised where 2 are left", id="GPUs"),
        pytest.param(TEN, asking(whole(9)), "where 8 are left", id="more than kubelet hands out"),
        pytest.param((), asking(whole(1)), "where 0 are left", id="where no GPU is known at all"),
        pytest.param(
            TWO,
            asking(share(10), {"c0": ("GPU-x",)}),
            "the share of container c0 would be on GPU-x, which the node does not have",
            id="a share on a GPU of somewhere else",
        ),
        pytest.param(
            HELD, asking(share(10), ON_0), "GPU GPU-0 would be shared, and is held whole", id="a held GPU"
        ),
        pytest.param(TWO, asking(share(-5), ON_0), f"-5 is no amount of {SHARE}", id="less than nothing"),
        pytest.param(
            CUT, asking(share(10), ON_0), "GPU GPU-0 would be promised 10 of 0 MiB", id="a partitioned GPU"
        ),
    ],
)
def test_too_much_raises_and_nothing_is_promised(
    devices: tuple[Device, ...], pod: BoundPod, says: str
) -> None:
    built = inventory(*devices)
    before = built.info("a")
    with pytest.raises(OverAllocationError, match="pod ns/p on node a: ") as raised:
        built.assume(Intent(pod, "1", "me"), "a")
    assert says in str(raised.value)
    assert built.info("a") == before
    assert not built.assumed()


def test_on_a_node_that_is_not_there() -> None:
    with pytest.raises(OverAllocationError, match="there is no such node"):
        inventory().assume(Intent(asking(share(1), ON_0), "1", "me"), "b")


def test_shares_beside_unreported_whole_gpus() -> None:
    built = inventory(*TWO)
    built.confirm(bound("w", wants(1, WHOLE)), "a", 0.0)
    both = asking(share(10, 10), {"c0": ("GPU-0",), "c1": ("GPU-1",)})
    with pytest.raises(OverAllocationError, match="may be one that is held whole"):
        built.assume(Intent(both, "1", "me"), "a")
    built.assume(Intent(asking(share(10), ON_0), "1", "me"), "a")


def test_a_gpu_with_shares_may_have_more_of_them_beside_whole_ones_elsewhere() -> None:
    built = inventory(*TWO)
    built.assume(Intent(asking(share(10), ON_0), "1", "me"), "a")
    built.confirm(bound("w", wants(1, WHOLE)), "a", 0.0)
    built.assume(Intent(replace(asking(share(10), ON_0), uid="uid-q"), "1", "me"), "a")
    with pytest.raises(OverAllocationError, match="where 0 are left"):
        built.assume(Intent(replace(asking(whole(1)), uid="uid-r"), "1", "me"), "a")


def test_facts_made_by_other_programs_never_raise() -> None:
    built = inventory(*TWO)
    built.confirm(bound("w", wants(5, WHOLE)), "a", 0.0)
    built.update_intents("a", [Intent(asking(share(5000), {"c0": ("GPU-x",)}), "1", "other")])
    assert {pod.name for pod in info_of(built).pods} == {"w", "p"}


def test_a_waiting_pod_holds_nothing_against_pods_that_filters_pass() -> None:
    built = inventory(*TWO)
    built.nominate(bound("w", wants(2, WHOLE)), "a")
    built.nominate(bound("s", wants(1000, SHARE), devices={"main": ("GPU-0",)}), "a")
    built.assume(Intent(asking(share(1000), ON_0), "1", "me"), "a")
    built.assume(Intent(replace(asking(whole(1)), uid="uid-q"), "1", "me"), "a")


def of(info: NodeInfo) -> Cache:
    """An inventory with one node in this state."""
    everything = dict.fromkeys((WHOLE, "nvidia.com/gpu.shared", "amd.com/gpu", *MIG_RESOURCES, SHARE), 2**20)
    allocatable = everything if info.allocatable is None else dict(info.allocatable)
    built = Cache(1000, 2000, RESOURCES)
    built.update_node("a", NodeRecord(uid="n", allocatable=allocatable, estimate=info.estimate), 0.0)
    if info.report is not None:
        built.update_report("a", info.report, 0.0, 0.0)
    for pod in info.pods:
        built.confirm(pod, "a", 0.0)
    return built


@given(
    info=node_infos(),
    asked=st.lists(st.tuples(requests(), st.sampled_from((0, 1, 100)), st.booleans()), max_size=6),
    headroom_percent=st.sampled_from((0, 10)),
)
def test_filters_never_accept_too_much(
    info: NodeInfo, asked: list[tuple[GpuRequest, int, bool]], headroom_percent: int
) -> None:
    sizing = Sizing(SchedulingPolicy(), RESOURCES, headroom_percent)
    built = of(info)
    for i, (request, priority, waits) in enumerate(asked):
        pod = BoundPod(f"uid-{i}", "default", f"new-{i}", priority, request)
        if waits:
            built.nominate(pod, "a")
            continue
        known = info_of(built)
        seen = with_nominated_pods(
            place_nominated(known, sizing) if known.nominated else known, pod.uid, priority
        )
        found = place(seen, request, sizing)
        if isinstance(found, SharePlacement):
            built.assume(Intent(replace(pod, devices=found.devices), "1", "me"), "a")
            assert (pod.uid, "1") in built.assumed_on("a")
