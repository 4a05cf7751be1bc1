"""The inflation report at a load, worked out by hand: a mean over arrivals, and the most frequent classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import TraceNode
from tests.sim.small import SMALL, pods_of, share, whole
from tests.sim.watched import arriving


def run_of(gpus: int, arrivals: list[PodKind], trace: list[PodKind]) -> Run:
    """These pods arrive in this order at one node, with the expectation of the trace."""
    nodes = (TraceNode("n", 64_000, 64_000, gpus, "A100"),)
    with arriving(pods_of(*arrivals)):
        return run_inflation(
            replace(SMALL, nodes=nodes, pods=pods_of(*trace), policy="best-fit", load=1.0)
        ).run


@pytest.mark.parametrize(
    ("arrivals", "held_milli"),
    [
        pytest.param([share(1), share(989), share(10)], [1000], id="the only one at the load"),
        pytest.param(
            [share(990), share(6), share(1), share(3)], [996, 997, 1000], id="the mean over all at the load"
        ),
        pytest.param(
            [share(990), share(7), share(4)], [997, 997], id="of the holdings, where one is rejected"
        ),
        pytest.param(
            [share(990), share(7), PodKind(1000, 1000), share(3)],
            [997, 997, 1000],
            id="one that asks no GPU came at the load as well",
        ),
    ],
)
def test_allocation_at_a_load_is_the_mean_over_its_arrivals(
    arrivals: list[PodKind], held_milli: list[int]
) -> None:
    # On one GPU, loads of 995 to 1005 thousandths are 100 per cent.
    run = run_of(1, arrivals, trace=arrivals)
    assert dict(run.allocation_percent or {}) == {
        "100": pytest.approx(sum(held_milli) / len(held_milli) / 10)
    }


TENTH, ONE = share(100), whole(1)


@pytest.mark.parametrize(
    ("trace", "percent"),
    [
        # Two rooms of 100 of 2,000 remain, usable by shares of 100 and not by whole GPUs.
        pytest.param([TENTH] * 19 + [ONE], 0.0, id="one pod in twenty is left out"),
        pytest.param([TENTH] * 18 + [ONE] * 2, 1.0, id="two in twenty are not"),
        pytest.param([ONE] * 19 + [TENTH], 10.0, id="the others count as if they were all"),
    ],
)
def test_fragmentation_is_that_of_the_commonest_classes(trace: list[PodKind], percent: float) -> None:
    run = run_of(2, [share(900), share(900)], trace)
    assert run.fragmentation_percent_at_90 == pytest.approx(percent)
