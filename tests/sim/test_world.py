"""The simulated cluster: nothing is assigned twice, and departures leave no trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView, World
from tests.sim.small import cluster_of, fits, kinds, share, whole, worlds


@pytest.mark.parametrize(
    ("kind", "slots"),
    [
        pytest.param(share(800), (1,), id="more than is left of the GPU"),
        pytest.param(whole(1), (1,), id="a whole GPU that is in use"),
        pytest.param(whole(2), (0, 0), id="one GPU twice"),
        pytest.param(PodKind(8001, 1), (), id="more CPU than there is"),
    ],
)
def test_a_pod_that_does_not_fit_is_refused(kind: PodKind, slots: tuple[int, ...]) -> None:
    world = World(cluster_of((8000, 2, "A100")))
    world.place(share(300), 0, (1,))
    with pytest.raises(OverAllocationError, match="n0"):
        world.place(kind, 0, slots)


@given(worlds, kinds)
def test_a_pod_that_left_leaves_no_trace(world: World, kind: PodKind) -> None:
    before = [world.cpu_free.copy(), world.memory_free.copy(), world.room_milli.copy(), world.tasks.copy()]
    for node in range(len(world.cluster)):
        if kind.is_share:
            slots: tuple[int, ...] = (int(world.room_milli[:, node].argmax()),)
        else:
            slots = world.whole_gpus(node, kind.gpus)
        if fits(world, kind, node):
            world.place(kind, node, slots)
            world.release(kind, node, slots)
    after = [world.cpu_free, world.memory_free, world.room_milli, world.tasks]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_changes_are_distinguished_by_their_time() -> None:
    world = World(cluster_of(*[(8000, 1, "A100")] * 3))
    start = world.tick
    world.place(share(300), 2, (0,))
    between = world.tick
    world.place(share(300), 0, (0,))
    assert world.changed_since(start).tolist() == [0, 2]
    assert world.changed_since(between).tolist() == [0]
    assert world.changed_since(world.tick).tolist() == []


def test_a_view_has_the_columns_of_its_nodes() -> None:
    world = World(cluster_of((8000, 2, "A100"), (4000, 1, "T4")))
    world.place(share(300), 1, (0,))
    view = NodesView(world, np.array([1]))
    assert view.cpu_free.tolist() == [3000]
    assert view.part(world.cluster.cpu_milli).tolist() == [4000]
    assert view.room_milli.tolist() == [[700], [0]]
    assert view.part(world.tasks).tolist() == [[1], [0], [0]]


@pytest.mark.parametrize(
    ("has", "wished", "admitted"),
    [
        pytest.param("NVIDIA-A100-SXM4-80GB", "A100-80GB", True, id="the model of a product"),
        pytest.param("A100-80GB", "A100", True, id="the family of a model"),
        pytest.param("A100-40GB", "A100-80GB", False, id="another memory"),
        pytest.param("a,b?", "a,b?", True, id="what no product is called"),
    ],
)
def test_models_are_read_as_the_server_reads_them(has: str, wished: str, admitted: bool) -> None:
    assert cluster_of((8000, 1, has)).admits((wished,)).tolist() == [admitted]
