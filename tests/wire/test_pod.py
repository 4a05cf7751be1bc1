"""A pod's requests and holdings from its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import (
    ContainerRole,
    GpuRequest,
    InitShare,
    InvalidRequest,
    ShareRequest,
    UnitRequest,
)
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.pod.pod_request import pod_request, unparsed_request
from tests.kube_objects import ANNOTATION, SHARE, Json
from tests.wire.decoded_pods import container, decoded, with_spec

NAMES = ResourceNames()
WHOLE = "nvidia.com/gpu"


def test_missing_fields_have_the_meaning_of_kubernetes() -> None:
    empty: list[Json] = [{}, {"metadata": None, "spec": None}, {"metadata": {}, "spec": {}}]
    for pod in empty:
        ask = unparsed_request(decoded(pod), NAMES)
        assert (ask.namespace, ask.name, ask.uid, ask.priority) == ("default", "", "", 0)
        assert (ask.annotations, list(ask.containers), ask.soft_preferences) == ({}, [], False)


def test_containers_come_in_the_order_they_start() -> None:
    pod = with_spec(
        containers=[container("app") | {"restartPolicy": "Always"}],
        initContainers=[container("load"), container("log") | {"restartPolicy": "Always"}, None],
    )
    assert [(c.name, c.role) for c in unparsed_request(pod, NAMES).containers] == [
        ("load", ContainerRole.INIT),
        ("log", ContainerRole.SIDECAR),
        ("", ContainerRole.INIT),
        ("app", ContainerRole.APP),
    ]


def test_whole_gpus_slices_and_shares_are_read_together() -> None:
    pod = with_spec(
        initContainers=[container("load", limits={SHARE: "9000"})],
        containers=[
            container("train", limits={WHOLE: "2", "cpu": "4"}, requests={WHOLE: "2"}),
            container("eval", limits={"nvidia.com/mig-1g.10gb.me": 1}),
            container("view", limits={SHARE: 4096}),
        ],
    )
    request = pod_request(pod, NAMES)
    assert isinstance(request, GpuRequest)
    assert request.units == (UnitRequest(WHOLE, 2), UnitRequest("nvidia.com/mig-1g.10gb.me", 1, "1g.10gb+me"))
    assert request.shares == ShareRequest((("view", 4096),), (InitShare("load", 9000, ()),))


@pytest.mark.parametrize(
    ("written", "count"),
    [("2000m", 2), (2, 2), (1e3, 1000), (None, 0), (0, 0)],
    ids=["a string", "a number", "a float", "null is zero", "zero"],
)
def test_quantities_may_be_strings_or_numbers(written: Any, count: int) -> None:
    request = pod_request(with_spec(containers=[container(limits={WHOLE: written})]), NAMES)
    assert isinstance(request, GpuRequest)
    assert sum(ask.count for ask in request.units) == count


@pytest.mark.parametrize("written", [-1, 1.5, 10**40, 1e300, "", "1\n"])
def test_absurd_quantities_are_the_pods_fault(written: Any) -> None:
    request = pod_request(with_spec(containers=[container(limits={WHOLE: written})]), NAMES)
    assert isinstance(request, InvalidRequest)
    assert WHOLE in request.message


@pytest.mark.parametrize("written", [True, [], {"value": "1"}])
def test_json_that_no_quantity_is_written_in_is_an_error_that_names_it(written: Any) -> None:
    pod = with_spec(containers=[container(limits={WHOLE: written})])
    with pytest.raises(QuantityError, match=rf"container 'main': {WHOLE}: expected a quantity"):
        pod_request(pod, NAMES)


def test_other_resources_are_never_looked_at() -> None:
    pod = with_spec(
        containers=[container(limits={"cpu": True, "memory": [], "example.com/gpu": "x", WHOLE: "1"})]
    )
    request = pod_request(pod, NAMES)
    assert isinstance(request, GpuRequest)
    assert request.units == (UnitRequest(WHOLE, 1),)


def test_resource_names_are_configurable() -> None:
    names = ResourceNames(whole=("example.com/gpu",), share="example.com/mib")
    pod = with_spec(
        containers=[container(limits={"example.com/gpu": "1", "example.com/mib": "100", WHOLE: "4"})]
    )
    request = pod_request(pod, names)
    assert isinstance(request, GpuRequest)
    assert request.units == (UnitRequest("example.com/gpu", 1),)
    assert request.shares == ShareRequest((("main", 100),))


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"priority": 7}, 7, id="as admission filled it in"),
        pytest.param({"priority": 0, "priorityClassName": "system-node-critical"}, 0, id="even zero"),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"}, 2_000_000_000, id="a class every cluster has"
        ),
        pytest.param({"priorityClassName": "system-node-critical"}, 2_000_001_000, id="the other one"),
        pytest.param({"priorityClassName": "high"}, 0, id="an unknown class"),
    ],
)
def test_priorities(spec: Json, priority: int) -> None:
    assert unparsed_request(with_spec(**spec), NAMES).priority == priority


def test_a_bound_pod_holds_its_request_on_the_devices_of_its_binding() -> None:
    annotations = {
        "devices.gpu.scheduler-ext.io/main": "GPU-0, GPU-1,",
        "devices.gpu.scheduler-ext.io/log": "",
        ANNOTATION + "assigned": "{}",
        ANNOTATION + "model": "???",
    }
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}
    spec = {"priority": 5, "containers": [container(limits={SHARE: "100"})]}
    held = bound_pod(decoded({"metadata": metadata, "spec": spec}), NAMES)
    assert (held.uid, held.namespace, held.name, held.priority, held.finished) == ("u", "ns", "p", 5, False)
    assert held.devices == {"main": ("GPU-0", "GPU-1"), "log": ()}
    assert held.request.shares == ShareRequest((("main", 100),))


@pytest.mark.parametrize(
    ("phase", "finished"), [("Succeeded", True), ("Failed", True), ("Running", False), (None, False)]
)
def test_finished_pods(phase: str | None, finished: bool) -> None:
    held = bound_pod(decoded({"status": {"phase": phase}}), NAMES)
    assert held.finished is finished


def test_a_bound_pod_holds_what_can_be_read_of_it() -> None:
    unreadable = {"nvidia.com/mig-x": "1", "nvidia.com/mig-1g.5gb": "-1"}
    # To ask both names of a pool is refused.
    held = bound_pod(
        with_spec(containers=[container(limits={WHOLE: "1", "nvidia.com/gpu.shared": "2"} | unreadable)]),
        NAMES,
    )
    assert sum(ask.count for ask in held.request.units) == 3


@pytest.mark.parametrize(
    ("metadata", "name"),
    [({"name": "p", "namespace": "ns"}, "ns/p"), ({"name": "p"}, "default/p"), (None, "default/?")],
)
def test_names_for_people(metadata: Json | None, name: str) -> None:
    assert pod_name(decoded({"metadata": metadata})) == name


def test_a_bound_pod_of_more_shares_than_may_be_asked_holds_them_all() -> None:
    many = [container(f"c{i}", limits={SHARE: "10"}) for i in range(65)]
    held = bound_pod(with_spec(containers=many), NAMES)
    assert held.request.shares is not None
    assert held.request.shares.total_mib == 650
