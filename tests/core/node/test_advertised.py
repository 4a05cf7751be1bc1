"""The GPU memory that a node of shares advertises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.promisable import advertised_mib, is_of_shares
from scheduler_ext.core.request.request import ContainerRole
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, wants
from tests.strategies import node_infos

# A device of 81920 MiB with a headroom of 10 %.
ROOM = 81920 - 8192


def shares(*devices: Device, **fields: Any) -> NodeInfo:
    """A node of shares with these devices, known to kubelet."""
    known: dict[str, Any] = {"share_node": True, "allocatable": {}}
    return node(*devices, **known | fields)


def placed(mib: int, uuid: str = "GPU-0", name: str = "a") -> BoundPod:
    """A pod with a share on one GPU."""
    return bound(name, wants(mib, SHARE), devices={"main": (uuid,)})


CORDONED = device(0, cordoned=True)
SICK = device(0, cordoned=True, healthy=False)


@pytest.mark.parametrize(
    ("info", "amount"),
    [
        pytest.param(
            shares(CORDONED, pods=(placed(80_000),)), ROOM, id="a cordoned GPU has its room at most"
        ),
        pytest.param(shares(SICK, pods=(placed(30_000),)), 0, id="a GPU that is sick as well has nothing"),
        pytest.param(
            shares(device(0), allocatable={WHOLE: 0, ONE_G: 0, SHARE: 5}), ROOM, id="a plugin that has gone"
        ),
        pytest.param(shares(device(0), allocatable={WHOLE: 1}), None, id="a plugin hands out whole GPUs"),
        pytest.param(shares(device(0), allocatable={ONE_G: 1}), None, id="or MIG instances"),
        pytest.param(
            shares(device(0), allocatable={"nvidia.com/gpu.shared": 4}), None, id="or under another name"
        ),
        pytest.param(shares(device(0), share_node=False), None, id="no node of shares"),
        pytest.param(NodeInfo("n", share_node=True, allocatable={}), None, id="no report"),
    ],
)
def test_the_amount(info: NodeInfo, amount: int | None) -> None:
    assert advertised_mib(info, NAMES, 10) == amount


def test_a_node_is_of_shares_before_it_has_a_report() -> None:
    assert is_of_shares(NodeInfo("n", share_node=True, allocatable={}))


def test_a_cordoned_gpu_leaves_to_kube_scheduler_what_the_others_have_left() -> None:
    init = bound(
        "i",
        wants(50_000, SHARE, "warm", ContainerRole.INIT),
        wants(8000, SHARE),
        devices={"warm": ("GPU-1",), "main": ("GPU-1",)},
    )
    pods = (placed(20_000), placed(10_000, "GPU-1", "b"), init)
    info = shares(device(0), device(1, cordoned=True), pods=pods)
    asked = sum(pod.request.shares.total_mib for pod in pods if pod.request.shares)
    amount = advertised_mib(info, NAMES, 10)
    assert amount is not None
    assert amount - asked == ROOM - 20_000


@given(node_infos(), st.integers(0, 90))
def test_the_advertised_amount_is_the_sum_over_healthy_gpus_at_any_use(
    info: NodeInfo, headroom_percent: int
) -> None:
    info = replace(info, share_node=True, allocatable={}, pods=())
    expected = None
    if info.report is not None:
        expected = 0
        for each in info.report.devices:
            memory = each.memory
            headroom = -(-memory.total_mib * headroom_percent // 100)
            if each.healthy and not each.mig.enabled and not each.cordoned:
                expected += max(0, memory.total_mib - memory.reserved_mib - headroom)
    assert advertised_mib(info, NAMES, headroom_percent) == expected
