"""Whole runs of any policy: nothing is lost, nothing is assigned twice, and no policy sees the future."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scheduler_ext.sim.experiment import Experiment, RunOutcome
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.protocols import run_churn, run_inflation
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.scheduler import INTREE_SCORES, NODE_ORDERS, Settings
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from tests.examples import examples
from tests.sim.movements import moving
from tests.sim.small import MODELS, kinds, without_pace
from tests.sim.watched import Watched, arriving, watched

RUNS = {"inflation": run_inflation, "churn": run_churn}
_shapes = st.builds(
    TraceNode,
    st.just("n"),
    st.sampled_from((8000, 16_000, 64_000)),
    st.sampled_from((4000, 100_000)),
    st.sampled_from((0, 1, 2, 4)),
    st.sampled_from(MODELS),
)
# The last node has GPUs for any pod at any load, and the last pod requests some.
_nodes = st.lists(_shapes, max_size=6).map(
    lambda shapes: (*shapes, TraceNode("n", 16_000, 100_000, 6, MODELS[0]))
)
_pods = st.lists(kinds, max_size=12).map(
    lambda kinds: tuple(TracePod("p", kind) for kind in (*kinds, PodKind(1000, 1000, 1, 300)))
)
_settings = st.builds(
    Settings,
    ties=st.sampled_from(("first", "random")),
    points=st.booleans(),
    sampled_percent=st.sampled_from((100, 0, 1)),
    node_order=st.sampled_from(NODE_ORDERS),
    affinity=st.booleans(),
    intree=st.sampled_from(({}, dict.fromkeys(INTREE_SCORES, 1))),
)
experiments = st.builds(
    Experiment,
    trace=st.just("small"),
    nodes=_nodes,
    pods=_pods,
    policy=st.sampled_from(list(POLICIES)),
    seed=st.integers(0, 2**32),
    load=st.sampled_from((0.7, 1.3)),
    target=st.sampled_from(("trace", "online", "first:3")),
    settings=_settings,
    constrain_percent=st.sampled_from((0.0, 50.0)),
    priorities=st.sampled_from(("none", "drawn")),
    warm_up=st.just(0.0),
    measured=st.just(1.0),
)
protocols = st.sampled_from(sorted(RUNS))


def run_of(protocol: str, experiment: Experiment) -> tuple[Watched, RunOutcome]:
    """A recorded run, in which two nodes suffice for a sample."""
    with watched() as seen, patch.object(Sampling, "least", 2):
        return seen, RUNS[protocol](experiment)


@examples(30, long=1000)
@given(protocols, experiments)
def test_all_that_arrives_is_placed_where_it_fits_or_rejected(protocol: str, experiment: Experiment) -> None:
    seen, outcome = run_of(protocol, experiment)
    run = outcome.run
    rejected = {name: milli for name, milli in (run.rejected_by_class or {}).items() if milli}
    waiting_milli = run.waiting_milli or 0
    assert run.arrived_milli == run.allocated_milli + sum(rejected.values()) + waiting_milli
    if protocol == "churn" and experiment.priorities != "none":
        # Pods that evict others are examined twice.
        return
    assert run.arrived_milli == sum(kind.demand_milli for kind, _ in seen.decisions) + waiting_milli
    assert (run.false_refusals or 0) == seen.false_refusals
    assert rejected == seen.rejected
    if protocol == "inflation":
        held = sum(1000 - room for left in seen.left for room in left.rooms_milli)
        rooms = outcome.rooms_milli
        assert held == run.allocated_milli == (1000 - rooms[rooms >= 0]).sum()
        assert run.whole_nodes_free == sum(set(left.rooms_milli) == {1000} for left in seen.left)


@examples(20, long=500)
@given(experiments, st.sampled_from((1.3, 3.0)), st.sampled_from((0.0, 0.5)))
def test_allocated_demand_that_neither_ended_nor_was_evicted_is_held(
    experiment: Experiment, load: float, warm_up: float
) -> None:
    experiment = replace(experiment, priorities="drawn", load=load, warm_up=warm_up)
    with moving() as moved:
        seen, outcome = run_of("churn", experiment)
    run, (world,), (residents,) = outcome.run, moved.worlds, moved.residents
    assert run.evicted_milli is not None
    # The holdings at the start of counting are in no account.
    given = moved.held_milli(warm_up) + run.allocated_milli
    held = given - run.evicted_milli - moved.ended_milli(warm_up)
    assert world.allocated_milli == held
    running = [resident for node in range(len(experiment.nodes)) for resident in residents.on(node)]
    assert sum(resident.pod.kind.demand_milli for resident in running) == held
    assert sum(1000 - room for left in seen.left for room in left.rooms_milli) == held


@examples(20, long=300)
@given(protocols, experiments)
def test_a_seed_decides_every_placement(protocol: str, experiment: Experiment) -> None:
    (seen, outcome), (again, other) = run_of(protocol, experiment), run_of(protocol, experiment)
    assert seen.decisions == again.decisions
    assert without_pace(outcome.run) == without_pace(other.run)


@examples(20, long=500)
@given(protocols, experiments, st.integers(0, 99))
def test_a_sample_of_all_nodes_changes_nothing(protocol: str, experiment: Experiment, percent: int) -> None:
    sampled, examined = (
        replace(experiment, settings=replace(experiment.settings, sampled_percent=each))
        for each in (percent, 100)
    )
    # A hundred nodes suffice, and there are fewer.
    with watched() as seen:
        of_sample = RUNS[protocol](sampled).run
    with watched() as again:
        of_all = RUNS[protocol](examined).run
    assert seen.decisions == again.decisions
    assert (of_sample.false_refusals, of_sample.waiting_milli, of_sample.most_tries) == (0, 0, 1)
    unknown = {"false_refusals": None, "waiting_milli": None, "tries_per_pod": None, "most_tries": None}
    assert structs.replace(without_pace(of_sample), **unknown) == without_pace(of_all)


_some_pods = st.lists(kinds.map(lambda kind: TracePod("p", kind)), max_size=20)


@examples(20, long=500)
@given(
    experiments,
    st.sampled_from(("online", "first:1", "first:5", "first:30")),
    st.lists(kinds.map(lambda kind: TracePod("p", kind)), min_size=30, max_size=60),
    _some_pods,
    _some_pods,
)
def test_other_pods_to_come_change_no_decision_before(
    experiment: Experiment,
    target: str,
    past: list[TracePod],
    future: list[TracePod],
    other: list[TracePod],
) -> None:
    # Constraints are drawn pod by pod, for all pods.
    experiment = replace(experiment, target=target, constrain_percent=0.0)
    before = []
    for to_come in (future, other):
        pods = (*past, *to_come)
        with arriving(pods):
            seen, _ = run_of("inflation", replace(experiment, pods=pods))
        expected = [each for each in seen.expected if each[0] < len(past)]
        before.append((seen.decisions[: len(past)], expected))
    assert before[0] == before[1]
