"""The same large cluster with its GPUs handed out by DRA: a slice for each node, a claim for each pod with a
GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.large import large
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.api_store import Store
from tests.dra_objects import device_class, gpu_device, resource_claim, resource_list, resource_slice
from tests.kube_objects import Json

_ROOT = "/apis/resource.k8s.io/v1"
_KINDS = ("deviceclasses", "resourceslices", "resourceclaims", "devicetaintrules")
_WHOLE = "nvidia.com/gpu"
_IS_MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"


def serve_dra(server: ApiServer, nodes: int, pods: int, devices: int = large.DEVICES) -> None:
    """Move the GPUs of a filled server from the device plugin to DRA."""
    body = json.dumps(resource_list(*_KINDS)).encode()

    def discovery(request: Request) -> Answer | None:
        return Answer(200, body) if request.path == _ROOT else None

    server.hook = discovery
    store = server.store
    store.put(f"{_ROOT}/deviceclasses", device_class())
    store.put(f"{_ROOT}/deviceclasses", device_class("mig.nvidia.com", _IS_MIG, extended=None))
    store.put_all(f"{_ROOT}/resourceslices", _slices(nodes, devices))
    store.put_all(f"{_ROOT}/resourceclaims", _claims(store, nodes, pods, devices))
    for index in range(nodes):
        store.update(NODES, large.node_name(index), _without_plugin)
    store.compact()


def _slices(nodes: int, devices: int) -> Iterator[Json]:
    for index in range(nodes):
        gpus = [gpu_device(i, uuid=large.device_uuid(index, i)) for i in range(devices)]
        yield resource_slice(large.node_name(index), gpus)


def _claims(store: Store, nodes: int, pods: int, devices: int) -> Iterator[Json]:
    """A claim for each pod on a GPU, which kube-scheduler made for its extended resource."""
    for index, (node, device) in large.placement(pods, nodes, devices).items():
        who = large.pod_of(index)
        claim = resource_claim(f"{who.name}-gpu", on=large.node_name(node), devices=[f"gpu-{device}"])
        claim["metadata"] |= {
            "namespace": who.namespace,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        }
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": who.name, "uid": who.uid}]
        yield claim
        store.update(PODS, who.name, _served, who.namespace)


def _served(pod: Json) -> Json:
    claim = {"resourceClaimName": f"{pod['metadata']['name']}-gpu"}
    pod["status"]["extendedResourceClaimStatus"] = claim
    return pod | {}


def _without_plugin(node: Json) -> Json:
    for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
        amounts.pop(_WHOLE, None)
    return node | {}
