"""`scheduler-ext defrag --execute` on the real control plane, undisturbed and with faults."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.defrag.fragmented import Fragmented
from tests.e2e.workload import Workload


@pytest.fixture
def fragmented(workload: Workload) -> Iterator[Fragmented]:
    with Fragmented(workload) as fragmented:
        yield fragmented


def two_nodes(fragmented: Fragmented, *, kept: bool = False) -> tuple[str, str, str]:
    """One node with a pod that may move and one with a pod that may not, and a pod of two GPUs that waits.

    The GPUs of the second are dearer, so that the pod would come back to the first if no room were held.
    """
    workload = fragmented.workload
    first, second = workload.add_whole("first", 2), workload.add_whole("second", 2, "H100-80GB")
    workload.publish()
    fragmented.owned("x", first, kept=kept)
    fragmented.fixed(second)
    return first, second, fragmented.waiting(2)


def test_the_waiting_pod_gets_in_after_one_move(fragmented: Fragmented) -> None:
    first, second, waiting = two_nodes(fragmented)
    answer = fragmented.finished(fragmented.defrag(waiting, "--execute"), 0)
    workload = fragmented.workload
    assert workload.await_node(waiting) == first
    (again,) = fragmented.of("x")
    assert again["spec"]["nodeName"] == second
    done = answer["execution"]["done"]
    assert [(each["replacedBy"], each["node"]) for each in done] == [
        (f"{workload.namespace}/{again['metadata']['name']}", second)
    ]
    assert answer["execution"]["problem"] is None
    assert "create pods/eviction" in answer["stderr"]
    assert fragmented.held() == {}


def test_a_killed_command_leaves_the_room_to_the_waiting_pod(fragmented: Fragmented) -> None:
    """The pod is evicted and not placed yet. A second command may start at once."""
    first, second, waiting = two_nodes(fragmented, kept=True)
    process = fragmented.defrag(waiting, "--execute")
    workload = fragmented.workload
    eventually(lambda: len(fragmented.of("x")) > 1, "the pod leaves and is created again", 60.0)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    fragmented.let_go()
    assert fragmented.held().keys() == {first}
    assert workload.await_node(waiting) == first
    eventually(lambda: [pod["spec"].get("nodeName") for pod in fragmented.of("x")] == [second], "x moved")
    # The room is void now that its pod has a node, and the next run removes it.
    late = fragmented.waiting(2)
    answer = fragmented.finished(fragmented.defrag(late, "--execute"), 3)
    assert answer["moves"] == []


def test_a_change_of_the_cluster_stops_the_plan(fragmented: Fragmented) -> None:
    """Two pods are to move. While the first leaves, the place of the second closes."""
    workload = fragmented.workload
    first, *others = (workload.add_whole(stem, 2) for stem in ("first", "second", "third"))
    workload.publish()
    fragmented.owned("x", first, replicas=2, kept=True)
    for node in others:
        fragmented.fixed(node)
    waiting = fragmented.waiting(2)
    process = fragmented.defrag(waiting, "--execute")

    def moved() -> list[str]:
        return [
            pod["metadata"]["name"] for pod in fragmented.of("x") if pod["spec"].get("nodeName") in others
        ]

    eventually(moved, "the first pod has its new place", 60.0)
    for node in others:
        workload.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    fragmented.let_go()
    answer = fragmented.finished(process, 3)
    assert len(answer["execution"]["done"]) == len(answer["execution"]["notDone"]) == 1
    assert "would find no other place now" in answer["execution"]["problem"]
    assert "Stopped: " in answer["stderr"]
    assert len([pod for pod in fragmented.of("x") if pod["spec"].get("nodeName") == first]) == 1
    assert fragmented.held() == {}
