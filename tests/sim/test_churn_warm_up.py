"""The warm-up of churn: its pods hold GPUs, and no account has them; and its evictions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

from scheduler_ext.sim.protocols import run_churn
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import TraceNode
from tests.sim.movements import moving
from tests.sim.small import SMALL, pods_of, share, whole

NODES = tuple(TraceNode("n", 16_000, 100_000, 4, "A100") for _ in range(3))
PODS = pods_of(*(share(300), share(700), whole(1), whole(2)) * 5)
NO_ARRIVALS = 1e-9


def run_of(
    warm_up: float,
    measured: float,
    seed: int = 1,
    nodes: tuple[TraceNode, ...] = NODES,
    pods: tuple[TracePod, ...] = PODS,
    sampled_percent: int = 100,
) -> Run:
    """Some nodes, requests of twice their capacity, and half of the pods may evict others."""
    experiment = replace(
        SMALL,
        nodes=nodes,
        pods=pods,
        policy="best-fit",
        seed=seed,
        load=2.0,
        settings=Settings(ties="first", sampled_percent=sampled_percent),
        priorities="drawn",
        warm_up=warm_up,
        measured=measured,
    )
    return run_churn(experiment).run


def accounts(run: Run, measured: float) -> Counter[str]:
    """All counts of a run, amounts and their times."""
    assert run.mean_allocation_percent is not None
    assert run.evicted_milli is not None
    return Counter(
        {
            "arrived": run.arrived_milli,
            "allocated": run.allocated_milli,
            "evicted": run.evicted_milli,
            "held for": round(run.mean_allocation_percent * measured * 1e6),
            "whole for": round((run.whole_nodes_free or 0.0) * measured * 1e6),
            **{f"rejected {name}": milli for name, milli in run.rejected_by_class.items()},
        }
    )


def test_where_all_came_in_the_warm_up_no_arrival_counts_and_their_holdings_do() -> None:
    run = run_of(3.0, NO_ARRIVALS)
    assert (run.arrived_milli, run.allocated_milli, run.rejected_milli, run.evicted_milli) == (0, 0, 0, 0)
    assert run.rejected_by_class == {}
    assert run.mean_allocation_percent is not None
    assert run.mean_allocation_percent > 50


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_run_is_its_warm_up_and_what_follows(seed: int) -> None:
    early, late, whole_run = run_of(0.0, 1.5, seed), run_of(1.5, 2.5, seed), run_of(0.0, 4.0, seed)
    for run in (early, late):
        assert min(run.allocated_milli, run.rejected_milli, run.evicted_milli or 0) > 0
    both = accounts(early, 1.5) + accounts(late, 2.5)
    of_all = accounts(whole_run, 4.0)
    # Sums of floats are not exact.
    for area in ("held for", "whole for"):
        assert both.pop(area) == pytest.approx(of_all.pop(area), rel=1e-6, abs=2)
    assert both == of_all


@pytest.mark.parametrize("sampled_percent", [100, 1])
def test_a_pod_that_evicts_others_begins_to_run_at_once(sampled_percent: int) -> None:
    # All pods name the model of one node of four, which has the victims and is examined first.
    nodes = (*NODES, TraceNode("n", 16_000, 100_000, 4, "T4"))
    pods = pods_of(*[whole(1, models=("T4",))] * 20)
    with moving() as moved, patch.object(Sampling, "least", 1):
        run_of(0.0, 3.0, nodes=nodes, pods=pods, sampled_percent=sampled_percent)
    began = {when for when, _ in moved.began}
    assert moved.evicted
    assert {when for when, _ in moved.evicted} <= began
