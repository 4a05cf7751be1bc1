"""The MIG side of a status: profiles and instances in their places, where those can be."""

from __future__ import annotations

import pytest

from scheduler_ext.agent.gpu_health import GpuHealth
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, ProfileReading
from scheduler_ext.agent.node_status import node_status
from scheduler_ext.wire.gpunode import plain
from tests.agent.crd_rules import refusals
from tests.kube_objects import Json

SMALL = ProfileReading("1g.10gb", 1, (0, 1, 2, 3, 4), 7, 9728)
HALF = ProfileReading("3g.40gb", 4, (0, 4), 2, 40192)


def mig(
    *instances: InstanceReading, profiles: tuple[ProfileReading, ...] = (SMALL, HALF), grid: int | None = 8
) -> Json:
    """The MIG part of a partitioned device, which no check refuses."""
    reading = DeviceReading(
        "GPU-0", 0, 81920, mig_enabled=True, grid_size=grid, profiles=profiles, instances=instances
    )
    status = plain("n", node_status(NodeReading((reading,)), {}, GpuHealth(), 1000))["status"]
    assert refusals(status) == []
    return dict(status["devices"][0]["mig"])


def places(told: Json) -> list[tuple[str, int | None, int | None]]:
    return [(i["profile"], i.get("start"), i.get("size")) for i in told.get("instances", [])]


@pytest.mark.parametrize(
    ("instances", "found"),
    [
        pytest.param([("1g.10gb", 1, 1)], [("1g.10gb", 1, 1)], id="one in its place"),
        pytest.param([("1g.10gb", 2, None)], [("1g.10gb", None, None)], id="a start alone is no place"),
        pytest.param([("1g.10gb+new", 0, 1), ("1g.10gb", 1, 1)], [("1g.10gb", 1, 1)], id="one of the future"),
        pytest.param(
            [("3g.40gb", 0, 4), ("1g.10gb", 2, 1), ("1g.10gb", 4, 1)],
            [("3g.40gb", 0, 4), ("1g.10gb", None, None), ("1g.10gb", 4, 1)],
            id="one of before and two of after",
        ),
        pytest.param([("3g.40gb", 1, 4)], [("3g.40gb", None, None)], id="where its profile cannot lie"),
        pytest.param([("2g.20gb", 6, 2)], [("2g.20gb", 6, 2)], id="of a profile that is not listed"),
        pytest.param([("2g.20gb", 7, 2)], [("2g.20gb", None, None)], id="off the grid"),
        pytest.param(
            [("1c.3g.40gb", 0, 1), ("2c.3g.40gb", 1, 3)],
            [("1c.3g.40gb", 0, 1), ("2c.3g.40gb", 1, 3)],
            id="two that share a GPU instance",
        ),
    ],
)
def test_instances(
    instances: list[tuple[str, int | None, int | None]], found: list[tuple[str, int | None, int | None]]
) -> None:
    readings = [InstanceReading(f"MIG-{i}", *instance) for i, instance in enumerate(instances)]
    assert places(mig(*readings)) == found


@pytest.mark.parametrize("grid", [None, 0, 17, 32])
def test_without_a_grid_that_is_known_nothing_has_a_place(grid: int | None) -> None:
    told = mig(InstanceReading("MIG-a", "1g.10gb", 0, 1), grid=grid)
    assert "gridSize" not in told
    assert places(told) == [("1g.10gb", None, None)]
    assert [profile["starts"] for profile in told["profiles"]] == [[], []]


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        pytest.param(
            ProfileReading("1g.10gb", 1, (3, 0, 3), 7, 9), ("1g.10gb", 1, [0, 3]), id="each start once"
        ),
        pytest.param(
            ProfileReading("1g.10gb", 2, None, 7, 9), ("1g.10gb", 0, []), id="starts not to be read"
        ),
        pytest.param(
            ProfileReading("1g.10gb", None, (0,), 7, 9), ("1g.10gb", 0, []), id="a size not to be read"
        ),
        pytest.param(
            ProfileReading("1g.10gb", 4, (0, 4, 6), 7, 9), ("1g.10gb", 4, [0, 4]), id="off the grid"
        ),
        pytest.param(ProfileReading("1g.10gb", 4, (0, 4), 0, 9), ("1g.10gb", 0, []), id="none can be made"),
        pytest.param(ProfileReading("big", 4, (0, 4), 1, 9), None, id="a name that no pod could ask for"),
    ],
)
def test_profiles(profile: ProfileReading, told: tuple[str, int, list[int]] | None) -> None:
    found = mig(profiles=(profile,)).get("profiles", [])
    assert [(one["name"], one["size"], one["starts"]) for one in found] == ([told] if told else [])
