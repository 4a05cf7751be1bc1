"""Nodes whose GPUs DRA drivers hand out, and pods with claims, on a real control plane."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.dra_objects import (
    DRIVER,
    device_class,
    gpu_device,
    resource_claim,
    resource_slice,
    taint_rule,
)
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.binaries import chosen_minor, release_number
from tests.e2e.cluster.features import DEVICE_TAINT_RULES
from tests.e2e.installation import Installation, running_installation
from tests.e2e.workload import Workload

ROOT = "/apis/resource.k8s.io/v1"
CLASSES = f"{ROOT}/deviceclasses"
SLICES = f"{ROOT}/resourceslices"
MODELS = {
    "H100-80GB": ("NVIDIA H100 80GB HBM3", "81559Mi", "9.0.0"),
    "A100-80GB": ("NVIDIA A100-SXM4-80GB", "81920Mi", "8.0.0"),
    "T4": ("Tesla T4", "15360Mi", "7.5.0"),
}


class DraWorkload(Workload):
    """As Workload, with slices, claims and rules; all removed at the end."""

    def close(self) -> None:
        super().close()
        eventually(lambda: not self.claims(), "the claims are gone", 60)

    def add_dra(self, stem: str, gpus: int, resources: Json | None = None, labels: Json | None = None) -> str:
        """A node whose GPUs a DRA driver publishes; with `resources`, a device plugin offers these beside."""
        name = self.add_node(stem, resources or {}, labels=labels or {})
        self.publish_slice(name, [self.device(name, i) for i in range(gpus)])
        return name

    def device(self, node: str, index: int, model: str = "H100-80GB", **fields: Any) -> Json:
        """A GPU of a node's slice."""
        product, memory, capability = MODELS[model]
        found = gpu_device(index, product=product, memory=memory, uuid=f"GPU-{node}-{index}", **fields)
        found["attributes"]["cudaComputeCapability"] = {"version": capability}
        return found

    def publish_slice(self, node: str, devices: Sequence[Json], **pool: Any) -> str:
        """Publish a slice of the node's pool; its name."""
        body = resource_slice(node, devices, **pool)
        name: str = body["metadata"]["name"]
        self.api.create(SLICES, body)
        self._cluster_objects.append(f"{SLICES}/{name}")
        return name

    def claim(self, name: str, *requests: Json) -> Json:
        """Create a claim of this test's namespace; returns what a pod's spec needs to use it."""
        body = resource_claim(name, *requests)
        body["metadata"] = {"name": name, "namespace": self.namespace}
        self.api.create(f"{ROOT}/namespaces/{self.namespace}/resourceclaims", body)
        return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}

    @property
    def _rules(self) -> str:
        version = "v1" if release_number(chosen_minor()) >= (1, 37) else "v1beta2"
        return f"/apis/resource.k8s.io/{version}/devicetaintrules"

    def rules(self) -> list[Json]:
        """All DeviceTaintRules."""
        return self.api.items(self._rules)

    def taint(self, name: str, **selector: str) -> str:
        """Taint the devices of a selector by a rule; its path."""
        path = self._rules
        version = path.split("/")[3]
        body = taint_rule(self.name(name), **selector)
        self.api.create(path, body | {"apiVersion": f"resource.k8s.io/{version}"})
        self._cluster_objects.append(f"{path}/{self.name(name)}")
        return self._cluster_objects[-1]

    def claims(self) -> list[Json]:
        """All claims of this test, also those that kube-scheduler made."""
        return self.api.items(f"{ROOT}/namespaces/{self.namespace}/resourceclaims")

    def held(self) -> list[tuple[str, str]]:
        """The devices that claims of this test hold, as (pool, device)."""
        return [
            (result["pool"], result["device"])
            for claim in self.claims()
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        ]

    def await_known(self) -> None:
        """Wait until every extender knows all nodes of this test."""
        self.installation.await_inventory(len(self._gpu_nodes), dict.fromkeys(self.installation.pods(), -1.0))


@contextlib.contextmanager
def running_dra_installation(directory: Path, overlay: str | Path = "overlays/dra") -> Iterator[Installation]:
    """A cluster of its own with an overlay installed, and the DeviceClass of NVIDIA's driver."""
    with running_installation(directory, overlay, features=DEVICE_TAINT_RULES) as installation:
        installation.api.create(CLASSES, device_class(DRIVER))
        yield installation
