"""What an operator expects of a real kube-scheduler: pods of any priority are packed, and batch goes to spot."""

from __future__ import annotations

from tests.e2e.workload import Workload

ONE = {"nvidia.com/gpu": "1"}
SPOT = {"karpenter.sh/capacity-type": "spot"}


def test_small_pods_of_any_priority_leave_room_for_large_ones(workload: Workload) -> None:
    """Six nodes of four GPUs: eight pods of one GPU, then four of four."""
    for i in range(6):
        workload.add_whole(f"n{i}", 4, "H100-80GB")
    workload.publish()
    classes = [
        workload.add_priority_class(f"p{value}", value, preemptionPolicy="Never") for value in (-10, 10, 1000)
    ]
    small = [workload.pod(ONE, priorityClassName=classes[i % len(classes)]) for i in range(8)]
    nodes = {workload.place_seen(pod) for pod in small}
    assert len(nodes) == 2
    large = [
        workload.pod({"nvidia.com/gpu": "4"}, priorityClassName=classes[i % len(classes)]) for i in range(4)
    ]
    assert len({workload.place(pod) for pod in large} | nodes) == 6


def test_batch_goes_to_spot_and_important_pods_avoid_it(workload: Workload) -> None:
    on_demand = workload.add_whole("on-demand", 4, "H100-80GB")
    spot = workload.add_whole("spot", 4, "H100-80GB", labels=SPOT)
    workload.publish()
    batch = workload.add_priority_class("batch", -10)
    urgent = workload.add_priority_class("urgent", 10)
    workload.place_seen(workload.pod(ONE, nodeName=on_demand))
    assert workload.place_seen(workload.pod(ONE, priorityClassName=batch)) == spot
    assert workload.place_seen(workload.pod(ONE, priorityClassName=urgent)) == on_demand
    # Now spot is the fuller one.
    workload.place_seen(workload.pod({"nvidia.com/gpu": "2"}, priorityClassName=batch))
    assert workload.place(workload.pod(ONE, priorityClassName=urgent)) == on_demand
