"""Many pods at once, and never more of them on a node than it has GPUs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.workload import Workload


def bound(workload: Workload) -> Counter[str]:
    """The number of pods on each node."""
    return Counter(pod["spec"]["nodeName"] for pod in workload.all_pods() if "nodeName" in pod["spec"])


@pytest.mark.parametrize(
    ("pods", "nodes", "gpus_per_node"),
    [
        pytest.param(16, 2, 8, id="16 identical pods on as many GPUs"),
        pytest.param(200, 50, 4, id="200 pods on 50 nodes with as many GPUs"),
    ],
)
def test_every_gpu_is_taken_once(workload: Workload, pods: int, nodes: int, gpus_per_node: int) -> None:
    for i in range(nodes):
        workload.add_whole(f"a100-{i}", gpus_per_node)
    workload.publish()
    workload.create_all([workload.pod({"nvidia.com/gpu": "1"}) for _ in range(pods)])
    eventually(lambda: bound(workload).total() == pods, "all pods are bound", 60.0)
    assert set(bound(workload).values()) == {gpus_per_node}


def test_excess_pods_wait(workload: Workload) -> None:
    for i in range(3):
        workload.add_whole(f"a100-{i}", 4)
    workload.publish()
    names = workload.create_all([workload.pod({"nvidia.com/gpu": "1"}) for _ in range(16)])
    eventually(lambda: bound(workload).total() == 12, "twelve pods are bound")
    waiting = [name for name in names if "nodeName" not in workload.get(name)["spec"]]
    for name in waiting:
        workload.await_event(name, "FailedScheduling")
    assert set(bound(workload).values()) == {4}
    workload.remove(next(name for name in names if name not in waiting))
    eventually(lambda: bound(workload).total() == 12, "one that waited has the GPU that was given back")
