"""The debug dump is the whole ledger: every counted holding, with its certainty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import ContainerRole
from scheduler_ext.extender.extender import Extender
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.wire.config import Configuration
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, sliced, wants

ON_0 = {"main": ("GPU-0",)}
PLACED = bound("p", wants(1000, SHARE), devices=ON_0)
BARE = bound("p", wants(1000, SHARE))
TWO_WHOLE = bound("p", wants(2, WHOLE))


def dumped(info: NodeInfo) -> Any:
    """The entry of one node."""
    snapshot = Extender(Configuration()).replace_nodes([info])
    return ledger_dump(snapshot, NAMES)["nodes"].get("n")


def held(info: NodeInfo) -> dict[str, list[tuple[Any, ...]]]:
    """Pod, container, MiB, profile, start and state by GPU."""
    keys = ("uid", "container", "memoryMiB", "profile", "start", "state")
    found = {
        uuid: [tuple(entry[key] for key in keys) for entry in gpu["holdings"]]
        for uuid, gpu in dumped(info)["devices"].items()
    }
    return {uuid: entries for uuid, entries in found.items() if entries}


def unknown(info: NodeInfo) -> list[tuple[Any, ...]]:
    """Pod, container, resource, count and state of holdings on unreported GPUs."""
    keys = ("uid", "container", "resource", "count", "state")
    return [tuple(entry[key] for key in keys) for entry in dumped(info)["unknownDevices"]]


def two(*pods: BoundPod, holders: tuple[Holder, ...] = (), **fields: Any) -> NodeInfo:
    return node(device(0, holders=holders), device(1), pods=pods, **fields)


def test_before_the_first_inventory() -> None:
    assert ledger_dump(None, NAMES) == {"generation": 0, "nodes": {}}


def test_all_that_is_said_of_a_share() -> None:
    snapshot = Extender(Configuration()).replace_nodes([two(PLACED)])
    assert ledger_dump(snapshot, NAMES) == {
        "generation": 1,
        "nodes": {
            "n": {
                "unknownDeviceGpus": 0,
                "unknownDevices": [],
                "unplacedShares": [],
                "departed": [],
                "devices": {
                    "GPU-0": {
                        "totalMiB": 81920,
                        "holdings": [
                            {
                                "uid": "uid-p",
                                "namespace": "ns",
                                "name": "p",
                                "container": "main",
                                "memoryMiB": 1000,
                                "profile": None,
                                "start": None,
                                "state": "Confirmed",
                            }
                        ],
                    },
                    "GPU-1": {"totalMiB": 81920, "holdings": []},
                },
            }
        },
    }


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({"pods": (PLACED,)}, "Confirmed", id="bound"),
        pytest.param({"pods": (PLACED,), "assumed": frozenset({"uid-p"})}, "Assumed", id="being bound"),
        pytest.param({"nominated": (BARE,)}, "Nominated", id="waiting"),
    ],
)
def test_how_sure_a_share_is(fields: dict[str, Any], state: str) -> None:
    info = node(device(0), device(1), **fields)
    assert held(info) == {"GPU-0": [("uid-p", "main", 1000, None, None, state)]}
    assert unknown(info) == []


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({"pods": (TWO_WHOLE,)}, "Confirmed", id="bound"),
        pytest.param({"nominated": (TWO_WHOLE,)}, "Nominated", id="waiting"),
    ],
)
def test_unreported_whole_gpus(fields: dict[str, Any], state: str) -> None:
    info = node(device(0), device(1), **fields)
    assert unknown(info) == [("uid-p", None, WHOLE, 2, state)]
    assert held(info) == {}
    assert dumped(info)["unknownDeviceGpus"] == (0 if state == "Nominated" else 2)


def test_unreported_instances_are_no_gpus() -> None:
    info = node(device(0, mig=sliced(("1g.10gb", 0))), pods=(bound("p", wants(1, ONE_G)),))
    assert [count for _, _, _, count, _ in unknown(info)] == [1]
    assert dumped(info)["unknownDeviceGpus"] == 0


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(Holder(uid="uid-p", container="main"), id="as kubelet says"),
        pytest.param(Holder(uid="uid-p", container="main", memory_mib=500), id="by its use"),
    ],
)
def test_one_of_two_whole_gpus_is_known(holder: Holder) -> None:
    info = two(TWO_WHOLE, holders=(holder,))
    assert unknown(info) == [("uid-p", None, WHOLE, 1, "Confirmed")]
    container = "main" if holder.memory_mib is None else None
    assert held(info) == {"GPU-0": [("uid-p", container, 81920, None, None, "Confirmed")]}


def test_mig_instances_known_and_not() -> None:
    mig = sliced(("1g.10gb", 0), ("1g.10gb", 1), holders={1: Holder(uid="uid-p", container="main")})
    info = node(device(0, mig=mig), pods=(bound("p", wants(2, ONE_G)),), report={"mig_strategy": "mixed"})
    assert held(info) == {"GPU-0": [("uid-p", "main", None, "1g.10gb", 1, "Confirmed")]}
    assert unknown(info) == [("uid-p", None, ONE_G, 1, "Confirmed")]


class TestASharePodThatSomebodyElseBound:
    def test_a_share_that_the_agent_has_not_seen(self) -> None:
        info = two(BARE)
        assert unknown(info) == [("uid-p", "main", SHARE, 1000, "Confirmed")]
        assert held(info) == {}
        assert dumped(info)["unplacedShares"] == ["ns/p"]

    def test_a_share_that_the_agent_saw(self) -> None:
        info = two(BARE, holders=(Holder(uid="uid-p", memory_mib=300),))
        assert unknown(info) == []
        assert held(info) == {"GPU-0": [("uid-p", "main", 1000, None, None, "Confirmed")]}
        assert dumped(info)["unplacedShares"] == ["ns/p"]


def test_each_container_by_itself() -> None:
    pod = bound(
        "p",
        wants(50, SHARE, "first", ContainerRole.INIT),
        wants(10, SHARE),
        wants(20, SHARE, "side"),
        devices={"first": ("GPU-1",), "main": ("GPU-0",), "side": ("GPU-0",)},
    )
    assert held(two(pod)) == {
        "GPU-0": [
            ("uid-p", "main", 10, None, None, "Confirmed"),
            ("uid-p", "side", 20, None, None, "Confirmed"),
        ],
        "GPU-1": [("uid-p", "first", 50, None, None, "Confirmed")],
    }


def test_a_node_that_is_only_waited_for_is_shown() -> None:
    info = NodeInfo("n", nominated=(TWO_WHOLE,))
    assert unknown(info) == [("uid-p", None, WHOLE, 2, "Nominated")]
    assert dumped(info)["devices"] == {}


def test_a_node_without_gpus_and_pods_is_not() -> None:
    assert dumped(NodeInfo("n", allocatable={})) is None


def test_a_departed_pod_is_shown_with_the_memory_that_still_counts() -> None:
    info = two(replace(PLACED, departed=True), holders=(Holder(uid="uid-p", memory_mib=300),))
    assert dumped(info)["departed"] == [
        {"uid": "uid-p", "namespace": "ns", "name": "p", "memoryMiB": {"GPU-0": 300}}
    ]
    assert (held(info), unknown(info)) == ({}, [])
