"""Objects of resource.k8s.io as drivers, administrators and kube-scheduler write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kube_objects import Json

DRIVER = "gpu.nvidia.com"
WHOLE = "nvidia.com/gpu"
API = "resource.k8s.io/v1"


def device_class(
    name: str = DRIVER, expression: str = f"device.driver == '{DRIVER}'", extended: str | None = WHOLE
) -> Json:
    """A class; by default the one that NVIDIA's chart installs."""
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
    if extended is not None:
        spec["extendedResourceName"] = extended
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def gpu_device(index: int, *, node: str = "", product: str = "NVIDIA H100 80GB HBM3", **fields: Any) -> Json:
    """A whole GPU as NVIDIA's driver publishes it."""
    memory = fields.pop("memory", "81559Mi")
    uuid = fields.pop("uuid", f"GPU-{node}{index}")
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": uuid},
            "productName": {"string": product},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.95.5"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{index + 1:02x}:00.0"},
        },
        "capacity": {"memory": {"value": memory}},
    } | fields


def resource_slice(
    node: str,
    devices: Sequence[Json],
    *,
    name: str = "",
    generation: int = 1,
    slices: int = 1,
    driver: str = DRIVER,
) -> Json:
    """A slice of a node's pool."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-slice"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": slices},
            "devices": list(devices),
        },
    }


def request(count: int = 1, *expressions: str, device_class: str = DRIVER, **fields: Any) -> Json:
    """A request of a claim."""
    exactly: Json = {"deviceClassName": device_class, "count": count} | fields
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    return {"name": "gpu", "exactly": exactly}


def resource_claim(
    name: str, *requests: Json, on: str | None = None, devices: Sequence[str] = (), pod: str | None = None
) -> Json:
    """A claim; with `on`, one that holds `devices` of this node for a pod."""
    found: Json = {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"},
        "spec": {"devices": {"requests": list(requests or (request(),))}},
    }
    if on is not None:
        results = [{"request": "gpu", "driver": DRIVER, "pool": on, "device": each} for each in devices]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
        found["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            },
            "reservedFor": [{"resource": "pods", "name": pod or name, "uid": f"uid-{pod or name}"}],
        }
    return found


def claim_template(name: str, *requests: Json) -> Json:
    """A template of claims."""
    spec = {"devices": {"requests": list(requests or (request(),))}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def taint_rule(name: str, **selector: str) -> Json:
    """A rule that taints the devices of a selector."""
    return {
        "apiVersion": API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "example.com/sick", "effect": "NoSchedule"}},
    }


def resource_list(*resources: str) -> Json:
    """An answer to discovery."""
    return {"kind": "APIResourceList", "resources": [{"name": name} for name in resources]}
