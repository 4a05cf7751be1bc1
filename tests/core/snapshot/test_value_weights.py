"""How much the value of GPUs counts: by the size of the cluster, its idle part, and the rest of a model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.snapshot.value_weights import scarcity_weights, small_cluster_weight, value_weight

# L4, A100 and H200, say.
RANKS = np.array([0.0, 0.4, 0.6])


@pytest.mark.parametrize(
    ("gpu_nodes", "idle_part", "expected"),
    [
        pytest.param(1, 1.0, 1.0, id="in full in a small cluster"),
        pytest.param(10, 0.0, 1.0, id="also if no GPU is idle"),
        pytest.param(30, 1.0, 0.5, id="half in a large cluster"),
        pytest.param(30, 0.0625, 0.0625, id="less if most GPUs are in use"),
        pytest.param(1_213, 0.0, 0.0, id="not at all if none is idle"),
        pytest.param(20, 0.0625, 0.53125, id="evenly between"),
    ],
)
def test_value_counts_more_in_small_and_in_idle_clusters(
    gpu_nodes: int, idle_part: float, expected: float
) -> None:
    assert value_weight(idle_part, small_cluster_weight(gpu_nodes)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("idle", "nearly"),
    [
        pytest.param([8, 0, 0], [0, 3, 3], id="nothing left of the dearer ones"),
        pytest.param([8, 8, 8], [0, 0, 0], id="half of each is idle"),
        pytest.param([8, 8, 6], [0, 0, 0.75], id="three eighths beside a half"),
        pytest.param([8, 8, 2], [0, 0, 2.25], id="an eighth beside a half"),
        pytest.param([8, 1, 8], [0, 0, 0], id="a dearer model is not short, and can replace it"),
        pytest.param([0, 8, 2], [0, 0, 0.3], id="beside idle ones of nearly half the price it counts little"),
        pytest.param([0, 0, 1], [0, 0, 0], id="nothing cheaper is idle"),
        pytest.param([0, 0, 0], [0, 0, 0], id="nothing is idle"),
    ],
)
def test_the_last_gpus_of_a_model_are_kept_while_cheaper_ones_are_idle(
    idle: list[float], nearly: list[float]
) -> None:
    gpus = np.array([16.0, 16.0, 16.0])
    assert scarcity_weights(RANKS, np.array(idle, np.float64), gpus).tolist() == pytest.approx(nearly)


def test_a_model_of_up_to_twice_the_price_is_not_kept() -> None:
    ranks = np.log([1.0, 2.0, 3.0, 4.0]) / np.log(64.0)
    idle, gpus = np.array([8.0, 0.0, 0.0, 0.0]), np.full(4, 16.0)
    assert scarcity_weights(ranks, idle, gpus).tolist() == pytest.approx([0.0, 0.0, 1.7549, 3.0], abs=1e-3)


@given(*[st.lists(st.integers(0, 16), min_size=5, max_size=5)] * 2)
def test_of_two_models_the_dearer_one_always_costs_more(idle: list[int], prices: list[int]) -> None:
    ranks = np.array(prices, np.float64) / 16
    costs = ranks * scarcity_weights(ranks, np.array(idle, np.float64), np.full(5, 16.0))
    order = np.argsort(ranks)
    assert (np.diff(costs[order]) >= 0).all()
