"""The weights of a cluster by its idle part."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cycle.weights import STEPS, utilization_level, weights_at
from scheduler_ext.core.snapshot.value_weights import small_cluster_weight

WEIGHTS = {"residual-value": 1.0, "fragmentation": 0.1, "model-scarcity": 0.2}


@pytest.mark.parametrize(
    ("idle_part", "weights"),
    [
        pytest.param(
            1.0, {"residual-value": 1.0, "fragmentation": 0.1}, id="an empty cluster: as configured"
        ),
        pytest.param(0.25, {"residual-value": 0.8, "fragmentation": 0.275}, id="the first step"),
        pytest.param(0.0, {"residual-value": 0.2, "fragmentation": 0.8}, id="no idle GPU"),
    ],
)
def test_the_fuller_the_more_fragmentation_counts(idle_part: float, weights: dict[str, float]) -> None:
    assert weights_at(WEIGHTS, utilization_level(idle_part, 0.0), 0.0, 0.0) == pytest.approx(
        {**weights, "model-scarcity": 0.2}
    )


def test_equal_parts_are_equally_full_however_computed() -> None:
    third = 0.275 + 1e-12
    assert (
        utilization_level(third, 0.0)
        == utilization_level(0.275, 0.0)
        == utilization_level(0.275 - 1e-12, 0.0)
    )


@pytest.mark.parametrize(
    ("gpu_nodes", "steps"),
    [
        pytest.param(3, 0, id="never in a small cluster"),
        pytest.param(20, 2, id="half in one of twenty nodes"),
        pytest.param(30, 4, id="large from thirty on"),
    ],
)
def test_a_full_cluster_is_full_if_it_is_large(gpu_nodes: int, steps: int) -> None:
    assert utilization_level(0.0, small_cluster_weight(gpu_nodes)) == steps


@pytest.mark.parametrize(
    ("idle_part", "cpu_shortage", "factor"),
    [
        pytest.param(0.5, 1.0, 1.0, id="short of CPU, and half idle: as configured"),
        pytest.param(0.0, 0.5, 3.5, id="full, and half short"),
        pytest.param(0.0, 1.0, 6.0, id="full and short"),
    ],
)
def test_idle_nodes_stay_whole_where_cpu_is_short(
    idle_part: float, cpu_shortage: float, factor: float
) -> None:
    found = weights_at(
        {"tightness": 0.01, "model-scarcity": 0.2}, utilization_level(idle_part, 0.0), 0.0, cpu_shortage
    )
    assert found == pytest.approx({"tightness": 0.01 * factor, "model-scarcity": 0.2})


@pytest.mark.parametrize(
    ("idle_part", "gpu_nodes", "balance"),
    [
        pytest.param(1.0, 1_213, 0.3, id="as configured in a large cluster"),
        pytest.param(0.0, 1_213, 0.105, id="a third where it is full"),
        pytest.param(1.0, 10, 0.2, id="two thirds in a small one"),
    ],
)
def test_balance_counts_most_in_a_large_cluster_with_room(
    idle_part: float, gpu_nodes: int, balance: float
) -> None:
    small = small_cluster_weight(gpu_nodes)
    found = weights_at({"balance": 0.3}, utilization_level(idle_part, small), small, 0.0)
    assert found == pytest.approx({"balance": balance})


def test_a_weight_of_zero_stays_zero() -> None:
    assert weights_at({"fragmentation": 0.0, "whole-gpus": 0.0}, STEPS, 0.0, 1.0) == {
        "fragmentation": 0.0,
        "whole-gpus": 0.0,
    }
