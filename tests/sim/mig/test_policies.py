"""MIG policies: hand-worked choices, the measures against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.forecast.mig_value import shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.mig_inputs import parse_mix, read_geometry
from scheduler_ext.sim.mig.mig_policies import (
    MIG_POLICIES,
    MigPolicy,
    Placement,
    fragmentation,
    fragmentation_score,
)
from tests.core.gpu.test_mig_profile_oracle import any_geometry

A100 = read_geometry("A100-80GB")
A30 = read_geometry("A30-24GB")
FULL = 0xFF


def index_of(geometry: Geometry, name: str) -> int:
    return next(i for i, profile in enumerate(geometry.profiles) if profile.name == name)


@pytest.mark.parametrize(
    ("policy", "masks", "profile", "placement"),
    [
        pytest.param("first-fit", [FULL, 0x0F, 0], "1g.10gb", (1, 4), id="first fit: first GPU, first start"),
        pytest.param("first-fit", [0x01, 0x02], "7g.80gb", None, id="first fit: nowhere"),
        pytest.param(
            "best-fit", [0, 0x0F], "1g.10gb", (1, 6), id="best fit: the fullest GPU, the best index"
        ),
        pytest.param("best-fit", [0, 0], "3g.40gb", (0, 4), id="best fit: 3g leaves 4g its start"),
        pytest.param("best-fit", [0x10], "2g.20gb", (0, 0), id="best fit: 2g at 4, else at 0"),
        pytest.param("mfi", [0, 0x0F], "3g.40gb", (1, 4), id="MFI: filling a GPU adds least"),
        pytest.param("fgd", [0, 0x0F], "3g.40gb", (1, 4), id="FGD: filling a GPU spoils least"),
        pytest.param("fgd", [0x01, 0x03], "1g.10gb", (0, 1), id="FGD: the pair that is spoilt already"),
        pytest.param("default", [0, 0x0F], "3g.40gb", (1, 4), id="default: no empty GPU without need"),
    ],
)
def test_where_a_policy_places(
    policy: str, masks: list[int], profile: str, placement: tuple[int, int] | None
) -> None:
    chosen = MIG_POLICIES[policy](A100, parse_mix("uniform", A100))
    assert choice(chosen, masks, index_of(A100, profile)) == placement


def choice(policy: MigPolicy, masks: list[int], profile: int) -> Placement | None:
    """The choice on GPUs with these masks, each in one instance at most."""
    return policy.choose(np.array(masks), np.array([min(mask, 1) for mask in masks]), profile)


def test_of_equal_rooms_the_default_takes_that_beside_more_instances() -> None:
    halves, two = np.array([0x0F, 0x0F, 0x0F]), index_of(A100, "2g.20gb")
    policies = (MIG_POLICIES[name](A100, parse_mix("uniform", A100)) for name in ("default", "fgd"))
    assert [policy.choose(halves, np.array([1, 4, 2]), two) for policy in policies] == [(1, 4), (0, 4)]


def test_round_robin_goes_on_after_the_last_gpu_and_past_full_ones() -> None:
    policy = MIG_POLICIES["round-robin"](A100, {})
    masks = [0, FULL, 0]
    seven = index_of(A100, "7g.80gb")
    assert [choice(policy, masks, seven) for _ in range(3)] == [(0, 0), (2, 0), (0, 0)]
    assert choice(policy, [FULL, FULL, FULL], seven) is None


@pytest.mark.parametrize("policy", ["fgd", "default"])
def test_a_new_target_changes_where_the_large_ones_are_left_room(policy: str) -> None:
    chosen = MIG_POLICIES[policy](A100, {"1g.20gb": 1})
    three = index_of(A100, "3g.40gb")
    assert choice(chosen, [0], three) == (0, 0)
    chosen.retarget({"4g.40gb": 1})
    assert choice(chosen, [0], three) == (0, 4)


@pytest.mark.parametrize(
    ("mix", "mask", "units"),
    [
        pytest.param({"2g.12gb": 1}, 0b0001, 1, id="one of three free units is of no use to 2g"),
        pytest.param({"1g.6gb": 1, "4g.24gb": 1}, 0b0001, 1.5, id="none of three to 1g, all of them to 4g"),
        pytest.param({"4g.24gb": 1}, 0b0000, 0, id="an empty GPU"),
        pytest.param({"1g.6gb": 1}, 0b1111, 0, id="a full GPU"),
    ],
)
def test_the_fragmentation_of_fgd(mix: dict[str, float], mask: int, units: float) -> None:
    assert fragmentation(A30, mix)[mask] == pytest.approx(units)


@given(any_geometry, st.data())
def test_the_score_of_mfi_agrees_with_sets_of_units(geometry: Geometry, data: st.DataObject) -> None:
    mask = data.draw(st.integers(0, (1 << geometry.grid) - 1))
    occupied = {unit for unit in range(geometry.grid) if mask >> unit & 1}
    score = 0
    for profile in (geometry.profiles[index] for index in shapes(geometry)):
        if profile.size <= geometry.grid - len(occupied):
            blocked = [s for s in profile.starts if occupied & set(range(s, s + profile.size))]
            score += profile.size * len(blocked)
    assert fragmentation_score(geometry)[mask] == score
