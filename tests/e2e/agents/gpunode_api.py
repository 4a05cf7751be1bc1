"""GPUNodes on the test control plane, written like an agent's."""

from __future__ import annotations

from typing import Any

from tests.e2e.cluster.api import APPLY, Api, Json
from tests.pages import ROOT

CRD = ROOT / "manifests" / "base" / "crd.yaml"
API_VERSION = "gpu.scheduler-ext.io/v1alpha1"
PATH = f"/apis/{API_VERSION}/gpunodes"
_WRITER = "fieldManager=scheduler-ext-agent&force=true"


def write_report(api: Api, report: Json) -> None:
    """Write a GPUNode with its status, as the agent of its node does."""
    name = report["metadata"]["name"]
    uid = api.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    made = {**report, "metadata": {"name": name, "ownerReferences": [owner]}}
    api.patch(f"{PATH}/{name}?{_WRITER}", made, APPLY)
    api.patch(f"{PATH}/{name}/status?{_WRITER}", report, APPLY)


class GpuNodes:
    """The GPUNodes of one test; `close` removes them."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._names: list[str] = []

    def create(self, name: str, **fields: Any) -> Json:
        """A new GPUNode; `fields` are further ones of the object."""
        made = self.api.create(PATH, gpu_node(name) | fields)
        self._names.append(name)
        return made

    def get(self, name: str) -> Json:
        """The object as it is stored."""
        return self.api.get(f"{PATH}/{name}")

    def report(self, name: str, status: Json, manager: str = "agent") -> Json:
        """Server-side apply of a status. Raises ApiError if it is refused."""
        path = f"{PATH}/{name}/status?fieldManager={manager}"
        return self.api.patch(path, gpu_node(name) | {"status": status}, APPLY)

    def refusal(self, name: str, status: Json) -> str:
        """The API server's objection to a status; empty if it would accept it. Nothing is written."""
        path = f"{PATH}/{name}/status?fieldManager=agent&dryRun=All"
        return self.api.refusal("PATCH", path, gpu_node(name) | {"status": status}, APPLY)

    def close(self) -> None:
        """Remove everything that was created."""
        for name in self._names:
            self.api.delete(f"{PATH}/{name}")


def gpu_node(name: str) -> Json:
    """A GPUNode without a report."""
    return {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": {"name": name}}
