"""Bind on the wire: kube-scheduler's request, the reply, and the Binding with the decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.core.errors import ClusterError, RequestError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.binding import (
    ASSIGNED_ANNOTATION,
    BindingArgs,
    binding_body,
    decode_binding_args,
    device_annotations,
    encode_binding_result,
    read_pod,
)
from scheduler_ext.wire.kube import ObjectMeta, Pod
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.core.reported import ONE_G, SHARE, WHOLE
from tests.kube_objects import Json, pod

GOLDEN = Path(__file__).parents[1] / "golden"
ASKED = {"PodName": "gpu1", "PodNamespace": "default", "PodUID": "549ba563-6b47", "Node": "gpu-node-07"}
RESOURCES = ResourceNames()


def args(**fields: Any) -> bytes:
    return json.dumps({key: value for key, value in (ASKED | fields).items() if value is not ...}).encode()


def test_a_bind_request_of_kube_scheduler() -> None:
    found = decode_binding_args((GOLDEN / "cache-01-gpu1.bind.json").read_bytes())
    assert found == BindingArgs("gpu1", "default", "549ba563-6b47-46bf-ae7d-2a9492afeac3", "gpu-node-07")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(args(PodName=...), "body: Object missing required field `PodName`", id="no name"),
        pytest.param(args(PodUID=""), "PodUID: Expected `str` of length >= 1", id="an empty uid"),
        pytest.param(args(PodNamespace=None), "PodNamespace: Expected `str`, got `null`", id="null"),
        pytest.param(args(PodName="a/../b"), "PodName: Expected `str` matching", id="a path"),
        pytest.param(
            args(PodNamespace="a.b"), "PodNamespace: Expected `str` matching", id="a dotted namespace"
        ),
        pytest.param(args(Node="n1\n"), "Node: Expected `str` matching", id="a line feed"),
        pytest.param(args(Node="n" * 254), "Node: Expected `str` matching", id="too long a name"),
        pytest.param(b"", "body: empty; send an extender/v1 ExtenderBindingArgs as JSON", id="nothing"),
    ],
)
def test_an_invalid_request_names_its_field(body: bytes, problem: str) -> None:
    with pytest.raises(RequestError) as error:
        decode_binding_args(body)
    assert error.value.status == 400
    assert str(error.value).startswith(problem)


def test_more_fields_are_fine() -> None:
    assert decode_binding_args(args(Later=1)).name == "gpu1"


def test_the_reply() -> None:
    assert encode_binding_result() == b'{"Error":""}'
    assert json.loads(encode_binding_result('no "room"')) == {"Error": 'no "room"'}


def test_the_binding() -> None:
    metadata = ObjectMeta("p", "team", "u1", resource_version="7")
    assert binding_body(metadata, "n1", {"a": "b"}, "12") == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "u1",
            "resourceVersion": "12",
            "annotations": {"a": "b"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert "resourceVersion" not in binding_body(metadata, "n1", {}, None)["metadata"]


def containers(*asks: tuple[str, Json], init: tuple[tuple[str, Json], ...] = ()) -> Json:
    """A pod of these containers."""
    found = pod("p")
    found["spec"]["containers"] = [{"name": name, "resources": {"limits": limits}} for name, limits in asks]
    found["spec"]["initContainers"] = [
        {"name": name, "resources": {"limits": limits}} for name, limits in init
    ]
    return found


@pytest.mark.parametrize(
    ("asking", "devices", "assigned", "told"),
    [
        pytest.param(
            containers(("a", {SHARE: "4096"}), ("b", {SHARE: "1024"}), init=(("i", {SHARE: "512"}),)),
            {"a": ("GPU-0",), "b": ("GPU-1",), "i": ("GPU-1",)},
            [
                {"container": "i", "memoryMiB": 512, "device": "GPU-1"},
                {"container": "a", "memoryMiB": 4096, "device": "GPU-0"},
                {"container": "b", "memoryMiB": 1024, "device": "GPU-1"},
            ],
            {"a": "GPU-0", "b": "GPU-1", "i": "GPU-1"},
            id="each container its own, init ones first",
        ),
        pytest.param(
            containers(("main", {WHOLE: "2"}), ("small", {ONE_G: "1"}), ("log", {"cpu": "1"})),
            {"main": ("GPU-9",)},
            [
                {"container": "main", "resource": WHOLE, "count": 2},
                {"container": "small", "resource": ONE_G, "count": 1},
            ],
            {},
            id="what the plugin picks has no UUID, and no annotation that would fix it",
        ),
    ],
)
def test_past_decisions(
    asking: Json, devices: dict[str, tuple[str, ...]], assigned: list[Json], told: dict[str, str]
) -> None:
    read = read_pod(json.dumps(asking).encode())
    request = pod_request(read, RESOURCES)
    annotations = device_annotations("n1", request, devices, RESOURCES)  # type: ignore[arg-type]  # it is valid
    assert json.loads(annotations.pop(ASSIGNED_ANNOTATION)) == {"node": "n1", "containers": assigned}
    assert annotations == {f"devices.gpu.scheduler-ext.io/{name}": uuid for name, uuid in told.items()}
    # Once the annotations are on the pod, every reader knows its holdings.
    asking["metadata"]["annotations"] = annotations
    holding = bound_pod(read_pod(json.dumps(asking).encode()), RESOURCES)
    assert holding.devices == {name: (uuid,) for name, uuid in told.items()}
    assert holding.request == request


def test_a_share_without_a_gpu_is_a_bug() -> None:
    read = read_pod(json.dumps(containers(("main", {SHARE: "4096"}))).encode())
    with pytest.raises(KeyError):
        device_annotations("n1", pod_request(read, RESOURCES), {}, RESOURCES)  # type: ignore[arg-type]


def test_a_pod_is_read_or_said_to_be_none() -> None:
    assert isinstance(read_pod(b'{"kind":"Pod","metadata":{"name":"p"}}'), Pod)
    for body in (b"", b"<html>", b"\xff", b'{"metadata":3}'):
        with pytest.raises(ClusterError, match="a Pod that cannot be read"):
            read_pod(body)
