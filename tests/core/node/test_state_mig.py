"""The resources of a node under every MIG strategy, and time-sliced or MPS-shared GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.node.node import MigRoom
from scheduler_ext.core.node.state import resolve
from tests.core.reported import (
    NAMES,
    ONE_G,
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


class TestMigStrategies:
    def test_none_hands_out_partitioned_gpus_whole(self) -> None:
        assert free_units(node(device(0, mig=SEVEN))) == {"GPU-0": {WHOLE: 1}}

    def test_mixed_hands_out_instances_by_profile_and_other_gpus_whole(self) -> None:
        both = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4), holders={1: Holder(uid="uid-z")})
        info = node(device(0), device(1, mig=both), report={"mig_strategy": "mixed"})
        assert free_units(info) == {
            "GPU-0": {WHOLE: 1},
            "GPU-1": {ONE_G: 1, "nvidia.com/mig-3g.40gb": 1},
        }

    def test_mixed_hands_out_nothing_of_a_gpu_without_instances(self) -> None:
        assert free_units(node(device(0, mig=sliced()), report={"mig_strategy": "mixed"})) == {"GPU-0": {}}

    def test_an_instance_has_the_memory_the_table_says(self) -> None:
        slot = slots(node(device(0, mig=SEVEN), report={"mig_strategy": "mixed"}))["GPU-0"]
        assert [(unit.memory_mib, unit.free_mib, unit.model.name) for unit in slot.units] == [
            (9728, 9728, "A100-80GB")
        ]

    def test_an_instance_of_a_gpu_without_geometry_has_no_known_memory(self) -> None:
        unknown = replace(SEVEN, geometry=None)
        slot = slots(node(device(0, mig=unknown), report={"mig_strategy": "mixed"}))["GPU-0"]
        assert [(unit.free, unit.memory_mib, unit.mig_room) for unit in slot.units] == [(7, 0, None)]

    def test_single_hands_out_instances_as_gpus_under_the_name_of_the_slice(self) -> None:
        info = node(device(0, mig=SEVEN), device(1, mig=SEVEN), report={"mig_strategy": "single"})
        assert free_units(info) == {"GPU-0": {WHOLE: 7}, "GPU-1": {WHOLE: 7}}
        unit = slots(info)["GPU-0"].units[0]
        assert (unit.memory_mib, unit.model.name) == (9728, "A100-80GB-MIG-1G.10GB")

    @pytest.mark.parametrize(
        "devices",
        [
            pytest.param((device(0, mig=SEVEN), device(1)), id="a GPU that is not partitioned"),
            pytest.param(
                (device(0, mig=SEVEN), device(1, mig=sliced(("7g.80gb", 0)))), id="two different profiles"
            ),
        ],
    )
    def test_single_in_an_invalid_mix_hands_out_nothing(self, devices: tuple[Device, ...]) -> None:
        info = node(*devices, report={"mig_strategy": "single"})
        assert free_units(info) == {"GPU-0": {}, "GPU-1": {}}

    def test_single_on_a_node_without_partitioned_gpus_hands_them_out_whole(self) -> None:
        assert free_units(node(device(0), report={"mig_strategy": "single"})) == {"GPU-0": {WHOLE: 1}}

    def test_the_next_instance_may_lie_at_any_free_one_of_its_profile(self) -> None:
        mig = sliced(("1g.10gb", 6), ("1g.10gb", 0), ("3g.40gb", 4), ("1g.10gb", 1), holders={1: BY_UID})
        assert mig.geometry is not None
        slot = slots(node(device(0, mig=mig), report={"mig_strategy": "mixed"}))["GPU-0"]
        assert [unit.mig_room for unit in slot.units] == [
            MigRoom(mig.geometry, 0b0000_0010, 1, "1g.10gb", (0, 6)),
            MigRoom(mig.geometry, 0b0000_0010, 1, "3g.40gb", (4,)),
        ]


class TestSharing:
    @pytest.mark.parametrize(
        ("strategy", "part_mib"),
        [
            pytest.param("time-slicing", 81920, id="time-slicing divides no memory"),
            pytest.param("mps", 20480, id="MPS gives each replica its part"),
        ],
    )
    def test_replicas_are_offered_under_both_names(self, strategy: str, part_mib: int) -> None:
        info = node(device(0), report={"sharing_strategy": strategy, "replicas": 4})
        assert [(u.resource, u.free, u.memory_mib, u.free_mib) for u in slots(info)["GPU-0"].units] == [
            (WHOLE, 4, part_mib, part_mib),
            (SHARED, 4, part_mib, part_mib),
        ]
        assert resolve(info, NAMES, 10).state.shared

    def test_a_held_replica_leaves_the_others(self) -> None:
        pods = (bound("a", wants(1, SHARED)),)
        info = node(
            device(0, holders=(BY_UID,)),
            pods=pods,
            report={"sharing_strategy": "time-slicing", "replicas": 4},
        )
        assert free_units(info) == {"GPU-0": {WHOLE: 3, SHARED: 3}}

    def test_more_holders_than_replicas_leave_none(self) -> None:
        strangers = tuple(Holder(uid=f"uid-{i}") for i in range(5))
        info = node(device(0, holders=strangers), report={"sharing_strategy": "mps", "replicas": 4})
        assert free_units(info) == {"GPU-0": {WHOLE: 0, SHARED: 0}}

    def test_time_sliced_instances_are_offered_under_both_names(self) -> None:
        mig = sliced(("1g.10gb", 0), ("1g.10gb", 1))
        info = node(
            device(0, mig=mig),
            report={"mig_strategy": "mixed", "sharing_strategy": "time-slicing", "replicas": 3},
        )
        assert free_units(info) == {"GPU-0": {ONE_G: 6, f"{ONE_G}.shared": 6}}
