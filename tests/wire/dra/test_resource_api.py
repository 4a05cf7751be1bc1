"""Objects of resource.k8s.io/v1 as the API server sends them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.published import (
    ClaimedDevice,
    Consumption,
    DeviceAsk,
    DeviceClass,
    DeviceId,
    Requested,
)
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.core.intree.affinity import Taint, Toleration
from scheduler_ext.wire.dra.claim_object import ClaimObject, read_claim
from scheduler_ext.wire.dra.class_object import ClassObject, read_class
from scheduler_ext.wire.dra.slice_object import SliceObject, read_slice
from tests.kube_objects import Json

FULL_ASK = DeviceAsk("c", ("true",), (Toleration("k", "Exists", "", ""),), (("memory", "10Gi"),))


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
        pytest.param('{"default": "8"}', RequestPolicy(default=8), id="a default"),
        pytest.param('{"default": 8, "validRange": null}', RequestPolicy(default=8), id="no range"),
        pytest.param(
            '{"default": "4Ki", "validRange": {"min": "1Ki", "max": "8Ki", "step": "1Ki"}}',
            RequestPolicy(4096, 1024, 8192, 1024),
            id="a range with steps",
        ),
        pytest.param(
            '{"validRange": {"min": "1", "max": null}}', RequestPolicy(minimum=1), id="half a range"
        ),
        pytest.param(
            '{"default": "1", "validValues": ["4", "1", 2]}', RequestPolicy(1, values=(1, 2, 4)), id="values"
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
    assert found.counters == {("set", "slices"): 8}
    (gpu,) = found.devices
    assert gpu.facts.attributes == {
        "uuid": "GPU-0",
        "minor": 0,
        "fast": False,
        "driverVersion": parse_version("580.95.5"),
    }
    assert gpu.facts.capacity == {"memory": "80Gi", "cores": "7"}
    assert gpu.consumes == (Consumption("set", "slices", 2),)
    assert gpu.taints == (Taint("xid", "79", "NoSchedule"),)


@pytest.mark.parametrize(
    ("request_", "expected", "missing"),
    [
        pytest.param(
            {"exactly": {"deviceClassName": "gpu.nvidia.com"}},
            (Requested(DeviceAsk("gpu.nvidia.com"), 1),),
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
            (Requested(FULL_ASK, 4),),
            (),
            id="selectors, tolerations and capacity",
        ),
        pytest.param(
            {"exactly": {"deviceClassName": "c", "allocationMode": "All"}},
            (Requested(DeviceAsk("c"), 0, every=True),),
            ("allocationMode: All",),
            id="all devices of a node",
        ),
        pytest.param(
            {"exactly": {"deviceClassName": "c", "adminAccess": True}},
            (),
            ("adminAccess",),
            id="admin access",
        ),
        pytest.param(
            {"firstAvailable": [{"deviceClassName": "c"}, {"deviceClassName": "d", "count": 2}]},
            (Requested(DeviceAsk("c"), 0), Requested(DeviceAsk("d"), 0)),
            ("firstAvailable",),
            id="alternatives",
        ),
    ],
)
def test_requests_of_a_claim(
    request_: Json, expected: tuple[Requested, ...], missing: tuple[str, ...]
) -> None:
    body = {"metadata": {"name": "c", "uid": "u"}, "spec": {"devices": {"requests": [request_]}}}
    found = read_claim(decoded(body, ClaimObject))
    assert (found.requests, found.not_modelled, found.devices) == (expected, missing, None)


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
    held = ClaimedDevice(DeviceId("gpu.nvidia.com", "node", "gpu-0"), {"memory": 10 * 2**30})
    assert found.devices == (held,)
    assert (found.key, found.node, found.extended) == ("team/pod-extended-resources-x", "node", True)
    assert found.pods == (("pod-uid", "pod"),)


@pytest.mark.parametrize("body", [{}, {"metadata": None, "spec": None, "status": None}])
def test_objects_without_content(body: Json) -> None:
    assert read_class(decoded(body, ClassObject)).name == ""
    assert read_slice(decoded(body, SliceObject)).devices == ()
    assert read_claim(decoded(body, ClaimObject)).devices is None
