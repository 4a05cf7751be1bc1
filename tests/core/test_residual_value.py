"""The worth of residuals: hand-worked mixes, laws, and every way to fill GPUs tried on small ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.residual_value import residual_values


@pytest.mark.parametrize(
    ("demand", "capacity", "worth"),
    [
        pytest.param({}, 4, [0, 0.25, 0.5, 0.75, 1], id="nothing is known: its part"),
        pytest.param({4: 1}, 4, [0, 0, 0, 0, 1], id="only whole GPUs are asked: a part is worth nothing"),
        pytest.param({2: 1}, 4, [0, 0, 0.5, 0.5, 1], id="halves: what is over is worth nothing"),
        pytest.param({3: 1}, 10, [0, 0, 0, *[1 / 3] * 3, *[2 / 3] * 3, 1, 1], id="three of them fill it"),
        pytest.param({4: 1, 3: 0}, 4, [0, 0, 0, 0, 1], id="what never comes does not count"),
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
    # A pattern may also be used for less than it holds.
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
    # A pod takes at least its own worth from any residual, so that no filling is worth more than a GPU.
    for counts in patterns(sorted(demand), capacity):
        assert sum(n * price(worth, size) for n, size in zip(counts, sorted(demand), strict=True)) <= 1 + 1e-6
    assert sum(n * price(worth, size) for size, n in demand.items()) <= fewest(demand, capacity) + 1e-6


def price(worth: np.ndarray, size: int) -> float:
    """What a pod is worth at least: no residual loses less by it."""
    return float(min(worth[r] - worth[r - size] for r in range(size, len(worth))))


@given(small)
def test_it_never_falls_and_a_gpu_is_worth_one(case: tuple[dict[int, int], int]) -> None:
    worth = residual_values(*case)
    assert worth[0] == 0
    assert worth[-1] == pytest.approx(1)
    assert (np.diff(worth) >= -1e-12).all()


@given(small)
def test_two_residuals_apart_are_worth_no_more_than_together(case: tuple[dict[int, int], int]) -> None:
    worth = residual_values(*case)
    for one in range(len(worth)):
        for other in range(len(worth) - one):
            assert worth[one] + worth[other] <= worth[one + other] + 1e-9
