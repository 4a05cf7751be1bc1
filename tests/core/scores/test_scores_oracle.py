"""Every vectorised score equals a plain loop over one node, on random clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.node.node import NodeInfo, NodeState
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.scores import DEFAULT_WEIGHTS, SCORES
from scheduler_ext.core.scores.future_demand import Balance, ModelScarcity
from tests import score_oracle
from tests.core.asked import HELD, mig, share, t4, whole
from tests.core.reported import device, node, sliced
from tests.gpu_strategies import STRATEGIES
from tests.strategies import clusters, requests, several_requests, snapshot_of, workloads


def placed_in(decision: Decision, state: int) -> score_oracle.Placed:
    """The request as the decision placed it in one state."""
    scoring = decision.scoring
    snapshot = decision.snapshot
    return score_oracle.Placed(
        scoring.request,
        tuple(int(slots[state]) for slots in scoring.fit.slots) if scoring.fit else (),
        scoring.strategy,
        scoring.level,
        snapshot.expected.workload,
        tuple(node.state for node in snapshot.nodes.values()),
    )


def fitting(decision: Decision) -> list[int]:
    return [int(state) for state in np.flatnonzero(decision.fits)]


def test_every_score_has_an_oracle_and_a_weight() -> None:
    names = [score.name for score in SCORES]
    assert list(score_oracle.SCORES) == names
    assert set(DEFAULT_WEIGHTS) == set(names)


def assert_scores_agree(decision: Decision) -> None:
    snapshot, states = decision.snapshot, fitting(decision)
    for score in SCORES:
        if states and score.applies(decision.scoring):
            values = score.value(decision.scoring)
            assert values.shape == (len(snapshot.states),)
            rule = score_oracle.SCORES[score.name]
            expected = [rule(snapshot.states[i], placed_in(decision, i)) for i in states]
            assert values[states] == pytest.approx(expected, abs=1e-6), score.name
            assert all(0.0 <= value <= 1.0 for value in values[states]), score.name


@given(clusters(), st.sampled_from((1, 12)), several_requests, st.sampled_from(STRATEGIES), workloads())
def test_every_score_agrees_with_its_oracle(
    cluster: Sequence[NodeInfo], copies: int, asked: list[GpuRequest], strategy: str, workload: Workload
) -> None:
    # With the copies it is no small cluster.
    nodes = [replace(info, name=f"{info.name}-{i}") for info in cluster for i in range(copies)]
    snapshot = snapshot_of(nodes, workload=workload)
    for request in asked:
        decision = filter_nodes(request, snapshot, SchedulingPolicy(strategy=strategy))
        event(f"fits somewhere: {bool(decision.fits.any())}")
        assert_scores_agree(decision)


@pytest.mark.parametrize(
    ("cpu_milli", "lost", "value"),
    [
        pytest.param(8_000, 0.937, 0.532, id="as much CPU as pods to come ask"),
        pytest.param(24_000, 1.501, 0.249, id="the CPU of three GPUs"),
        pytest.param(32_000, 2.078, 0.0, id="two GPUs are lost"),
    ],
)
def test_balance_takes_half_of_its_points_for_each_gpu_that_is_lost(
    cpu_milli: int, lost: float, value: float
) -> None:
    """A node of eight GPUs and 64 cores; each future pod requests a GPU and eight cores."""
    info = replace(node(*(device(i) for i in range(8)), cpu_milli=64_000), name="n")
    snapshot = snapshot_of([info], workload=Workload.of({TaskClass(8_000, gpus=1): 1}))
    decision = filter_nodes(whole(1, cpu_milli=cpu_milli), snapshot, SchedulingPolicy())
    scoring, (state,) = decision.scoring, fitting(decision)
    assert scoring.before.usable[state] - scoring.after.usable[state] == pytest.approx(lost, abs=1e-3)
    assert Balance().value(scoring)[state] == pytest.approx(value, abs=1e-3)
    assert_scores_agree(decision)


@pytest.mark.parametrize(
    ("idle", "value"),
    [
        pytest.param(4, 0.75, id="half as much as would make it short: a quarter of the points"),
        pytest.param(2, 1 - (1 / 4 * 6 / 2) ** 2, id="fewer idle ones of six are scarcer"),
        pytest.param(1, 0.0, id="it is short"),
    ],
)
def test_a_model_is_scarce_by_the_square_of_the_demand_for_it(idle: int, value: float) -> None:
    """Every fourth pod takes A100s only, and four T4s are idle beside the A100s."""
    held = [device(i, holders=HELD) for i in range(4 - idle)]
    scarce = replace(node(*held, *(device(i) for i in range(4 - idle, 4))), name="a")
    plenty = replace(node(*(t4(i) for i in range(4))), name="t")
    workload = Workload.of({TaskClass(gpus=1, models=("A100-80GB",)): 1, TaskClass(gpus=1): 3})
    decision = filter_nodes(whole(), snapshot_of([scarce, plenty], workload=workload), SchedulingPolicy())
    snapshot = decision.snapshot
    values = ModelScarcity().value(decision.scoring)
    assert [values[snapshot.state_at(name)] for name in ("a", "t")] == pytest.approx([value, 1.0])
    assert_scores_agree(decision)


def test_scores_agree_where_a_pod_has_several_shares() -> None:
    plain = node(*(device(i) for i in range(4)), report={"sharing_strategy": "none"})
    decision = filter_nodes(share(20_480, 40_960, 61_440), snapshot_of([plain]), SchedulingPolicy())
    assert decision.fits.any()
    assert_scores_agree(decision)


@pytest.mark.parametrize("nodes", [2, 32])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("priority", [0, 500])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scores_agree_where_several_units_are_asked(
    nodes: int, count: int, priority: int, strategy: str
) -> None:
    seven = sliced(*[("1g.10gb", start) for start in range(7)], holders={6: Holder(uid="someone")})
    mixed = node(device(0, mig=seven), device(1), report={"mig_strategy": "mixed"})
    whole_ones = node(*(t4(i) for i in range(4)), *(device(i) for i in range(4, 10)))
    workload = Workload.of(
        {TaskClass(mig=(("3g.40gb", 1), ("1g.10gb", 2))): 3, TaskClass(gpus=2): 1}, unknown=1
    )
    cluster = [replace((mixed, whole_ones)[i % 2], name=f"{i:02}") for i in range(nodes)]
    snapshot = snapshot_of(cluster, workload=workload)
    for request in (whole(count, priority=priority), replace(mig("1g.10gb", count), priority=priority)):
        decision = filter_nodes(request, snapshot, SchedulingPolicy(strategy=strategy))
        assert decision.fits.any()
        assert_scores_agree(decision)


def offers_parts(state: NodeState) -> bool:
    """Whether what the node hands out as a GPU is a replica or a MIG instance."""
    units = [unit for slot in state.slots for unit in slot.units]
    return state.shared or any("-MIG-" in unit.model.name and "/mig-" not in unit.resource for unit in units)


def _is_unreported(state: NodeState) -> bool:
    """Whether a node is known by labels, or counts by its allocatable beside an old report."""
    return state.estimated or state.by_allocatable


@given(
    clusters(),
    requests(),
    st.fixed_dictionaries({score.name: st.sampled_from((0.0, 0.5, 3.0)) for score in SCORES}),
)
def test_a_total_is_the_weighted_mean_of_the_terms_that_apply(
    cluster: Sequence[NodeInfo], request: GpuRequest, weights: dict[str, float]
) -> None:
    decision = filter_nodes(request, snapshot_of(cluster), SchedulingPolicy(weights=weights))
    states = fitting(decision)
    applied = [s.name for s in SCORES if weights[s.name] and states and s.applies(decision.scoring)]
    with_gpus = {_is_unreported(state) for state in decision.snapshot.states if state.gpus}
    mixed = request.asks_gpu and True in with_gpus and not all(map(_is_unreported, decision.snapshot.states))
    asks_whole = bool(request.whole) and request.sharing is None
    sliced_somewhere = any(map(offers_parts, decision.snapshot.states))
    for state in states:
        placed = placed_in(decision, state)
        values = {
            name: score_oracle.SCORES[name](decision.snapshot.states[state], placed) for name in applied
        }
        # A table test has how they follow from the configured ones.
        weights = dict(decision.weights)
        sum_of_weights = sum(weights[name] for name in applied)
        mean = sum(weights[name] * values[name] for name in applied)
        mean = mean / sum_of_weights if applied else 0.0
        # For all weights, whole GPUs come before slices, and reports before labels: 11 of 21 parts.
        here = decision.snapshot.states[state]
        if sliced_somewhere and asks_whole:
            slice_ = offers_parts(here)
            mean = 11 / 21 * (not slice_) + 10 / 21 * mean if applied else float(not slice_)
        if mixed:
            decided = applied or (sliced_somewhere and asks_whole)
            reported = not _is_unreported(here)
            mean = 11 / 21 * reported + 10 / 21 * mean if decided else float(reported)
        assert decision.totals[state] == pytest.approx(mean, abs=1e-6)
