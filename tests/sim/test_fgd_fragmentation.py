"""The measure of fragmentation: by hand, and by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.sim.policies.fgd import FragmentationMeasure
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView, World
from tests.sim.small import cluster_of, fits, kinds, share, workloads, worlds

HALF = TaskClass(cpu_milli=1000, shares_mib=(500,))
ONE = TaskClass(cpu_milli=1000, gpus=1)
TWO = TaskClass(cpu_milli=1000, gpus=2)


def by_definition(workload: Workload, cpu_milli: int, rooms_milli: list[int], model: str) -> float:
    """For one node, class by class as in the paper."""
    total = 0.0
    for task, part in workload.parts.items():
        count, asked = (task.gpus, 1000) if task.gpus else (len(task.shares_mib), sum(task.shares_mib))
        enough = [room for room in rooms_milli if room >= asked]
        if (
            not count
            or cpu_milli < task.cpu_milli
            or (task.models and model not in task.models)
            or len(enough) < count
        ):
            total += part * sum(rooms_milli)
        else:
            total += part * sum(room for room in rooms_milli if room < asked)
    return total


@pytest.mark.parametrize(
    ("workload", "rooms_milli", "expected"),
    [
        pytest.param({HALF: 1}, [1000, 400], 400, id="room too small for a share is fragmented"),
        pytest.param({TWO: 1}, [1000, 900], 1900, id="one whole GPU does not help a pod that asks two"),
        pytest.param({HALF: 3, ONE: 1}, [1000, 600], 150, id="classes count by how often they come"),
        pytest.param({}, [1000], 0, id="where nothing is expected, nothing is fragmented"),
    ],
)
def test_by_hand(workload: dict[TaskClass, float], rooms_milli: list[int], expected: float) -> None:
    world = World(cluster_of((8000, len(rooms_milli), "A100"), (8000, 1, "T4")))
    world.room_milli[: len(rooms_milli), 0] = rooms_milli
    measure = FragmentationMeasure(world.cluster, Workload.of(workload))
    assert measure.of(NodesView(world))[0] == pytest.approx(expected)


@given(worlds, workloads)
def test_as_defined(world: World, workload: Workload) -> None:
    cluster = world.cluster
    expected = [
        by_definition(
            workload,
            int(world.cpu_free[node]),
            world.room_milli[: cluster.gpus[node], node].tolist(),
            cluster.models[cluster.model[node]],
        )
        for node in range(len(cluster))
    ]
    assert FragmentationMeasure(cluster, workload).of(NodesView(world)) == pytest.approx(expected)


@given(worlds, workloads, kinds)
def test_after_a_pod_the_state_is_the_present_one(world: World, workload: Workload, kind: PodKind) -> None:
    measure = FragmentationMeasure(world.cluster, workload)
    foreseen = measure.after(kind, NodesView(world))
    for node in range(len(world.cluster)):
        if not fits(world, kind, node):
            continue
        choices = [(slot,) for slot in range(world.cluster.gpus[node])] if kind.is_share else [None]
        for choice in choices:
            slots = world.whole_gpus(node, kind.gpus) if choice is None else choice
            row = 0 if choice is None else choice[0]
            if choice is not None and world.room_milli[row, node] < kind.gpu_milli:
                assert foreseen[row, node] == np.inf
                continue
            world.place(kind, node, slots)
            assert foreseen[row, node] == pytest.approx(measure.of(NodesView(world))[node])
            world.release(kind, node, slots)


def test_a_share_on_a_whole_gpu_takes_it_from_a_pod_of_two() -> None:
    world = World(cluster_of((8000, 3, "A100")))
    world.place(share(100), 0, (2,))
    measure = FragmentationMeasure(world.cluster, Workload.of({TWO: 1}))
    assert measure.of(NodesView(world)).tolist() == [900]
    # On a whole GPU it leaves 700 + 1000 + 900 of unusable room, otherwise the 600.
    assert measure.after(share(300), NodesView(world))[:, 0].tolist() == [2600, 2600, 600]


def test_some_of_very_many_cpu_amounts_count_as_the_next_larger_one() -> None:
    amounts = range(1000, 11_000, 10)
    workload = Workload.of({TaskClass(cpu_milli=cpu, gpus=1): 1.0 for cpu in amounts})
    world = World(cluster_of((16_000, 2, "A100")))
    measure = FragmentationMeasure(world.cluster, workload)
    for cpu in (0, 999, 1000, 4321, 10_989, 10_990, 16_000):
        world.cpu_free[0] = cpu
        exact = by_definition(workload, cpu, [1000, 1000], "A100")
        measured = float(measure.of(NodesView(world))[0])
        # At most three of the thousand amounts are rounded up.
        assert exact <= measured + 1e-6 <= exact + 3 * 2000 / len(amounts) + 1e-3
