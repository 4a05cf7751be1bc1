"""How much the value of GPUs counts, by the size of the cluster and its idle part."""

from __future__ import annotations

import pytest

from scheduler_ext.core.scores.value import thrift
from scheduler_ext.core.snapshot.smallness import smallness


@pytest.mark.parametrize(
    ("gpu_nodes", "idle_part", "expected"),
    [
        pytest.param(1, 1.0, 1.0, id="in full in a small cluster"),
        pytest.param(10, 0.0, 1.0, id="also if no GPU is idle"),
        pytest.param(30, 1.0, 0.5, id="half in a large cluster"),
        pytest.param(30, 0.25, 0.25, id="less if three quarters are in use"),
        pytest.param(1_213, 0.0, 0.0, id="not at all if none is idle"),
        pytest.param(20, 0.25, 0.625, id="evenly between"),
    ],
)
def test_value_counts_more_in_small_and_in_idle_clusters(
    gpu_nodes: int, idle_part: float, expected: float
) -> None:
    assert thrift(idle_part, smallness(gpu_nodes)) == pytest.approx(expected)
