"""Places that are tried on a simulated cluster."""

from __future__ import annotations

from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.tried_places import TriedPlaces
from scheduler_ext.sim.world import World
from tests.sim.small import cluster_of, scheduler_of, share


def test_a_pod_put_again_has_its_gpu_until_all_are_taken_back() -> None:
    world = World(cluster_of((8000, 4, "T4")))
    tried, pod = TriedPlaces(scheduler_of(world, "random"), world), TracePod("share", share(300))
    seen = set()
    for _ in range(20):
        tried.put(pod, "n0")
        tried.rollback(0)
        tried.put(pod, "n0")
        tried.put(pod, "n0")
        tried.rollback(1)
        (first,) = tried.undo()
        tried.put(pod, "n0")
        seen.add(first[1].slots)
        tried.rollback(0)
    assert len(seen) > 1
