"""Nodes that kube-scheduler examines: what the sample misses, and what becomes of the pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.sim.protocols import run_churn, run_inflation
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import TraceNode, World
from tests.sim.movements import moving
from tests.sim.small import SMALL, cluster_of, node_of, pods_of, scheduler_of, share, whole
from tests.sim.watched import arriving

TWO = Settings(ties="first", sampled_percent=1)


@contextmanager
def nodes_suffice(count: int) -> Iterator[None]:
    """So many nodes suffice, in clusters of less than a hundred times as many."""
    with patch.object(Sampling, "least", count):
        yield


@given(st.integers(1, 12), st.integers(1, 5), st.lists(st.integers(0, 2**12 - 1), max_size=8))
def test_nodes_are_walked_through_until_enough_pass(nodes: int, wanted: int, pods: list[int]) -> None:
    with nodes_suffice(wanted):
        sampling = Sampling(np.arange(nodes), percent=1)
        start = 0
        for bits in pods:
            passes = [bool(bits >> node & 1) for node in range(nodes)]
            found: list[int] = []
            walked = 0
            while walked < nodes and len(found) < wanted:
                node = (start + walked) % nodes
                walked += 1
                if passes[node]:
                    found.append(node)
            start = (start + walked) % nodes
            assert np.flatnonzero(sampling.examined(np.array(passes))).tolist() == sorted(found)


@pytest.mark.parametrize(
    ("nodes", "percent", "suffice"),
    [
        pytest.param(90, 5, 90, id="small clusters are examined in whole"),
        pytest.param(1000, 5, 100, id="a hundred nodes at least"),
        pytest.param(1000, 0, 420, id="50 per cent less one for each 125 nodes by default"),
        pytest.param(20_000, 0, 1000, id="5 per cent at least by default"),
        pytest.param(5000, 20, 1000, id="the percentage that is configured"),
    ],
)
def test_the_number_of_nodes_that_suffice(nodes: int, percent: int, suffice: int) -> None:
    sampling = Sampling(np.arange(nodes), percent)
    assert int(sampling.examined(np.ones(nodes, np.bool_)).sum()) == suffice


# Two GPUs with so much left on each.
Lefts = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("models", "left", "kind", "settings", "nodes"),
    [
        pytest.param(
            ["T4", "T4", "T4", "T4", "A100"],
            [],
            whole(1, models=("A100",)),
            TWO,
            [None, None, 4],
            id="a model that only the last node has",
        ),
        pytest.param(
            ["T4", "T4", "T4", "T4", "A100"],
            [],
            whole(1, models=("A100",)),
            replace(TWO, affinity=True),
            [4],
            id="the same, if the model is node affinity",
        ),
        pytest.param(
            ["T4", "A100", "T4", "A100", "T4", "T4"],
            [],
            whole(1, models=("A100",)),
            TWO,
            [1],
            id="models in turn",
        ),
        pytest.param(
            ["A100", "T4", "A100", "T4", "A100", "A100"],
            [],
            whole(1, models=("T4",)),
            replace(TWO, node_order="model"),
            [None, None, 1],
            id="the same, if the nodes of a model are beside each other",
        ),
        pytest.param(
            ["T4"] * 5,
            [(300, 300)] * 4 + [(0, 500)],
            share(500),
            TWO,
            [None, None, 4],
            id="a share for which the sum suffices everywhere, and one GPU on the last node only",
        ),
        pytest.param(
            ["T4"] * 5,
            [(900, 900)] * 4 + [(1000, 0)],
            whole(1),
            TWO,
            [None, None, 4],
            id="a whole GPU where all others are in use in part",
        ),
        pytest.param(
            ["T4"] * 5,
            [(300, 100)] * 4 + [(0, 500)],
            share(500),
            TWO,
            [4],
            id="a share for which the sums do not suffice, which kube-scheduler knows",
        ),
        pytest.param(
            ["T4"] * 5,
            [(900, 1000)] * 4,
            whole(1, cpu_milli=64_000),
            TWO,
            [4],
            id="CPU that only the last node has, which kube-scheduler knows",
        ),
        pytest.param(
            ["T4"] * 5,
            [(300, 300)] * 5,
            share(500),
            TWO,
            [None, None, None],
            id="a share that fits nowhere is refused truly",
        ),
    ],
)
def test_a_pod_is_tried_until_the_sample_has_a_node_that_takes_it(
    models: list[str], left: Lefts, kind: PodKind, settings: Settings, nodes: list[int | None]
) -> None:
    world = World(cluster_of(*[(64_000, 2, model) for model in models]))
    for node, amounts in enumerate(left):
        for slot, milli in enumerate(amounts):
            if milli < 1000:
                world.place(PodKind(1, 1, 1, 1000 - milli), node, (slot,))
    with nodes_suffice(2):
        scheduler = scheduler_of(world, "first-fit", settings)
        assert [node_of(scheduler, kind) for _ in nodes] == nodes
    falsely = nodes.count(None) if scheduler.fits(kind) else 0
    assert scheduler.false_refusals == falsely


FIRST, MIDDLE, LAST = (whole(1, models=(model,)) for model in ("A100", "H100", "T4"))


def run_of(nodes: int, *arrivals: PodKind) -> Run:
    """A node with an A100, others with an H100, and one with a T4, by two at a time."""
    models = ["A100", *["H100"] * (nodes - 2), "T4"]
    experiment = replace(
        SMALL,
        nodes=tuple(TraceNode("n", 64_000, 64_000, 1, model) for model in models),
        pods=pods_of(*arrivals),
        policy="first-fit",
        load=1.0,
        settings=replace(TWO, node_order="model"),
    )
    with nodes_suffice(2), arriving(pods_of(*arrivals)):
        return run_inflation(experiment).run


@pytest.mark.parametrize(
    ("arrivals", "refusals", "most"),
    [
        # It sees 0 and 1, at once 2 and 3, and at the end 4 and 5, 6 and 7, 8 and 0.
        pytest.param([LAST], 4, 5, id="alone, it is tried twice, and at the end until it is placed"),
        # The other pod sees 4 and 5, and takes 4. Then it sees 6 and 7, and at the end 8 and 0.
        pytest.param([LAST, MIDDLE], 3, 4, id="a pod that is placed wakes it"),
        # As before, but the last pod sees 8 and 0, and takes 0. Then it sees 1 and 2, 3 and 5, 6 and 7, 8.
        pytest.param(
            [LAST, MIDDLE, PodKind(64_000, 1000)], 6, 7, id="another pod moves the search past its node"
        ),
    ],
)
def test_a_pod_that_is_refused_falsely_waits(arrivals: list[PodKind], refusals: int, most: int) -> None:
    run = run_of(9, *arrivals)
    assert run.rejected_milli == run.waiting_milli == 0
    assert run.allocated_milli == sum(kind.demand_milli for kind in arrivals)
    assert (run.false_refusals, run.most_tries) == (refusals, most)
    assert run.tries_per_pod == pytest.approx(1 + refusals / len(arrivals))


def test_pods_that_take_turns_may_never_see_their_nodes() -> None:
    # The first sees 0 to 3, the second 4 to 7. Then the first sees 0, 1, 4 and 5 again and again.
    run = run_of(8, LAST, FIRST)
    assert (run.arrived_milli, run.allocated_milli, run.waiting_milli) == (2000, 0, 2000)


def test_the_lifetime_of_a_pod_that_waited_begins_with_its_place() -> None:
    experiment = replace(
        SMALL,
        nodes=tuple(TraceNode("n", 64_000, 64_000, 4, model) for model in ["A100"] * 3 + ["T4"] * 3),
        pods=pods_of(LAST, FIRST),
        policy="first-fit",
        load=0.2,
        settings=replace(TWO, node_order="model"),
        warm_up=0.0,
    )
    with moving() as at_once:
        run_churn(experiment)
    with nodes_suffice(1), moving() as later:
        run = run_churn(experiment).run
    assert (run.false_refusals or 0) > 5
    assert run.waiting_milli == run.rejected_milli == 0
    assert later.began != at_once.began
    # Not only the pods that come wake it, but also those that leave.
    assert {when for when, _ in later.began} & {when for when, _ in later.ended}
    assert sorted(later.lifetimes) == pytest.approx(sorted(at_once.lifetimes))
