"""MIG geometry against cases worked by hand from NVIDIA's documents and transcripts."""

from __future__ import annotations

import pytest

from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES
from tests.core.gpu.test_mig_profile_oracle import known

A100 = known("A100-80GB")
A30 = known("A30-24GB")
RTX = known("RTX-PRO-6000-96GB")


@pytest.mark.parametrize("table", [None, "T4", "RTX-PRO-5000-48GB", "RTX-PRO-4500-32GB", "a100-80gb"])
def test_a_model_without_known_placements_has_no_geometry(table: str | None) -> None:
    assert geometry_for(table) is None


def test_the_same_name_is_other_hardware_on_another_model() -> None:
    assert A100.profile("1g.10gb") == Profile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 7, 9728)
    assert known("A100-40GB").profile("1g.10gb") == Profile("1g.10gb", 2, (0, 2, 4, 6), 4, 9856)
    assert A30.profile("1g.10gb") is None


@pytest.mark.parametrize(
    ("geometry", "held", "profile", "starts"),
    [
        pytest.param(A100, [], "3g.40gb", (0, 4), id="an empty GPU offers every start"),
        pytest.param(A100, [("3g.40gb", 0)], "1g.10gb", (4, 5, 6), id="3g at 0 blocks 1g at 0 to 3"),
        pytest.param(A100, [("1g.10gb+me", 0)], "1g.10gb+me", (), id="one +me per GPU"),
        pytest.param(A100, [], "1g.5gb", (), id="a profile of another model has no start"),
        pytest.param(A30, [("2g.12gb+me", 0)], "1g.6gb+me", (), id="one OFA, whatever profile owns it"),
        pytest.param(RTX, [("1g.24gb", 3)], "1g.24gb", (0, 6, 9), id="1g takes three of twelve units"),
        pytest.param(RTX, [("1g.24gb+me.all", 0)], "1g.24gb", (), id="+me.all leaves no engine for 1g"),
        pytest.param(RTX, [("1g.24gb+me.all", 0)], "1g.24gb-me", (3, 6, 9), id="-me needs no engine"),
    ],
)
def test_where_an_instance_can_be_created(
    geometry: Geometry, held: list[tuple[str, int]], profile: str, starts: tuple[int, ...]
) -> None:
    assert geometry.creatable_starts(held, profile) == starts


def test_placeable_agrees_with_nvml_on_a_gpu_with_3g_1g_and_me() -> None:
    held = [("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb+me", 1)]
    left = dict(zip((p.name for p in A100.profiles), A100.placeable[A100.occupancy(held)], strict=True))
    assert left["1g.10gb"] == 2
    assert left["2g.20gb"] == 1
    assert left["1g.20gb"] == 1
    assert left["3g.40gb"] == left["4g.40gb"] == left["7g.80gb"] == 0
    assert A100.creatable_starts(held, "1g.10gb+me") == ()


def test_a_mask_caps_every_profile_at_its_max_instances() -> None:
    for table in FALLBACK_PROFILES:
        geometry = known(table)
        assert tuple(geometry.placeable[0]) == tuple(profile.max_instances for profile in geometry.profiles)


def test_existing_instances_are_facts_even_against_the_media_rule() -> None:
    held = [("1g.24gb+me.all", 0), ("1g.24gb", 3)]
    assert RTX.creatable_starts(held, "1g.24gb-me") == (6, 9)


def test_reports_of_the_same_gpu_share_one_geometry() -> None:
    grid, profiles = FALLBACK_PROFILES["A100-80GB"]
    turned = [
        Profile(p.name.upper(), p.size, p.starts[::-1], p.max_instances, p.memory_mib) for p in profiles
    ]
    for size in range(1, 1 + 300):
        geometry_from_report(16, [Profile("1g.10gb", 1, (0,), 1, size)])
    assert geometry_from_report(grid, turned[::-1]) is A100
    copy = Geometry(A100.grid, A100.profiles)
    assert copy == A100
    assert hash(copy) == hash(A100)
    assert copy.placeable is A100.placeable
    assert known("H100-80GB") != A100


def test_tables_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        A100.placeable[0, 0] = 0


GOOD = Profile("1g.10gb", 1, (0, 1), 2, None)


@pytest.mark.parametrize(
    ("grid", "profiles", "message"),
    [
        pytest.param(0, [GOOD], "gridSize: 0", id="no grid"),
        pytest.param(17, [GOOD], "gridSize: 17", id="a grid beyond every GPU"),
        pytest.param(8, [], "profiles: 0 entries", id="no profile"),
        pytest.param(8, [GOOD, GOOD], "1g.10gb is listed 2 times", id="a profile twice"),
        pytest.param(
            8, [GOOD, Profile("big", 1, (0,), 1, None)], r"profiles\[1\].name", id="a name that is none"
        ),
        pytest.param(8, [Profile("1g.10gb", 0, (0,), 1, None)], r"profiles\[0\].size: 0", id="no size"),
        pytest.param(8, [Profile("1g.10gb", 9, (0,), 1, None)], r"\.size: 9", id="larger than the grid"),
        pytest.param(8, [Profile("1g.10gb", 1, (), 1, None)], r"\.starts: empty", id="no start"),
        pytest.param(8, [Profile("1g.10gb", 2, (0, 7), 1, None)], r"\.starts: 7", id="a start off the grid"),
        pytest.param(
            8, [Profile("1g.10gb", 1, (0,) * 9, 1, None)], r"\.starts: 9 entries", id="too many starts"
        ),
        pytest.param(8, [Profile("1g.10gb", 1, (0,), 0, None)], r"\.maxInstances: 0", id="no instance"),
        pytest.param(8, [Profile("1g.10gb", 1, (0,), 1, 0)], r"\.memoryMiB: 0", id="no memory"),
    ],
)
def test_an_impossible_report_is_refused_naming_the_field(
    grid: int, profiles: list[Profile], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        geometry_from_report(grid, profiles)


def test_a_reported_cap_beyond_the_grid_binds_nothing() -> None:
    geometry = geometry_from_report(8, [Profile("1g.10gb", 1, tuple(range(8)), 10**6, None)])
    assert geometry.placeable[0].tolist() == [8]
