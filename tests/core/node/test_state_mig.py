"""The resources of a node: whole GPUs, under every MIG strategy, and time-sliced or MPS-shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import InstancePlacements, NodeInfo
from scheduler_ext.core.node.state import resolve
from tests.core.reported import (
    NAMES,
    ONE_G,
    SHARE,
    SHARED,
    WHOLE,
    bound,
    device,
    free_units,
    node,
    sliced,
    slots,
    wants,
)

BY_UID = Holder(uid="uid-a")
SEVEN = sliced(*(("1g.10gb", start) for start in range(7)))
BOTH = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4), holders={1: Holder(uid="uid-z")})
MIXED, SINGLE = {"mig_strategy": "mixed"}, {"mig_strategy": "single"}
SLICES = {"sharing_strategy": "time-slicing", "replicas": 4}
AMD = device(0, vendor="amd", model=canonical_model("MI300X", vendor="amd"))
INTEL = device(1, vendor="intel", model=canonical_model("Max_1100", vendor="intel"))
CUT = device(0, mig=SEVEN)
SEVEN_G = device(1, mig=sliced(("7g.80gb", 0)))
HELD = device(0, holders=(BY_UID,))
CROWDED = device(0, holders=tuple(Holder(uid=f"uid-{i}") for i in range(5)))
POD = bound("a", wants(1, WHOLE))
SHARE_POD = bound("a", wants(100, SHARE), devices={"main": ("GPU-0",)})


@pytest.mark.parametrize(
    ("info", "free"),
    [
        pytest.param(
            node(HELD, device(1), pods=(POD,)), [{WHOLE: 0}, {WHOLE: 1}], id="a held and a free one"
        ),
        pytest.param(node(device(0), pods=(SHARE_POD,)), [{WHOLE: 0}], id="one with a share is not whole"),
        pytest.param(
            node(AMD, INTEL),
            [{"amd.com/gpu": 1}, {"gpu.intel.com/i915": 1, "gpu.intel.com/xe": 1}],
            id="a vendor's GPUs under its names alone",
        ),
        pytest.param(node(CUT), [{WHOLE: 1}], id="partitioned ones whole without MIG"),
        pytest.param(
            node(device(0), device(1, mig=BOTH), report=MIXED),
            [{WHOLE: 1}, {ONE_G: 1, "nvidia.com/mig-3g.40gb": 1}],
            id="MIG mixed: instances by profile, and other GPUs whole",
        ),
        pytest.param(node(device(0, mig=sliced()), report=MIXED), [{}], id="nothing without instances"),
        pytest.param(
            node(CUT, device(1), report=SINGLE), [{}, {}], id="MIG single: nothing beside a whole one"
        ),
        pytest.param(node(CUT, SEVEN_G, report=SINGLE), [{}, {}], id="nor of two different profiles"),
        pytest.param(
            node(CUT, device(1, mig=sliced()), report=SINGLE), [{}, {}], id="nor beside one without instances"
        ),
        pytest.param(node(device(0), report=SINGLE), [{WHOLE: 1}], id="whole GPUs if none is partitioned"),
        pytest.param(
            node(HELD, pods=(POD,), report=SLICES), [{WHOLE: 3, SHARED: 3}], id="a held replica leaves others"
        ),
        pytest.param(
            node(CROWDED, report=SLICES), [{WHOLE: 0, SHARED: 0}], id="more holders than replicas leave none"
        ),
        pytest.param(
            node(CUT, report=MIXED | SLICES),
            [{ONE_G: 28, f"{ONE_G}.shared": 28}],
            id="time-sliced instances under both names",
        ),
    ],
)
def test_the_free_units_of_each_gpu(info: NodeInfo, free: list[dict[str, int]]) -> None:
    assert free_units(info) == {f"GPU-{i}": units for i, units in enumerate(free)}


def test_an_instance_has_the_memory_the_table_says() -> None:
    (unit,) = slots(node(CUT, report=MIXED))["GPU-0"].units
    assert (unit.memory_mib, unit.free_mib, unit.model.name) == (9728, 9728, "A100-80GB")
    unknown = replace(SEVEN, geometry=None)
    (unit,) = slots(node(device(0, mig=unknown), report=MIXED))["GPU-0"].units
    assert (unit.free, unit.memory_mib, unit.mig_placements) == (7, 8960, None), "at least, by the name"


def test_single_hands_out_instances_as_gpus_under_the_name_of_the_slice() -> None:
    info = node(CUT, device(1, mig=SEVEN), report=SINGLE)
    assert free_units(info) == {"GPU-0": {WHOLE: 7}, "GPU-1": {WHOLE: 7}}
    (unit,) = slots(info)["GPU-0"].units
    assert (unit.memory_mib, unit.model.name) == (9728, "A100-80GB-MIG-1G.10GB")


def test_the_next_instance_may_lie_at_any_free_one_of_its_profile() -> None:
    mig = sliced(("1g.10gb", 6), ("1g.10gb", 0), ("3g.40gb", 4), ("1g.10gb", 1), holders={1: BY_UID})
    assert mig.geometry is not None
    slot = slots(node(device(0, mig=mig), report=MIXED))["GPU-0"]
    assert [unit.mig_placements for unit in slot.units] == [
        InstancePlacements(mig.geometry, 0b0000_0010, 1, "1g.10gb", (0, 6)),
        InstancePlacements(mig.geometry, 0b0000_0010, 1, "3g.40gb", (4,)),
    ]


@pytest.mark.parametrize(
    ("strategy", "part_mib"),
    [
        pytest.param("time-slicing", 81920, id="time-slicing divides no memory"),
        pytest.param("mps", 20480, id="MPS gives each replica its part"),
    ],
)
def test_replicas_are_offered_under_both_names(strategy: str, part_mib: int) -> None:
    info = node(device(0), report={"sharing_strategy": strategy, "replicas": 4})
    assert [(u.resource, u.free, u.memory_mib, u.free_mib) for u in slots(info)["GPU-0"].units] == [
        (WHOLE, 4, part_mib, part_mib),
        (SHARED, 4, part_mib, part_mib),
    ]
    assert resolve(info, NAMES, 10).state.shared
