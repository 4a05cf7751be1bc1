"""What pods hold on their nodes while their requests are resized in place."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.cluster.inventory.pod_state import OtherPod, pod_state
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.node_info import node_facts
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import pod_amounts
from tests.kube_objects import Json
from tests.wire.decoded_pods import container, decoded

NAMES = ResourceNames()
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def granted(name: str = "main", allocated: Json | None = None, effective: Json | None = None) -> Json:
    return {"name": name, "allocatedResources": allocated, "resources": effective and {"requests": effective}}


def resized(status: Json, *, node: str | None = "n1", **spec: Any) -> Any:
    two = {"containers": [container(requests={"cpu": "2"})]}
    return decoded({"metadata": {"name": "p"}, "spec": {"nodeName": node, **two, **spec}, "status": status})


GROWN = [granted(allocated={"cpu": "12"}, effective={"cpu": "12"})]
SMALL = [granted(allocated={"cpu": "1"}, effective={"cpu": "1"})]


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(resized({"containerStatuses": GROWN}), 12, id="a shrink not yet done"),
        pytest.param(resized({"containerStatuses": SMALL}), 2, id="a growth not yet granted"),
        pytest.param(resized({"containerStatuses": SMALL, **DEFERRED}), 2, id="a deferred growth"),
        pytest.param(
            resized({"containerStatuses": SMALL, **INFEASIBLE}), 1, id="a growth that is infeasible"
        ),
        pytest.param(
            resized({"containerStatuses": [granted(allocated={"cpu": "1"}, effective={"cpu": "3"})]}),
            3,
            id="granted less, still in effect",
        ),
        pytest.param(resized({"containerStatuses": [granted(effective={"cpu": "3"})]}), 3, id="only effect"),
        pytest.param(
            resized({"containerStatuses": [granted(allocated={"cpu": "3"})]}), 3, id="only allocated"
        ),
        pytest.param(resized({"containerStatuses": [granted()], **INFEASIBLE}), 2, id="no amounts in status"),
        pytest.param(
            resized({"containerStatuses": [granted(allocated={"memory": "1"})], **INFEASIBLE}),
            0,
            id="an infeasible first request",
        ),
        pytest.param(
            resized({"containerStatuses": [None, granted("other", {"cpu": "9"})]}),
            2,
            id="of another container",
        ),
        pytest.param(
            resized({"containerStatuses": GROWN}, containers=[container(limits={"cpu": "2"})]),
            12,
            id="a limit in place of the request",
        ),
        pytest.param(
            resized(
                {"initContainerStatuses": [granted("side", {"cpu": "5"}, {"cpu": "4"})]},
                initContainers=[container("side", requests={"cpu": "1"}) | {"restartPolicy": "Always"}],
            ),
            7,
            id="a sidecar",
        ),
        pytest.param(
            resized(
                {"allocatedResources": {"cpu": "8"}, "resources": {"requests": {"cpu": "7"}}},
                resources={"requests": {"cpu": "4"}},
            ),
            8,
            id="requests of the whole pod",
        ),
        pytest.param(
            resized({"allocatedResources": {"cpu": "8"}}, resources={"requests": {"memory": "1Gi"}}),
            2,
            id="a whole pod without a request of CPU",
        ),
        pytest.param(resized({"containerStatuses": GROWN}, node=None), 2, id="not on a node"),
    ],
)
def test_a_pod_holds_the_most_of_what_it_asks_and_has(pod: Any, cpu: int) -> None:
    assert pod_amounts(held_spec(pod)).get("cpu", 0) == cpu


def test_a_resize_does_not_change_what_else_is_requested() -> None:
    pod = resized(
        {"containerStatuses": SMALL, **INFEASIBLE},
        containers=[container(requests={"cpu": "2"}, limits={"nvidia.com/gpu": "1", "memory": "1Gi"})],
    )
    assert pod_amounts(held_spec(pod)) == {"cpu": 1, "nvidia.com/gpu": 1, "memory": 0}


def test_the_spec_of_most_pods_is_left_alone() -> None:
    pod = resized({"containerStatuses": [granted(allocated={"cpu": "2"}, effective={"cpu": "2"})]})
    assert held_spec(pod) is pod.spec


def test_an_amount_in_the_status_that_cannot_be_read_is_named() -> None:
    with pytest.raises(QuantityError, match=r"^cpu: quantity 'lots' cannot be read"):
        pod_amounts(held_spec(resized({"containerStatuses": [granted(allocated={"cpu": "lots"})]})))


def test_nodes_count_what_their_pods_hold() -> None:
    pod = resized({"containerStatuses": GROWN})
    assert pod_state(pod, NAMES) == OtherPod("n1", 12_000)
    bound = bound_pod(pod, NAMES)
    assert bound.cpu_milli == 12_000
    assert bound.other_requests == {"cpu": 12}
    assert node_facts(kube.NodeObject(), [pod]).requested == {"cpu": 12}
