"""Holdings on unknown devices take the necessary part of a node, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.share_memory import DeviceHoldings
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve, resolve_held
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, sliced, wants
from tests.free_memory import clusters_with_closed_parts

SHARED_NAME = "nvidia.com/gpu.shared"
THREE_G = "nvidia.com/mig-3g.40gb"
ONE_BUSY = (device(0), device(1, memory=Memory(81920, used_mib=70_000)))
OTHER = (Holder(name="other", namespace="ns"),)
SHARED = {"sharing_strategy": "time-slicing", "replicas": 4}
SLICED = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4))


def held(*devices: Any, asks: str = WHOLE, count: int = 1, **fields: Any) -> Attribution:
    """A node where one pod holds so many, unseen by the agent."""
    info = node(*devices, pods=(bound("running", wants(count, asks)),), **fields)
    return attribute(info, holdings_of(info, NAMES), NAMES)


def charged(found: Attribution) -> dict[str, int]:
    """The units that are counted, by GPU."""
    return {uuid: here.units for uuid, here in found.held.devices.items() if here.units}


def instances(found: Attribution) -> set[str]:
    return {uuid for here in found.held.devices.values() for uuid in here.instances}


@pytest.mark.parametrize(
    ("devices", "fields", "taken"),
    [
        pytest.param(ONE_BUSY, {}, "GPU-1", id="the one in use, for least is taken then"),
        pytest.param(
            ONE_BUSY,
            {"share_node": True},
            "GPU-0",
            id="where shares are placed the emptiest one, as decisions keep shares off that",
        ),
        pytest.param((device(0, healthy=False), device(1)), {}, "GPU-1", id="a sick one last"),
        pytest.param(
            (device(0, holders=OTHER), device(1)), {}, "GPU-1", id="none that another pod is known to hold"
        ),
    ],
)
def test_the_gpu_that_counts_as_held(devices: tuple[Any, ...], fields: dict[str, Any], taken: str) -> None:
    before = held(*devices, count=0, **fields)
    found = held(*devices, **fields)
    assert set(charged(found)) - set(charged(before)) == {taken}


def test_where_all_that_may_be_held_are_held_none_is_uncertain() -> None:
    found = held(device(0), device(1), count=2)
    assert (charged(found), found.devices) == ({"GPU-0": 1, "GPU-1": 1}, frozenset())
    # Nor where pods request more than the node has, as an older report may suggest.
    found = held(device(0), count=4)
    assert (charged(found), found.devices, found.unknown) == ({"GPU-0": 1}, frozenset(), {WHOLE: 4})


def test_replicas_are_counted_on_as_few_gpus_as_it_takes() -> None:
    found = held(device(0), device(1), count=5, report=SHARED)
    assert charged(found) == {"GPU-0": 4, "GPU-1": 1}
    assert found.devices == {"GPU-0", "GPU-1"}
    assert charged(held(device(0), device(1, holders=OTHER), count=3, report=SHARED)) == {"GPU-1": 4}


def test_all_names_of_whole_gpus_mean_the_same_replicas() -> None:
    pods = (bound("a", wants(3, WHOLE)), bound("b", wants(3, SHARED_NAME)))
    info = node(device(0), device(1), pods=pods, report=SHARED)
    assert charged(attribute(info, holdings_of(info, NAMES), NAMES)) == {"GPU-0": 4, "GPU-1": 2}


def test_instances_of_the_profile_that_is_asked() -> None:
    mixed = {"mig_strategy": "mixed"}
    found = held(device(0, mig=SLICED), asks=ONE_G, report=mixed)
    assert (len(instances(found)), instances(found) < {"MIG-0", "MIG-1"}) == (1, True)
    assert (set(found.instances), set(found.devices)) == ({"MIG-0", "MIG-1"}, {"GPU-0"})
    found = held(device(0, mig=SLICED), asks=THREE_G, report=mixed)
    assert (instances(found), found.instances, found.devices) == ({"MIG-4"}, frozenset(), frozenset())


def test_an_instance_under_mig_single_is_asked_as_a_gpu() -> None:
    alike = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2))
    found = held(device(0, mig=alike), count=2, report={"mig_strategy": "single"})
    assert (len(instances(found)), charged(found), len(found.instances)) == (2, {}, 3)


@pytest.mark.parametrize(
    ("count", "holders"),
    [
        pytest.param(4, {}, id="four replicas may be of one instance"),
        pytest.param(3, {0: Holder(uid="other")}, id="nor do they take another than one in use"),
    ],
)
def test_replicas_of_instances(count: int, holders: dict[int, Any]) -> None:
    mig = sliced(("1g.10gb", 0), ("1g.10gb", 1), holders=holders)
    report = SHARED | {"mig_strategy": "mixed"}
    found = held(device(0, mig=mig), asks=f"{ONE_G}.shared", count=count, report=report)
    assert len(instances(found)) == 1


def test_held_instances_count_if_their_places_are_unknown() -> None:
    unplaced = replace(SLICED, instances=tuple(replace(each, start=None) for each in SLICED.instances))
    taken = replace(unplaced.instances[2], holder=Holder(uid="uid-p"))
    mig = replace(unplaced, instances=(*unplaced.instances[:2], taken))
    found = resolve(node(device(0, mig=mig), report={"mig_strategy": "mixed"}), NAMES, 10)
    assert found.state.slots[0].idle == pytest.approx(2 / 6)


def test_a_share_is_no_gpu_that_may_be_held() -> None:
    pods = (bound("share", wants(1000, SHARE), devices={"main": ("GPU-0",)}), bound("p", wants(1, WHOLE)))
    info = node(device(0), device(1), pods=pods)
    assert charged(attribute(info, holdings_of(info, NAMES), NAMES)) == {"GPU-1": 1}


EIGHT = node(*(device(i) for i in range(8)))


@pytest.mark.parametrize(
    ("info", "offered"),
    [
        pytest.param(replace(EIGHT, allocatable={WHOLE: 8}), {True}, id="all of them"),
        pytest.param(
            replace(EIGHT, allocatable={WHOLE: 6}), {None}, id="six of eight, and any may be no one"
        ),
        pytest.param(replace(EIGHT, allocatable={WHOLE: 0}), {False}, id="none"),
        pytest.param(
            node(device(0, mig=SLICED), report={"mig_strategy": "single"}),
            {False},
            id="none of such a layout",
        ),
    ],
)
def test_the_gpus_that_are_offered(info: NodeInfo, offered: set[bool | None]) -> None:
    found = attribute(info, holdings_of(info, NAMES), NAMES)
    instances = [each.uuid for device in info.devices for each in device.mig.instances]
    assert {found.offers(uuid) for uuid in (*(each.uuid for each in info.devices), *instances)} == offered
    assert charged(found) == {}, "no pod holds any"


def test_a_gpu_that_is_held_is_not_one_that_is_not_offered() -> None:
    info = replace(EIGHT, allocatable={WHOLE: 2}, pods=(bound("p", wants(2, WHOLE)),))
    found = attribute(info, holdings_of(info, NAMES), NAMES)
    assert sum(charged(found).values()) == 2
    assert len(found.devices) == 8, "any may be held"
    nothing = DeviceHoldings()
    assert all(found.least_taken(each.uuid, nothing).units for each in info.devices), "but none is free"


def test_instances_that_are_not_offered_are_of_their_profile() -> None:
    info = node(device(0, mig=SLICED), report={"mig_strategy": "mixed"}, allocatable={ONE_G: 1, THREE_G: 0})
    found = attribute(info, holdings_of(info, NAMES), NAMES)
    instances = {each.uuid: found.offers(each.uuid) for each in SLICED.instances}
    assert instances == {"MIG-0": None, "MIG-1": None, "MIG-4": False}
    assert found.least_taken("GPU-0", DeviceHoldings()).instances == {"MIG-4"}
    assert len(found.taken.held.devices["GPU-0"].instances) == 2


def test_replicas_that_are_not_offered_are_on_as_few_gpus_as_possible() -> None:
    info = node(device(0), device(1), report=SHARED, allocatable={SHARED_NAME: 5})
    found = attribute(info, holdings_of(info, NAMES), NAMES)
    assert {uuid: here.units for uuid, here in found.taken.held.devices.items()} == {"GPU-0": 3, "GPU-1": 0}


def free(info: NodeInfo, found: Attribution, resource: str) -> int:
    """The remaining units of healthy GPUs."""
    state = resolve_held(info, found.held, NAMES, 10).state
    units = [unit for slot in state.slots if slot.healthy for unit in slot.units]
    return sum(unit.free for unit in units if unit.resource == resource)


@given(clusters_with_closed_parts())
def test_as_much_is_left_as_decisions_count(infos: tuple[NodeInfo, ...]) -> None:
    for info in infos:
        known = holdings_of(info, NAMES)
        whole = [name for name, count in known.unknown.items() if count and not name.startswith(MIG_PREFIX)]
        found = attribute(info, known, NAMES)
        assert found.devices <= found.held.devices.keys()
        if info.report is None or info.report.mig_strategy == "single" or len(whole) != 1:
            continue
        (name,) = whole
        if info.report.sharing_strategy != "none" and any(pod.request.shares for pod in info.pods):
            # A share that another binder put beside time slices may be on any GPU: the sum has bounds only.
            continue
        before = free(info, Attribution(known), name)
        assert free(info, found, name) == max(0, before - known.unknown[name])
