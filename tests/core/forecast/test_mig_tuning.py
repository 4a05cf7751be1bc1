"""Tuning to a mix: the model by hand, the quick simulation against queueing theory, and that it gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from scheduler_ext.core.forecast.mig_churn import churn, requests_for
from scheduler_ext.core.forecast.mig_pool import GPUS, LOAD, MigPool, mig_pool
from scheduler_ext.core.forecast.mig_tuning import (
    UNTUNED,
    MigTables,
    _relative_values,
    _sales,
    rounded_parts,
    tuned_worth,
)
from scheduler_ext.core.forecast.mig_value import MigWorth, least_cost, mig_worth, mix_of
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import Profile
from tests.core.forecast.test_mig_value import A30, A100
from tests.core.gpu.test_mig_profile_oracle import geometries

WHOLE_ONLY = geometry_from_report(2, [Profile("2g.2gb", 2, (0,), 1, None)])
SKEW_SMALL = {
    "7g.80gb": 0.05,
    "4g.40gb": 0.1,
    "3g.40gb": 0.1,
    "2g.20gb": 0.2,
    "1g.20gb": 0.25,
    "1g.10gb": 0.3,
}


def pool_of(geometry: Geometry, mix: dict[str, float]) -> MigPool:
    return mig_pool(geometry, mix_of(geometry, mix))


def accepted(pool: MigPool, worth: MigWorth, pods: int = 20_000, seed: int = 0) -> float:
    choices = pool.choices(least_cost(pool.geometry, worth.cost))
    return churn(pool, *choices, requests_for(pool, pods, seed))[0]


@pytest.mark.parametrize(
    ("mask", "rest", "rate"),
    [
        pytest.param(0b0001, 0b0000, 1.0, id="one instance leaves once in a lifetime"),
        pytest.param(0b0101, 0b0001, 1.0, id="each of two by itself"),
        # 4/7 pods of each shape come to a GPU per lifetime: 1/7 to each start of one unit, 2/7 of two.
        pytest.param(0b0011, 0b0000, 14 / 15, id="a pair is rather one instance of two units"),
        pytest.param(0b0011, 0b0001, 1 / 15, id="than two of one"),
        pytest.param(0b1111, 0b0000, 1372 / 1597, id="a full GPU may be one instance, or two pairs"),
        pytest.param(0b0011, 0b0100, 0.0, id="nothing comes by leaving"),
    ],
)
def test_how_often_an_instance_leaves(mask: int, rest: int, rate: float) -> None:
    pool = pool_of(A30, {})
    assert pool.departures[pool.state_of[mask], pool.state_of[rest]] == pytest.approx(rate)


@settings(max_examples=30)
@given(geometries().filter(lambda geometry: geometry.grid <= 8))
def test_as_many_leave_as_there_may_be(geometry: Geometry) -> None:
    pool = pool_of(geometry, {})
    least, most = min(pool.sizes), max(pool.sizes)
    units = np.bitwise_count(pool.masks)
    leaving = pool.departures.sum(1)
    assert (leaving <= units / least + 1e-9).all()
    assert (leaving >= units / most - 1e-9).all()
    # Masks only ever become smaller by it.
    below = pool.masks[None, :] & ~pool.masks[:, None]
    assert not pool.departures[below != 0].any()


def erlang_loss(servers: int, offered: float) -> float:
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked


def test_whole_gpus_alone_are_lost_as_erlang_says() -> None:
    pool = pool_of(WHOLE_ONLY, {})
    part = accepted(pool, mig_worth(WHOLE_ONLY, {}), pods=100_000)
    assert part == pytest.approx(1 - erlang_loss(GPUS, LOAD * GPUS), abs=0.01)


def test_the_next_best_gpu_has_room_wherever_another_was_chosen_beside_it() -> None:
    pool = pool_of(A30, {})
    cost, after = pool.choices(least_cost(A30, mig_worth(A30, {}).cost))
    _, runners_up = churn(pool, cost, after, requests_for(pool, 5_000))
    assert runners_up.sum() == 5_000
    assert (runners_up[:, :-1] > 0).any()
    assert not runners_up[:, :-1][after < 0].any()
    # Large ones lack a second choice more often.
    none = runners_up[:, -1] / runners_up.sum(1)
    assert none[0] < none[-1]


def test_relative_values_of_two_states() -> None:
    # One pays 3 a time at rate 2, the other nothing; from the first to the second at rate 2, back at 1.
    values = _relative_values(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([6.0, 0.0]))
    # The mean gain is 1/3 * 6 = 2; from the second it takes a unit of time to come back, at 2 below the mean.
    assert values == pytest.approx([0.0, -2.0])


def test_a_gpu_sells_where_the_next_best_loses_more_at_the_price_of_that_loss() -> None:
    # Of ten pods the next best would have lost 0.1 four times, 0.3 three times; for three there was none.
    cost = np.array([0.1, 0.2, 0.3, np.inf])
    often, paid = _sales(cost, np.array([4.0, 0.0, 3.0, 0.0, 3.0]), all_of_it=0.5)
    assert often == pytest.approx([0.6, 0.6, 0.3, 0.0])
    assert paid == pytest.approx([0.3 * 0.3 + 0.3 * 0.5, 0.24, 0.15, 0.0])


def test_tuning_gains_on_pods_it_has_not_seen() -> None:
    mix = mix_of(A100, SKEW_SMALL)
    pool = mig_pool(A100, mix)
    tuned = tuned_worth(A100, rounded_parts(A100, SKEW_SMALL))
    formula = mig_worth(A100, SKEW_SMALL)
    gain = accepted(pool, tuned, 60_000, seed=7) - accepted(pool, formula, 60_000, seed=7)
    assert gain > 0.002


@pytest.mark.parametrize(
    ("geometry", "mix"),
    [
        pytest.param(A100, SKEW_SMALL, id="eight units"),
        pytest.param(A30, {"1g.6gb": 1.0}, id="one profile alone"),
        pytest.param(A30, {}, id="nothing known"),
    ],
)
def test_no_choice_costs_less_than_nothing_and_more_room_is_not_taken_for_less(
    geometry: Geometry, mix: dict[str, float]
) -> None:
    worth = tuned_worth(geometry, rounded_parts(geometry, mix))
    placements = least_cost(geometry, worth.cost)
    assert placements.cost.min() >= 0
    formula = least_cost(geometry, mig_worth(geometry, mix).cost)
    assert np.array_equal(np.isinf(placements.cost), np.isinf(formula.cost))
    pool = pool_of(geometry, mix)
    assert accepted(pool, worth) >= accepted(pool, mig_worth(geometry, mix)) - 0.003


def test_a_grid_beyond_any_gpu_s_is_not_tuned() -> None:
    geometry = geometry_from_report(
        16,
        [Profile("1g.1gb", 1, tuple(range(16)), 16, None), Profile("2g.2gb", 2, tuple(range(15)), 8, None)],
    )
    parts = rounded_parts(geometry, {})
    assert np.array_equal(tuned_worth(geometry, parts).worth, mig_worth(geometry, {}).worth)


@pytest.mark.parametrize(
    ("mix", "parts"),
    [
        pytest.param({"1g.6gb": 2, "2g.12gb": 1, "4g.24gb": 1}, [0.5, 0.25, 0.25], id="parts sum to one"),
        pytest.param({"1g.6gb": 0.752, "2g.12gb": 0.248}, [0.75, 0.25, 0.0], id="to the next two-hundredth"),
        pytest.param({"1g.6gb": 0.998, "2g.12gb": 0.002}, [1.0, 0.0, 0.0], id="what is rare is left out"),
        pytest.param({}, [1 / 3, 1 / 3, 1 / 3], id="nothing known is all alike"),
    ],
)
def test_mixes_are_rounded(mix: dict[str, float], parts: list[float]) -> None:
    assert rounded_parts(A30, mix) == pytest.approx(parts, abs=1e-6)


def test_what_was_tuned_is_kept_while_the_mix_is_about_the_same() -> None:
    half = {"1g.6gb": 0.5, "4g.24gb": 0.5}
    formula = mig_worth(A30, half)
    assert np.array_equal(UNTUNED.worth(A30, half).worth, formula.worth)
    tables = UNTUNED.tuned_to({A30: half})
    tuned = tables.worth(A30, half)
    assert tables.mixes == [(A30, rounded_parts(A30, half))]
    near, far = {"1g.6gb": 0.58, "4g.24gb": 0.42}, {"1g.6gb": 0.62, "4g.24gb": 0.38}
    assert tables.tuned_to({A30: near}) is tables
    assert tables.worth(A30, near) is tuned
    assert tables.worth(A30, far) is not tuned
    assert tables.tuned_to({A30: far}).worth(A30, far) is not tuned


def test_tables_stay_as_they_are_when_others_are_tuned() -> None:
    known = geometry_for("H100-80GB")
    assert known is not None
    half, far = {"1g.6gb": 0.5, "4g.24gb": 0.5}, {"1g.6gb": 0.9, "4g.24gb": 0.1}
    tables = UNTUNED.tuned_to({A30: half})
    mixes, tuned = tables.mixes, tables.worth(A30, half)
    other = tables.tuned_to({A30: far, known: {}})
    assert not UNTUNED.mixes
    assert tables.mixes == mixes
    assert tables.worth(A30, half) is tuned
    assert [geometry for geometry, _ in other.mixes] == [A30, known]
    # A geometry that is not asked about keeps what it was tuned to.
    assert other.tuned_to({A30: half}).worth(known, {}) is other.worth(known, {})


def test_tables_of_the_same_mixes_are_the_same() -> None:
    half = {"1g.6gb": 0.5, "4g.24gb": 0.5}
    tables = UNTUNED.tuned_to({A30: half})
    again = MigTables.of(tables.mixes)
    assert again.mixes == tables.mixes
    assert again.worth(A30, half).kept.tolist() == tables.worth(A30, half).kept.tolist()


def test_geometries_of_one_kind_are_tuned_once() -> None:
    known = geometry_for("H100-80GB")
    assert known is not None
    parts = rounded_parts(known, {})
    assert tuned_worth(known, parts) is tuned_worth(known, parts)
