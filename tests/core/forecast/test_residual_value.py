"""The value of residuals: hand-worked mixes, laws, and every way to fill small GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_ext.core.forecast.residual_value import residual_values
from scheduler_ext.core.node.columns import Floats


@pytest.mark.parametrize(
    ("demand", "capacity", "worth"),
    [
        pytest.param({}, 4, [0, 0.25, 0.5, 0.75, 1], id="nothing is known: its part"),
        pytest.param({4: 1}, 4, [0, 0, 0, 0, 1], id="only whole GPUs are asked: a part is worth nothing"),
        pytest.param(
            {6: 10, 4: 1}, 10, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1], id="few small ones: room beside large ones"
        ),
        pytest.param(
            {6: 1, 4: 10}, 10, [0, 0, 0, 0, *[0.5] * 4, 1, 1, 1], id="many small ones: each half a GPU"
        ),
    ],
)
def test_the_worth_of_a_residual(demand: dict[int, float], capacity: int, worth: list[float]) -> None:
    assert residual_values(demand, capacity) == pytest.approx(worth)


small = st.integers(1, 12).flatmap(
    lambda capacity: st.tuples(
        st.dictionaries(st.integers(1, capacity), st.integers(1, 9), min_size=1, max_size=3),
        st.just(capacity),
    )
)


def patterns(sizes: list[int], capacity: int) -> Iterator[tuple[int, ...]]:
    """Every way to fill one GPU."""
    for counts in product(*(range(capacity // size + 1) for size in sizes)):
        if any(counts) and sum(n * size for n, size in zip(counts, sizes, strict=True)) <= capacity:
            yield counts


def fewest(demand: dict[int, int], capacity: int) -> float:
    """The fewest GPUs, in parts, that hold all: every basis is tried."""
    sizes = sorted(demand)
    wanted = np.array([demand[size] for size in sizes], float)
    best = np.inf
    # A pattern may also be used for smaller contents.
    columns = [
        *patterns(sizes, capacity),
        *(tuple(-(i == j) for j in range(len(sizes))) for i in range(len(sizes))),
    ]
    costs = [float(max(column) > 0) for column in columns]
    for basis in combinations(range(len(columns)), len(sizes)):
        matrix = np.array([columns[i] for i in basis], float).T
        if abs(np.linalg.det(matrix)) > 1e-9:
            used = np.linalg.solve(matrix, wanted)
            if (used >= -1e-9).all():
                best = min(best, sum(n * costs[i] for n, i in zip(used, basis, strict=True)))
    return best


@given(small)
def test_together_pods_are_worth_the_fewest_gpus_that_hold_them(case: tuple[dict[int, int], int]) -> None:
    demand, capacity = case
    worth = residual_values(demand, capacity)
    # No filling is worth more than a GPU, so that pods never exceed the value of the GPUs that hold them.
    for counts in patterns(sorted(demand), capacity):
        assert sum(n * worth[size] for n, size in zip(counts, sorted(demand), strict=True)) <= 1 + 1e-9
    assert sum(n * worth[size] for size, n in demand.items()) == pytest.approx(fewest(demand, capacity))


def is_lawful(worth: Floats) -> bool:
    """Monotonic, from zero to one GPU; two residuals apart are worth no more than together."""
    ends = worth[0] == 0 and worth[-1] == 1
    apart = [worth[one] + worth[: len(worth) - one] <= worth[one:] + 1e-9 for one in range(len(worth))]
    return bool(ends and (np.diff(worth) >= 0).all() and all(each.all() for each in apart))


def at_least(demand: dict[int, float], capacity: int) -> float:
    """A lower bound of the GPUs for all pods, by functions that no filling exceeds.

    The first counts amounts; the others are u^(k) of Fekete and Schepers, "New classes of fast lower bounds
    for bin packing problems", Mathematical Programming 91, 2001.
    """
    bounds = [sum(n * size for size, n in demand.items()) / capacity]
    for k in range(1, 12):
        rounded = {
            size: size / capacity if (k + 1) * size % capacity == 0 else (k + 1) * size // capacity / k
            for size in demand
        }
        bounds.append(sum(n * rounded[size] for size, n in demand.items()))
    return max(bounds)


_WEIGHTS = {
    "of all orders": st.floats(-12, 6).map(lambda exponent: float(10**exponent)),
    "alike": st.just(1.0),
    "of thousands": st.integers(1, 5000).map(float),
    "any": st.floats(0.01, 1.0),
}


@settings(max_examples=2)
@pytest.mark.parametrize("weights", _WEIGHTS)
@pytest.mark.parametrize("count", [1, 2, 9, pytest.param(64, marks=pytest.mark.process)])
@given(data=st.data())
def test_large_mixes_are_lawful_and_worth_their_demand(count: int, weights: str, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count, unique=True))
    demand = {size: data.draw(_WEIGHTS[weights]) for size in sizes}
    worth = residual_values(demand, 1000)
    assert is_lawful(worth)
    pods = sum(n * float(worth[size]) for size, n in demand.items())
    # Large mixes stop at most a per cent below the best.
    assert pods >= at_least(demand, 1000) * (0.99 if count == 64 else 1 - 1e-6)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(range(1, 65), id="all that are small"),
        pytest.param(range(937, 1001), id="all that are large"),
        pytest.param(range(301, 365), id="three of any of them, or two"),
        pytest.param(range(469, 533), id="on both sides of a half"),
        pytest.param([1, 1000], id="the least and the most"),
        pytest.param([*range(100, 1001, 100)], id="hundreds"),
    ],
)
def test_mixes_of_sizes_that_are_close(sizes: Sequence[int]) -> None:
    demand = dict.fromkeys(sizes, 1 / len(sizes))
    worth = residual_values(demand, 1000)
    assert is_lawful(worth)
    assert sum(n * float(worth[size]) for size, n in demand.items()) >= at_least(demand, 1000) * 0.99


@given(small, st.sampled_from((1e-9, 0.1, 1e6)))
def test_only_how_often_sizes_come_beside_each_other_counts(
    case: tuple[dict[int, int], int], times: float
) -> None:
    demand, capacity = case
    more = {size: n * times for size, n in demand.items()}
    assert residual_values(more, capacity) == pytest.approx(residual_values(demand, capacity))
