"""Inflation and churn: every pod is accounted for, and a seed determines everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scheduler_ext.core.cycle.policy import SchedulingPolicy as Knobs
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.sim.arrivals import constrained, inflated, prioritised
from scheduler_ext.sim.experiment import Experiment, RunOutcome
from scheduler_ext.sim.protocols import run_churn, run_inflation
from scheduler_ext.sim.trace_workload import PodKind, TracePod, model_of
from scheduler_ext.sim.world import Cluster, TraceNode
from tests.sim.small import SMALL, share, whole


@pytest.mark.parametrize("run", [run_inflation, run_churn])
def test_another_seed_is_another_run(run: Callable[[Experiment], RunOutcome]) -> None:
    first, other = (replace(SMALL, policy="random", seed=seed) for seed in (42, 43))
    assert run(first).run.rejected_by_class != run(other).run.rejected_by_class


@pytest.mark.parametrize(
    ("node", "values", "per_hour"),
    [
        pytest.param(
            TraceNode("n", 8000, 8000, 1, "A100-80GB"),
            {},
            value_of(model_of("A100-80GB"), {}),
            id="of the table",
        ),
        pytest.param(TraceNode("n", 8000, 8000, 1, "A100-80GB"), {"A100-80GB": 7.0}, 7.0, id="as configured"),
        pytest.param(
            TraceNode("n", 8000, 8000, 1, "A100-80GB", 0.5), {"A100-80GB": 7.0}, 0.5, id="of the node itself"
        ),
    ],
)
def test_the_value_of_what_is_allocated(node: TraceNode, values: dict[str, float], per_hour: float) -> None:
    pods = (TracePod("p", share(500)),)
    experiment = replace(SMALL, nodes=(node,), pods=pods, load=1.3, knobs=Knobs(values=values))
    assert run_inflation(experiment).run.allocated_value_per_hour == pytest.approx(per_hour)
    # Of a GPU that is always full, all is allocated at all times.
    busy = run_churn(replace(experiment, load=100.0, warm_up=1.0, measured=1.0)).run
    assert busy.allocated_value_per_hour == pytest.approx(per_hour, rel=0.2)


def test_pods_evict_by_priorities_of_their_own() -> None:
    node = TraceNode("n", 8000, 8000, 1, "A100-80GB")
    pods = (TracePod("low", whole(1), priority=-10), TracePod("none", whole(1)))
    experiment = replace(SMALL, nodes=(node,), pods=pods, load=3.0)
    assert (run_churn(experiment).run.evicted_milli or 0) > 0
    assert run_churn(replace(experiment, priorities="none")).run.evicted_milli is None


class TestInflation:
    def test_everything_is_reported(self) -> None:
        outcome = run_inflation(replace(SMALL, load=1.2))
        assert list(outcome.run.allocation_percent or {}) == ["100", "120"]
        assert max(outcome.allocation_percent) <= 120
        assert 0 < (outcome.run.fragmentation_percent_at_90 or 0) < 100
        assert outcome.run.evicted_milli is None
        assert outcome.run.mean_allocation_percent is None

    def test_a_pod_that_fits_is_placed(self) -> None:
        nodes = (TraceNode("n", 8000, 8000, 1, "A100"),)
        pods = (TracePod("p", share(250)),)
        outcome = run_inflation(replace(SMALL, nodes=nodes, pods=pods, load=1.3))
        assert (outcome.run.arrived_milli, outcome.run.allocated_milli) == (1250, 1000)
        assert outcome.run.rejected_by_class == {"share": 250}
        assert outcome.run.unallocated_gpus == 0
        # No pod arrives at load 130, the last at 125.
        assert outcome.run.allocation_percent == {"100": 100.0, "130": 100.0}

    def test_no_pod_asks_a_gpu(self) -> None:
        pods = (TracePod("p", PodKind(1000, 1000)),)
        for run in (run_inflation, run_churn):
            with pytest.raises(SimulationError, match="no pod requests a GPU"):
                run(replace(SMALL, pods=pods))

    def test_a_cluster_that_is_too_small_for_any_pod(self) -> None:
        pods = (TracePod("p", whole(8)),)
        nodes = (TraceNode("n", 8000, 8000, 2, "A100"),)
        with pytest.raises(
            SimulationError, match=r"load 1\.3: .* the cluster's 2 GPUs each; give more nodes"
        ):
            run_inflation(replace(SMALL, nodes=nodes, pods=pods))

    def test_one_pod_may_skip_a_load(self) -> None:
        nodes = (TraceNode("n", 8000, 8000, 2, "A100"),)
        run = run_inflation(replace(SMALL, nodes=nodes, pods=(TracePod("p", whole(2)),))).run
        assert run.allocation_percent == {"100": 100.0, "130": 100.0}
        # At load 90 no pod had come.
        assert run.fragmentation_percent_at_90 == 0.0

    def test_policies_meet_the_same_pods(self) -> None:
        arrived = {
            run_inflation(replace(SMALL, policy=policy)).run.arrived_milli
            for policy in ("fgd", "random", "best-fit")
        }
        assert len(arrived) == 1


class TestArrivals:
    @pytest.mark.parametrize("count", [10, 30])
    def test_the_whole_trace_comes_before_any_pod_again(self, count: int) -> None:
        pods = [TracePod(str(index), whole(1)) for index in range(count)]
        names = [pod.name for pod in inflated(pods, 10_000, 1.3, np.random.default_rng(1))]
        assert len(names) == 13
        assert len({*names[:count]}) == min(count, 13)
        assert names[:10] != [pod.name for pod in pods[:10]], "in random order"

    def test_constrained_pods_go_where_gpus_are(self) -> None:
        cluster = Cluster.of(
            [TraceNode("a", 1, 1, 9, "A100"), TraceNode("t", 1, 1, 1, "T4"), TraceNode("c", 1, 1, 0, "")]
        )
        pods = [TracePod("p", share(250))] * 2000 + [TracePod("c", PodKind(1, 1))]
        given = constrained(pods, cluster, 50.0, np.random.default_rng(1))
        models = [pod.kind.models for pod in given if pod.kind.models]
        assert 900 < len(models) < 1100
        assert set(models) == {("A100",), ("T4",), ("A100", "T4")}
        assert models.count(("A100",)) > 5 * models.count(("T4",))
        assert given[-1] == pods[-1]
        assert constrained(pods, cluster, 0.0, np.random.default_rng(1)) == pods

    def test_priorities(self) -> None:
        pods = [TracePod(qos, share(250), qos) for qos in ("LS", "Burstable", "BE", "?")]
        random = np.random.default_rng(1)
        assert [pod.priority for pod in prioritised(pods, "qos", random)] == [2, 1, 0, 0]
        assert {pod.priority for pod in prioritised(pods * 50, "drawn", random)} == {0, 1, 2}
        assert prioritised(pods, "none", random) == pods
        with pytest.raises(SimulationError, match="priorities qos: no pod has a QoS class"):
            prioritised([TracePod("p", share(250))], "qos", random)


class TestChurn:
    def test_the_offered_demand_is_the_load(self) -> None:
        pods = (TracePod("p", share(250)),)
        run = run_churn(replace(SMALL, pods=pods, load=0.5, warm_up=4.0, measured=15.0)).run
        assert run.rejected_milli == 0
        assert run.mean_allocation_percent == pytest.approx(50, abs=4)
        assert run.allocation_percent is None

    def test_whole_nodes_are_a_mean_over_time(self) -> None:
        node = TraceNode("n", 8000, 8000, 1, "A100")
        pods = (TracePod("p", share(250)),)
        experiment = replace(SMALL, nodes=(node,), pods=pods, load=0.05, warm_up=1.0, measured=1000.0)
        # The number of pods is Poisson with the mean 0.2.
        assert run_churn(experiment).run.whole_nodes_free == pytest.approx(np.exp(-0.2), abs=0.03)

    def test_the_important_evict_the_others(self) -> None:
        experiment = replace(SMALL, load=2.0, measured=2.0, priorities="drawn")
        run = run_churn(experiment).run
        assert (run.evicted_milli or 0) > 0
        assert run.arrived_milli == run.allocated_milli + run.rejected_milli
        calm = run_churn(replace(experiment, load=0.1)).run
        assert calm.evicted_milli == 0
