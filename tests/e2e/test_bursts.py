"""Many pods at once, and never more of them on a node than it has GPUs."""

from __future__ import annotations

from collections import Counter

from tests.e2e.cluster.api import eventually
from tests.e2e.workload import Workload


def bound(workload: Workload) -> Counter[str]:
    """The number of pods on each node."""
    return Counter(pod["spec"]["nodeName"] for pod in workload.all_pods() if "nodeName" in pod["spec"])


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
