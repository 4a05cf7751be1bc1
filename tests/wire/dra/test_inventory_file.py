"""Classes, slices and claims in an inventory file."""

from __future__ import annotations

import pytest

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects

CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]
  extendedResourceName: nvidia.com/gpu
"""
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.nvidia.com
  nodeName: node
  pool: {name: node, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {uuid: {string: GPU-0}, productName: {string: NVIDIA H100 80GB HBM3}}
    capacity: {memory: {value: 81559Mi}}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, namespace: default, uid: claim-uid}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.nvidia.com, pool: node, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: train, uid: pod-uid}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {cpu: "8"}}
"""


def test_a_claim_holds_a_gpu_of_a_slice() -> None:
    objects = read_objects("---".join((CLASS, SLICE, CLAIM, NODE)).encode())
    info = assemble(objects, ResourceNames())["node"]
    assert [(device.uuid, device.model.name) for device in info.devices] == [("GPU-0", "H100-80GB")]
    assert info.by_claim("nvidia.com/gpu")
    held = holdings_of(info, ResourceNames()).devices["GPU-0"]
    assert (held.units, held.pods) == (1, {"pod-uid"})


def test_a_node_that_only_a_slice_names() -> None:
    info = assemble(read_objects("---".join((CLASS, SLICE)).encode()), ResourceNames())["node"]
    assert (info.freshness, len(info.devices)) == ("Fresh", 1)
    (item,) = inventory_list([info], Configuration())["items"]
    assert (item["source"], item["devices"][0]["model"]) == ("slices", "H100-80GB")


def test_an_unreadable_slice_refuses_the_file() -> None:
    with pytest.raises(InventoryError, match=r"ResourceSlice slice: spec\.devices"):
        read_objects(SLICE.replace("  devices:\n", "  devices: 7\n  others:\n").encode())
