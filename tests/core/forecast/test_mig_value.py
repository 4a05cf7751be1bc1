"""MIG placements by value: hand-worked masks, laws, and costs in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.forecast.mig_value import (
    MigWeights,
    mig_mix,
    mig_worth,
    mix_of,
    shapes,
    usable_units,
)
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import Profile, window
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from tests.core.gpu.test_mig_profile_oracle import geometries, known
from tests.mig_oracle import cost_of

A30 = geometry_from_report(
    4,
    [
        Profile("1g.6gb", 1, (0, 1, 2, 3), 4, None),
        Profile("2g.12gb", 2, (0, 2), 2, None),
        Profile("4g.24gb", 4, (0,), 1, None),
    ],
)


A100 = known("A100-80GB")


def free_starts(geometry: Geometry, mask: int) -> Iterator[tuple[int, int]]:
    for index, profile in enumerate(geometry.profiles):
        for start in profile.starts:
            if not mask & window(profile, start):
                yield index, start


def costs_of(
    geometry: Geometry, mix: dict[str, float], mask: int, weights: MigWeights
) -> dict[tuple[int, int], float]:
    """By the index of a profile and a free start, what an instance there costs."""
    worth = mig_worth(geometry, mix, weights)
    return {
        (index, start): float(
            worth.cost(np.array([mask]), np.array([mask | window(geometry.profiles[index], start)]))[0]
        )
        for index, start in free_starts(geometry, mask)
    }


def index_of(geometry: Geometry, name: str) -> int:
    return next(i for i, profile in enumerate(geometry.profiles) if profile.name == name)


@pytest.mark.parametrize(
    ("geometry", "mix", "mask", "profile", "start"),
    [
        pytest.param(A30, {}, 0b0001, "1g.6gb", 1, id="a small one goes beside a small one, not across"),
        pytest.param(A100, {"4g.40gb": 1}, 0, "3g.40gb", 4, id="where 4g is asked, 3g leaves it its start"),
        pytest.param(A100, {"1g.5gb": 1}, 0, "1g.10gb", 6, id="of a mix for other GPUs nothing is known"),
    ],
)
def test_where_an_instance_goes(
    geometry: Geometry, mix: dict[str, float], mask: int, profile: str, start: int
) -> None:
    costs = costs_of(geometry, mix, mask, MigWeights())
    of_profile = {at: cost for (index, at), cost in costs.items() if index == index_of(geometry, profile)}
    assert min(of_profile, key=lambda at: round(of_profile[at], 8)) == start


@pytest.mark.parametrize(
    ("mix", "mask", "exponent", "worth"),
    [
        pytest.param({"2g.12gb": 1}, 0b0001, 2.0, 0.25, id="less than half with an exponent above 1"),
        pytest.param({"1g.6gb": 1, "1g.5gb": 9}, 0b0001, 1.0, 0.75, id="what this GPU lacks does not count"),
    ],
)
def test_the_value_of_room(mix: dict[str, float], mask: int, exponent: float, worth: float) -> None:
    assert usable_units(A30, mix, exponent)[mask] == pytest.approx(worth)


def test_an_unknown_mix_asks_for_every_shape_alike_whatever_forms_it_has() -> None:
    parts = dict(zip((profile.name for profile in A100.profiles), mix_of(A100, {}), strict=True))
    assert parts.pop("1g.10gb+me") == 0
    assert set(parts.values()) == {1 / 6}
    assert len(shapes(known("RTX-PRO-6000-96GB"))) == 3


def test_the_mix_of_a_workload_counts_instances() -> None:
    workload = Workload.of(
        {
            TaskClass(mig=(("1g.10gb", 2),)): 1,
            TaskClass(mig=(("1g.10gb", 1), ("7g.80gb", 1))): 1,
            TaskClass(gpus=8): 2,
        }
    )
    assert mig_mix(workload) == pytest.approx({"1g.10gb": 0.75, "7g.80gb": 0.25})
    assert mig_mix(Workload()) == {}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Geometry, dict[str, float], MigWeights]:
    geometry = draw(geometries().filter(lambda geometry: geometry.grid <= 7))
    parts = st.one_of(st.just(0.0), st.floats(0.01, 1.0))
    mix = {profile.name: draw(parts) for profile in geometry.profiles}
    weights = st.builds(MigWeights, exponent=st.sampled_from((1.0, 1.35, 2.0)), best_fit=st.floats(0.0, 0.2))
    return geometry, mix, draw(weights)


@given(cases(), st.data())
def test_the_cost_agrees_with_plain_python(
    case: tuple[Geometry, dict[str, float], MigWeights], data: st.DataObject
) -> None:
    geometry, mix, weights = case
    mask = data.draw(st.integers(0, (1 << geometry.grid) - 1))
    for (index, start), cost in costs_of(geometry, mix, mask, weights).items():
        after = mask | window(geometry.profiles[index], start)
        assert cost == pytest.approx(cost_of(geometry, mix, mask, after, weights), abs=1e-8)


@given(cases())
def test_more_occupied_is_never_worth_more(case: tuple[Geometry, dict[str, float], MigWeights]) -> None:
    geometry, mix, weights = case
    worth = usable_units(geometry, mix, weights.exponent)
    assert worth.min() >= 0
    assert worth.max() <= 1 + 1e-9
    masks = np.arange(1 << geometry.grid)
    for unit in range(geometry.grid):
        assert (worth[masks | 1 << unit] <= worth[masks] + 1e-12).all()
