"""Bind: kube-scheduler's request and its reply, and the Binding that is posted to the API server. The API
server copies the annotations of a Binding onto the pod in the same step as its node."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_answer, decode_body
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX

ASSIGNED_ANNOTATION = "gpu.scheduler-ext.io/assigned"
"""The whole decision as JSON, for users; not read."""
# The values become parts of paths and selectors. \Z, because $ would accept a trailing line feed.
_Name = Annotated[str, Meta(pattern=r"\A[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")]
_Namespace = Annotated[str, Meta(pattern=r"\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")]


class BindingArgs(
    Struct, rename={"name": "PodName", "namespace": "PodNamespace", "uid": "PodUID", "node": "Node"}
):
    """ExtenderBindingArgs: the pod that kube-scheduler binds, and its node."""

    name: _Name
    namespace: _Namespace
    uid: Annotated[str, Meta(min_length=1, max_length=253)]
    node: _Name


read_pod = partial(decode_answer, kube.Pod)
_args_decoder = msgspec.json.Decoder(BindingArgs)
_encoder = msgspec.json.Encoder()


def decode_binding_args(body: bytes) -> BindingArgs:
    """A bind request. Raises RequestError (400) naming the field."""
    return decode_body(_args_decoder, body, kind="ExtenderBindingArgs")


def encode_binding_result(error: str = "") -> bytes:
    """The reply: bound if `error` is empty, otherwise the pod is scheduled again."""
    return _encoder.encode({"Error": error})


def binding_body(
    pod: kube.ObjectMeta, node: str, annotations: Mapping[str, str], resource_version: str | None
) -> dict[str, Any]:
    """The POST that binds a pod if its uid still matches, and its version if one is given."""
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "annotations": dict(annotations),
    }
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def device_annotations(
    node: str, request: GpuRequest, devices: Mapping[str, tuple[str, ...]], resources: ResourceNames
) -> dict[str, str]:
    """The extender's decision, for people and for the container runtime. `devices` are the UUIDs by
    container of containers that asked for a share. The device plugin chooses the units that it hands out: of
    these only resource and count are known."""
    containers: list[dict[str, Any]] = []
    told: dict[str, str] = {}
    for container, resource, count in request.by_container:
        if resource != resources.share:
            containers.append({"container": container, "resource": resource, "count": count})
            continue
        uuids = devices[container]
        containers.append({"container": container, "memoryMiB": count, "device": ",".join(uuids)})
        told[DEVICES_PREFIX + container] = ",".join(uuids)
    decision = {"node": node, "containers": containers}
    return {ASSIGNED_ANNOTATION: _encoder.encode(decision).decode(), **told}
