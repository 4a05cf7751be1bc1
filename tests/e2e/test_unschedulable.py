"""A pod that fits nowhere reports the reasons once, and is quiet until something changes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from scheduler_ext.core.filters import REASONS
from tests.e2e.cluster.api import Json
from tests.e2e.installation import filter_calls
from tests.e2e.priorities import holders, there
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION, gpu

pytestmark = pytest.mark.smoke

ONE = {"nvidia.com/gpu": "1"}
H100 = {f"{ANNOTATION}model": "H100"}
SICK = {"state": "Unhealthy", "reason": "XID 79"}
WRONG_MODEL = "node(s) didn't match the requested GPU model"
UNHEALTHY = "node(s) had unhealthy GPUs"


def counted_reasons(event: Json) -> dict[str, int]:
    """The extender's reasons in a FailedScheduling event, with the number of nodes for each."""
    found = {each.text: re.search(rf"\b(\d+) {re.escape(each.text)}", event["note"]) for each in REASONS}
    return {reason: int(count[1]) for reason, count in found.items() if count}


def assert_stays_quiet(workload: Workload, name: str, calls: Callable[[], float]) -> None:
    """`calls` counts since before the pod was created.

    kube-scheduler tries a pod that an extender has refused once more when it sees its own note of the refusal
    in the pod's status, some milliseconds later. It keeps one event per version of the pod, so the same text
    comes twice.
    """
    workload.installation.await_rest(1)
    assert calls() < 5
    events = workload.events(name, "FailedScheduling")
    assert len({event["note"] for event in events}) == 1
    assert len(events) <= 2


def test_one_text_with_the_reasons_counted(workload: Workload) -> None:
    for i in range(3):
        workload.add_whole(f"a100-{i}", 1)
    workload.add_whole("t4", 1, "T4")
    workload.add_node("h100-sick", ONE, [gpu(0, "GPU-sick", model="H100-80GB", health=SICK)])
    workload.publish()
    calls = filter_calls(workload.installation)
    name = workload.create(workload.pod(ONE, annotations=H100))
    event = workload.await_event(name, "FailedScheduling")
    assert counted_reasons(event) == {WRONG_MODEL: 4, UNHEALTHY: 1}
    assert_stays_quiet(workload, name, calls)
    assert workload.unscheduled(name)["reason"] == "Unschedulable", "autoscalers look at no other"


@pytest.mark.parametrize(
    "gpus_per_node",
    [
        pytest.param(2, id="of a node with a GPU left"),
        pytest.param(1, id="of a node that kube-scheduler itself finds full"),
    ],
)
def test_lower_priorities_are_left_alone_on_nodes_that_would_be_refused(
    workload: Workload, gpus_per_node: int
) -> None:
    """Evicting them would not help: their node has the wrong model, with or without them.

    A scheduler that preempts would look for victims on nodes that an extender calls merely failed, find that
    evicting helps by its own counting, be refused again, and start over hundreds of times a second.
    """
    nodes = [workload.add_whole(f"a100-{i}", gpus_per_node) for i in range(4)]
    workload.publish()
    low, high = workload.add_priority_class("low", 10), workload.add_priority_class("high", 1000)
    held: set[str] = set().union(*(holders(workload, node, ONE, 1, low) for node in nodes))
    calls = filter_calls(workload.installation)
    name = workload.create(workload.pod(ONE, annotations=H100, priorityClassName=high))
    workload.await_event(name, "FailedScheduling")
    assert_stays_quiet(workload, name, calls)
    assert there(workload) == held | {name}, "pods were evicted for one that cannot run there"


def test_is_bound_when_its_gpu_comes_back(workload: Workload) -> None:
    node = workload.add_node("h100", ONE, [gpu(0, "GPU-back", model="H100-80GB", health=SICK)])
    workload.publish()
    name = workload.create(workload.pod(ONE, annotations=H100))
    workload.await_event(name, "FailedScheduling")
    workload.report(node, [gpu(0, "GPU-back", model="H100-80GB")])
    workload.publish()
    # kube-scheduler does not watch reports: the extender causes the retry, which would come after minutes.
    assert workload.await_node(name) == node
