"""Holders on a node: pods matched with the agent's observations, and the unknown rest."""

from __future__ import annotations

import pytest

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import ContainerRequest, ContainerRole
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, sliced, wants

BY_UID = Holder(uid="uid-a")
BY_NAME = Holder(namespace="ns", name="a")
RENAMED = Holder(uid="uid-a", namespace="old", name="renamed")
NAMESAKE = Holder(uid="uid-z", namespace="ns", name="a")
USER = Holder(uid="uid-a", memory_mib=500)
STRANGER = Holder(uid="uid-z", memory_mib=700)


def held_on(*devices: Device, pods: tuple[BoundPod, ...] = (), mig_strategy: str = "none") -> Holdings:
    return holdings_of(node(*devices, pods=pods, report={"mig_strategy": mig_strategy}), NAMES)


def units(held: Holdings) -> list[int]:
    return [device.units for device in held.devices.values()]


def promised(held: Holdings) -> list[int]:
    return [device.requested_mib for device in held.devices.values()]


def foreign(held: Holdings) -> list[int]:
    return [device.foreign_mib for device in held.devices.values()]


def seen_on(holders: list[list[Holder]], *pods: BoundPod) -> Holdings:
    """The holdings of these pods where each GPU has these holders."""
    return held_on(*(device(i, holders=tuple(here)) for i, here in enumerate(holders)), pods=pods)


@pytest.mark.parametrize(
    ("holders", "asked", "expected"),
    [
        pytest.param([[], [BY_NAME]], 1, ([0, 1], [0, 0], 0), id="a pod is found by namespace and name"),
        pytest.param([[], [RENAMED]], 1, ([0, 1], [0, 0], 0), id="by its uid where both stand"),
        pytest.param([[NAMESAKE]], 1, ([1], [0], 1), id="a holder with another uid is another pod"),
        pytest.param([[STRANGER]], 1, ([0], [700], 1), id="which may only use memory"),
        pytest.param(
            [[BY_NAME, USER], [BY_NAME], [USER]],
            2,
            ([1, 1, 0], [0, 0, 500], 0),
            id="kubelet's allocation goes before observed use",
        ),
        pytest.param([[BY_NAME, BY_NAME, USER], []], 2, ([2, 0], [0, 0], 0), id="two time slices of one GPU"),
        pytest.param([[USER, USER], []], 2, ([1, 0], [0, 0], 1), id="without kubelet's word one for a GPU"),
        pytest.param([[BY_UID]] * 3, 2, ([1, 1, 0], [0, 0, 0], 0), id="never more devices than it asks"),
    ],
)
def test_whole_gpus_are_found_where_the_agent_saw_their_pod(
    holders: list[list[Holder]], asked: int, expected: tuple[list[int], list[int], int]
) -> None:
    held = seen_on(holders, bound("a", wants(asked, WHOLE)))
    assert (units(held), foreign(held), held.unknown[WHOLE]) == expected
    assert not any(promised(held))
    assert held.requested[WHOLE] == asked


def test_gpus_of_another_vendor_are_not_the_ones_asked() -> None:
    pods = (bound("a", wants(1, "amd.com/gpu")),)
    held = held_on(device(0, holders=(BY_UID,)), pods=pods)
    assert units(held) == [0]
    assert held.unknown["amd.com/gpu"] == 1


def test_finished_pods_hold_nothing_whatever_an_old_report_says() -> None:
    mig = sliced(("1g.10gb", 0), holders={0: BY_UID})
    containers = (wants(1, WHOLE), wants(1, ONE_G, "mig"), wants(100, SHARE, "share"))
    pods = (bound("a", *containers, finished=True, devices={"share": ("GPU-0",)}),)
    held = held_on(device(0, holders=(BY_UID,)), device(1, mig=mig), pods=pods, mig_strategy="mixed")
    assert (units(held), promised(held)) == ([0, 0], [0, 0])
    assert held.devices["GPU-1"].instances == set()
    assert not held.requested


@pytest.mark.parametrize(
    ("strategy", "held_at", "asked", "expected"),
    [
        pytest.param("mixed", 1, ONE_G, ("MIG-1", 0), id="an instance is found by its holder"),
        pytest.param("mixed", 2, ONE_G, ("MIG-2", 1), id="one of another profile is not the one asked"),
        pytest.param("single", 0, WHOLE, ("MIG-0", 0), id="under strategy single a GPU is an instance"),
    ],
)
def test_instances(strategy: str, held_at: int, asked: str, expected: tuple[str, int]) -> None:
    mig = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), holders={held_at: BY_UID})
    held = held_on(device(0, mig=mig), pods=(bound("a", wants(1, asked)),), mig_strategy=strategy)
    (instance,) = held.devices["GPU-0"].instances
    assert (instance, held.unknown[asked]) == expected
    assert units(held) == [0]


ON_0 = {"main": ("GPU-0",)}


@pytest.mark.parametrize(
    ("holders", "told", "expected"),
    [
        pytest.param([[], [BY_UID]], ON_0, ([500, 0], [0, 0]), id="by the binding, before the agent"),
        pytest.param([[], [USER]], {}, ([0, 500], [0, 0]), id="where the agent saw it"),
        pytest.param([[], []], {}, ([500, 500], [0, 0]), id="on every GPU if it is unknown"),
        pytest.param([[], []], {"main": ("GPU-9",)}, ([500, 500], [0, 0]), id="or its GPU has gone"),
        pytest.param(
            [[], []], {"other": ("GPU-1",)}, ([500, 500], [0, 0]), id="or that of another container"
        ),
        pytest.param([[STRANGER]], ON_0, ([500], [700]), id="beside the use of an unknown pod"),
        pytest.param([[USER]], ON_0, ([500], [0]), id="its own use is in it"),
        pytest.param([[], [USER]], ON_0, ([500, 0], [0, 500]), id="its use of another GPU is not"),
    ],
)
def test_where_a_share_counts(
    holders: list[list[Holder]], told: dict[str, tuple[str, ...]], expected: tuple[list[int], list[int]]
) -> None:
    pod = bound("a", wants(500, SHARE), devices=told)
    held = seen_on(holders, pod)
    assert (promised(held), foreign(held)) == expected
    assert held.requested[SHARE] == 500
    assert held.unplaced == ([] if told == ON_0 else [pod]), "another program bound it"


def test_a_share_is_on_the_device_the_agent_saw_its_container_on() -> None:
    on_log, on_main = Holder(uid="uid-a", container="log"), Holder(uid="uid-a", container="main")
    held = seen_on([[on_log], [on_main]], bound("a", wants(100, SHARE, "log"), wants(500, SHARE)))
    assert promised(held) == [100, 500]


def test_every_share_needs_its_annotation() -> None:
    two = bound("a", wants(10, SHARE), wants(10, SHARE, "other"), devices=ON_0)
    assert seen_on([[BY_UID], [BY_UID]], two).unplaced == [two]


LOAD = wants(900, SHARE, "load", ContainerRole.INIT)
LOG = wants(100, SHARE, "log", ContainerRole.SIDECAR)
MAIN = wants(400, SHARE)


@pytest.mark.parametrize(
    ("containers", "gpus", "peak"),
    [
        pytest.param((LOG, LOAD, MAIN), (0, 0, 0), [1000, 0], id="a sidecar beside the init one after it"),
        pytest.param((LOAD, LOG, MAIN), (0, 0, 0), [900, 0], id="not beside the one before it"),
        pytest.param((LOG, LOAD, MAIN), (1, 0, 1), [900, 500], id="on another GPU it adds to the app there"),
        pytest.param((LOG, MAIN), (0, None), [500, 400], id="one share known and one unknown"),
    ],
)
def test_the_peak_over_the_phases_counts_on_each_device(
    containers: tuple[ContainerRequest, ...], gpus: tuple[int | None, ...], peak: list[int]
) -> None:
    known = zip(containers, gpus, strict=True)
    told = {each.name: (f"GPU-{gpu}",) for each, gpu in known if gpu is not None}
    assert promised(seen_on([[], []], bound("a", *containers, devices=told))) == peak


def test_pods_of_a_node_without_a_report_hold_without_devices() -> None:
    pods = (bound("a", wants(2, WHOLE), wants(500, SHARE, "view")),)
    held = holdings_of(NodeInfo("n", pods=pods), NAMES)
    assert held.devices == {}
    assert held.unknown == {WHOLE: 2}
    assert held.requested == {WHOLE: 2, SHARE: 500}
