"""Objects of resource.k8s.io as the API server sends them, and as files of every version have them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.published import (
    ClaimedDevice,
    Consumption,
    DeviceClass,
    DeviceId,
    DeviceRequirements,
    RequestedDevices,
)
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.intree.affinity import NodeSelectorTerm, Requirement, Taint, Toleration
from scheduler_ext.wire.dra.claim_object import ClaimObject, read_claim
from scheduler_ext.wire.dra.class_object import ClassObject, read_class
from scheduler_ext.wire.dra.slice_object import SliceObject, read_slice
from scheduler_ext.wire.objects import read_objects
from tests.kube_objects import Json

FULL_ASK = DeviceRequirements("c", ("true",), (Toleration("k", "Exists", "", ""),), (("memory", "10Gi"),))


def decoded(body: Json, kind: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(body), type=kind)


def test_class() -> None:
    body = {
        "metadata": {"name": "gpu.nvidia.com", "creationTimestamp": "1970-01-01T00:01:00Z"},
        "spec": {
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
            "extendedResourceName": "nvidia.com/gpu",
        },
    }
    assert read_class(decoded(body, ClassObject)) == DeviceClass(
        "gpu.nvidia.com", ("device.driver == 'gpu.nvidia.com'",), "nvidia.com/gpu", 60.0
    )


def policy(text: str) -> RequestPolicy:
    body = f"""{{"spec": {{"devices": [{{"capacity": {{"memory": {{"requestPolicy": {text}}}}}}}]}}}}"""
    (device,) = read_slice(msgspec.json.decode(body, type=SliceObject)).devices
    return device.policies["memory"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("{}", RequestPolicy(), id="nothing"),
        pytest.param('{"default": "8"}', RequestPolicy(default=8000), id="a default"),
        pytest.param('{"default": 8, "validRange": null}', RequestPolicy(default=8000), id="no range"),
        pytest.param(
            '{"default": "4Ki", "validRange": {"min": "1Ki", "max": "8Ki", "step": "1Ki"}}',
            RequestPolicy(4096000, 1024000, 8192000, 1024000),
            id="a range with steps",
        ),
        pytest.param(
            '{"validRange": {"min": "1", "max": null}}', RequestPolicy(minimum=1000), id="half a range"
        ),
        pytest.param(
            '{"default": "1", "validValues": ["4", "1", 2]}',
            RequestPolicy(1000, values=(1000, 2000, 4000)),
            id="values",
        ),
        pytest.param(
            '{"default": "250m", "validRange": {"min": "0.1"}}', RequestPolicy(250, 100), id="fractions"
        ),
        pytest.param('{"default": ["8"]}', RequestPolicy(), id="what is no quantity"),
    ],
)
def test_the_policy_of_a_capacity(text: str, read: RequestPolicy) -> None:
    assert policy(text) == read


def test_slice() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {
            "uuid": {"string": "GPU-0"},
            "minor": {"int": 0},
            "fast": {"bool": False},
            "driverVersion": {"version": "580.95.5"},
            "wrong": {"version": "not a version"},
        },
        "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": 7}, "wrong": {"value": []}},
        "consumesCounters": [{"counterSet": "set", "counters": {"slices": {"value": "2"}}}],
        "taints": [{"key": "xid", "value": "79", "effect": "NoSchedule"}],
    }
    body = {
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node",
            "pool": {"name": "node", "generation": 3, "resourceSliceCount": 2},
            "devices": [device],
            "sharedCounters": [{"name": "set", "counters": {"slices": {"value": "8"}}}],
        },
    }
    found = read_slice(decoded(body, SliceObject))
    assert (found.name, found.node, found.pool) == ("slice", "node", "node")
    assert (found.generation, found.slices) == (3, 2)
    assert found.counters == {("set", "slices"): 8000}
    (gpu,) = found.devices
    assert gpu.facts.attributes == {
        "uuid": "GPU-0",
        "minor": 0,
        "fast": False,
        "driverVersion": parse_version("580.95.5"),
    }
    assert gpu.facts.capacity == {"memory": "80Gi", "cores": "7"}
    assert gpu.consumes == (Consumption("set", "slices", 2000),)
    assert gpu.taints == (Taint("xid", "79", "NoSchedule"),)


# As the drivers publish them: kubernetes-sigs/dra-driver-nvidia-gpu, kubernetes-sigs/dra-example-driver, and
# Project-HAMi/k8s-dra-driver.
NVIDIA_GPU = b"""{
  "attributes": {
    "addressingMode": {"string": "HMM"}, "architecture": {"string": "Hopper"}, "brand": {"string": "Nvidia"},
    "cudaComputeCapability": {"version": "9.0.0"}, "cudaDriverVersion": {"version": "13.0.0"},
    "driverVersion": {"version": "580.95.5"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "resource.kubernetes.io/pciBusID": {"string": "0000:19:00.0"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:18"}, "type": {"string": "gpu"},
    "uuid": {"string": "GPU-5b5b3e2a-2d2b-4c1c-9d3f-1f1f1f1f1f1f"}},
  "capacity": {"memory": {"value": "81559Mi"}}}"""
NVIDIA_MIG = b"""{
  "attributes": {
    "parentUUID": {"string": "GPU-0"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "profile": {"string": "1g.10gb"}, "type": {"string": "mig"}, "uuid": {"string": "MIG-0"}},
  "capacity": {
    "copyEngines": {"value": "1"}, "memory": {"value": "9728Mi"}, "memorySlice0": {"value": "1"}}}"""
NVIDIA_CHANNEL = b"""{"attributes": {"id": {"int": 0}, "type": {"string": "channel"}}}"""
EXAMPLE_GPU = b"""{
  "attributes": {
    "driverVersion": {"version": "1.0.0"}, "index": {"int": 0}, "model": {"string": "LATEST-GPU-MODEL"},
    "uuid": {"string": "gpu-18db0e85-99e9-c746-8531-ffeb86328b39"}},
  "capacity": {"memory": {"value": "80Gi"}}}"""
HAMI_GPU = b"""{
  "allowMultipleAllocations": true,
  "attributes": {
    "architecture": {"string": "Ampere"}, "cudaComputeCapability": {"version": "8.6.0"}, "minor": {"int": 0},
    "pcieBusID": {"string": "0000:65:01.0"}, "productName": {"string": "NVIDIA A10"},
    "type": {"string": "hami-gpu"}, "uuid": {"string": "GPU-1"}},
  "capacity": {
    "cores": {
      "requestPolicy": {"default": "100", "validRange": {"max": "100", "min": "0", "step": "1"}},
      "value": "100"},
    "memory": {
      "requestPolicy": {"default": "23028Mi", "validRange": {"max": "23028Mi", "min": "0", "step": "1Mi"}},
      "value": "23028Mi"}}}"""


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize(
    ("driver", "device", "attributes", "memory", "shared"),
    [
        pytest.param("gpu.nvidia.com", NVIDIA_GPU, 11, "81559Mi", False, id="a GPU of NVIDIA's driver"),
        pytest.param("gpu.nvidia.com", NVIDIA_MIG, 5, "9728Mi", False, id="a MIG instance of it"),
        pytest.param("compute-domain.nvidia.com", NVIDIA_CHANNEL, 2, None, False, id="an IMEX channel of it"),
        pytest.param("gpu.example.com", EXAMPLE_GPU, 4, "80Gi", False, id="a GPU of the example driver"),
        pytest.param(
            "hami-core-gpu.project-hami.io", HAMI_GPU, 7, "23028Mi", True, id="a GPU of HAMi's driver"
        ),
    ],
)
def test_devices_as_drivers_publish_them(
    driver: str, device: bytes, attributes: int, memory: str | None, shared: bool, version: str
) -> None:
    """In v1beta1, the fields of a device are below `basic`."""
    fields = device if version != "v1beta1" else b'{"basic": %s}' % device
    text = b"""{"apiVersion": "resource.k8s.io/%s", "kind": "ResourceSlice",
      "metadata": {"name": "n-%s"},
      "spec": {
        "driver": "%s", "nodeName": "n", "pool": {"generation": 1, "name": "n", "resourceSliceCount": 1},
        "devices": [{"name": "d", %s]}}"""
    body = text % (version.encode(), driver.encode(), driver.encode(), fields.lstrip(b"{"))
    (published,) = read_objects(body).slices.values()
    assert (published.driver, published.node, published.slices) == (driver, "n", 1)
    (found,) = published.devices
    assert (found.name, len(found.facts.attributes), found.facts.capacity.get("memory")) == (
        "d",
        attributes,
        memory,
    )
    assert (found.facts.allow_multiple_allocations, bool(found.policies)) == (shared, shared)


EXACTLY = b'"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2'
CLAIM_OF = b"""{"apiVersion": "resource.k8s.io/%s", "kind": "%s", "metadata": {"name": "c", "uid": "u"},
  "spec": %s{"devices": {"requests": [{"name": "gpu", %s}]}}%s}"""


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claims_of_every_version(kind: str, version: str) -> None:
    """In v1beta1, the fields of a request are in the request itself."""
    request = EXACTLY if version == "v1beta1" else b'"exactly": {%s}' % EXACTLY
    around = (b'{"spec": ', b"}") if kind == "ResourceClaimTemplate" else (b"", b"")
    body = CLAIM_OF % (version.encode(), kind.encode(), around[0], request, around[1])
    (found,) = read_objects(body).claims
    assert found.requests == (RequestedDevices(DeviceRequirements("gpu.nvidia.com"), 2, name="gpu"),)


HEADER = b'{"apiVersion": "%s", "kind": "%s", "metadata": {"name": "x"}, "spec": {"taint": {"key": "k"}}}'
READ = "this release reads resource.k8s.io/"


@pytest.mark.parametrize(
    ("version", "kind", "problem"),
    [
        ("v1beta1", "DeviceClass", None),
        ("v1beta2", "DeviceClass", None),
        (
            "v1alpha3",
            "DeviceClass",
            f"DeviceClass x: apiVersion 'resource.k8s.io/v1alpha3'; {READ}v1, v1beta2, v1beta1",
        ),
        (
            "v1alpha2",
            "ResourceClaim",
            f"ResourceClaim x: apiVersion 'resource.k8s.io/v1alpha2'; {READ}v1, v1beta2",
        ),
        (
            "v1alpha3",
            "ResourceSlice",
            f"ResourceSlice x: apiVersion 'resource.k8s.io/v1alpha3'; {READ}v1, v1beta2",
        ),
        (
            "v2",
            "ResourceClaimTemplate",
            f"ResourceClaimTemplate x: apiVersion 'resource.k8s.io/v2'; {READ}v1, v1beta2",
        ),
        ("v1alpha3", "DeviceTaintRule", None),
        (
            "v1beta1",
            "DeviceTaintRule",
            f"DeviceTaintRule x: apiVersion 'resource.k8s.io/v1beta1'; {READ}v1, v1beta2",
        ),
    ],
)
def test_no_object_is_left_out_for_its_version(version: str, kind: str, problem: str | None) -> None:
    """Without a claim or a slice, GPUs would be free that are not, or the other way round."""
    body = HEADER % (f"resource.k8s.io/{version}".encode(), kind.encode())
    if problem is None:
        objects = read_objects(body)
        assert not objects.skipped
        assert objects.classes or objects.rules
        return
    with pytest.raises(InventoryError, match=re.escape(problem)):
        read_objects(body)


def test_the_same_kind_of_another_group_is_another_kind() -> None:
    assert read_objects(HEADER % (b"example.com/v1", b"ResourceClaim")).skipped == {"ResourceClaim": 1}


R1 = b'{"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}'
RACK = NodeSelectorTerm((Requirement("rack", "In", ("r1",)),), ())


@pytest.mark.parametrize(
    ("spec", "reach"),
    [
        pytest.param(b'"nodeName": "n", "devices": [{}]', [None], id="one node"),
        pytest.param(b'"allNodes": true, "devices": [{}]', [None], id="all nodes"),
        pytest.param(b'"nodeSelector": %s, "devices": [{}]' % R1, [(RACK,)], id="the nodes of a rack"),
        pytest.param(
            b'"perDeviceNodeSelection": true, "devices": ['
            b'{"nodeName": "n"}, {"nodeSelector": %s}, {"basic": {"allNodes": true}}]' % R1,
            [(NodeSelectorTerm.of_node("n"),), (RACK,), None],
            id="each device by its own",
        ),
    ],
)
def test_the_nodes_that_reach_devices(spec: bytes, reach: list[tuple[NodeSelectorTerm, ...] | None]) -> None:
    found = read_slice(msgspec.json.decode(b'{"spec": {%s}}' % spec, type=SliceObject))
    assert [device.reach for device in found.devices] == reach


@pytest.mark.parametrize(
    ("request_", "expected", "missing"),
    [
        pytest.param(
            {"exactly": {"deviceClassName": "gpu.nvidia.com"}},
            (RequestedDevices(DeviceRequirements("gpu.nvidia.com"), 1),),
            (),
            id="one device where no count is written",
        ),
        pytest.param(
            {
                "exactly": {
                    "deviceClassName": "c",
                    "count": 4,
                    "selectors": [{"cel": {"expression": "true"}}],
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "capacity": {"requests": {"memory": "10Gi"}},
                }
            },
            (RequestedDevices(FULL_ASK, 4),),
            (),
            id="selectors, tolerations and capacity",
        ),
        pytest.param(
            {"exactly": {"deviceClassName": "c", "allocationMode": "All"}},
            (RequestedDevices(DeviceRequirements("c"), 0, every=True),),
            ("allocationMode: All",),
            id="all devices of a node",
        ),
        pytest.param(
            {"exactly": {"deviceClassName": "c", "count": 2, "adminAccess": True}},
            (RequestedDevices(DeviceRequirements("c"), 2, admin=True),),
            (),
            id="admin access",
        ),
        pytest.param(
            {
                "name": "r",
                "firstAvailable": [
                    {"name": "a", "deviceClassName": "c"},
                    {"name": "b", "deviceClassName": "d", "count": 2},
                ],
            },
            (
                RequestedDevices(DeviceRequirements("c"), 0, choice=1, name="r/a"),
                RequestedDevices(DeviceRequirements("d"), 0, choice=2, name="r/b"),
            ),
            ("firstAvailable",),
            id="alternatives",
        ),
    ],
)
def test_requests_of_a_claim(
    request_: Json, expected: tuple[RequestedDevices, ...], missing: tuple[str, ...]
) -> None:
    body = {"metadata": {"name": "c", "uid": "u"}, "spec": {"devices": {"requests": [request_]}}}
    found = read_claim(decoded(body, ClaimObject))
    assert (found.requests, found.not_modelled, found.devices) == (expected, missing, None)


def test_the_devices_that_a_quota_counts() -> None:
    """As resource_claims.go of kube-apiserver's quota counts them; the most that a claim may get is 32."""
    one = {"deviceClassName": "c"}
    requests = [
        {"exactly": one | {"count": 2, "adminAccess": True}},
        {"exactly": {"deviceClassName": "d", "allocationMode": "All"}},
        {"firstAvailable": [one | {"count": 4}, one | {"count": 3}, {"deviceClassName": "e"}]},
        one,
    ]
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    assert read_claim(decoded(body, ClaimObject)).charged == (("c", 7), ("d", 32), ("e", 1))


def test_allocated_claim() -> None:
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "node", "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": ["node"]}
    body = {
        "metadata": {
            "name": "pod-extended-resources-x",
            "namespace": "team",
            "uid": "u",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        result | {"consumedCapacity": {"memory": "10Gi"}},
                        result | {"device": "gpu-1", "adminAccess": True},
                    ]
                },
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-uid"}],
        },
    }
    found = read_claim(decoded(body, ClaimObject))
    held = ClaimedDevice(DeviceId("gpu.nvidia.com", "node", "gpu-0"), {"memory": 10 * 2**30 * 1000})
    assert found.devices == (held,)
    assert (found.key, found.node, found.extended) == ("team/pod-extended-resources-x", "node", True)
    assert found.pods == (("pod-uid", "pod"),)


@pytest.mark.parametrize("body", [{}, {"metadata": None, "spec": None, "status": None}])
def test_objects_without_content(body: Json) -> None:
    assert read_class(decoded(body, ClassObject)).name == ""
    assert read_slice(decoded(body, SliceObject)).devices == ()
    assert read_claim(decoded(body, ClaimObject)).devices is None
