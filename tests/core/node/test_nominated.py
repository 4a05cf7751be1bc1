"""Pods that wait for a node: the pods that they count against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.cycle.placement import Sizing, place_nominated
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import with_nominated_pods
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants


def waiting(name: str = "w", priority: int = 100, **fields: object) -> BoundPod:
    return bound(name, wants(1, WHOLE), priority=priority, **fields)


def names(info: NodeInfo) -> list[str]:
    return [pod.name for pod in info.pods]


HELD = bound("held", wants(1, WHOLE))
OWN = bound("own", wants(1, WHOLE))


@pytest.mark.parametrize(
    ("nominated", "uid", "priority", "seen"),
    [
        pytest.param((waiting(priority=100),), "u", 100, ["held", "own", "w"], id="one of its own does"),
        pytest.param((waiting(priority=100),), "u", 101, ["held", "own"], id="a lower one does not"),
        pytest.param((waiting(priority=100),), "uid-w", 1, ["held", "own"], id="nor does it itself"),
        pytest.param((), "uid-own", 1, ["held"], id="its own holdings are its own"),
        pytest.param((replace(HELD, priority=100),), "u", 1, ["held", "own"], id="who is bound holds once"),
        pytest.param((waiting(),), "", 1, ["held", "own", "w"], id="a pod without a uid is no other pod"),
    ],
)
def test_the_pods_that_count_against_a_pod(
    nominated: tuple[BoundPod, ...], uid: str, priority: int, seen: list[str]
) -> None:
    info = node(device(0), pods=(HELD, OWN), nominated=nominated)
    found = with_nominated_pods(info, uid, priority)
    assert names(found) == seen
    assert with_nominated_pods(found, uid, priority) == found


def test_where_nothing_applies_the_node_is_the_same_object() -> None:
    info = node(device(0), nominated=(waiting(priority=1),))
    assert with_nominated_pods(info, "uid-me", 50) is info


@pytest.mark.parametrize(
    ("priority", "terminating", "devices"),
    [
        pytest.param(1, True, {"main": ("GPU-0",)}, id="a lower pod that leaves makes room"),
        pytest.param(1, False, {}, id="a lower pod that stays does not"),
        pytest.param(101, True, {}, id="nor does a higher one that leaves"),
    ],
)
def test_a_share_that_waits_has_the_gpu_of_pods_that_leave_for_it(
    priority: int, terminating: bool, devices: dict[str, tuple[str, ...]]
) -> None:
    here = bound("here", wants(70_000, SHARE), priority=priority, devices={"main": ("GPU-0",)})
    waits = bound("w", wants(60_000, SHARE), priority=100)
    waits = replace(waits, request=replace(waits.request, priority=100))
    info = node(device(0), pods=(replace(here, terminating=terminating),), nominated=(waits,))
    (found,) = place_nominated(info, Sizing(SchedulingPolicy(), NAMES, 10)).nominated
    assert found.devices == devices
