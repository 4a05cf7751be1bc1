"""GPUNodes on the test control plane, written like an agent's."""

from __future__ import annotations

from typing import Any

from tests.e2e.cluster.api import APPLY, ApiError, Json, eventually
from tests.e2e.cluster.control_plane import ControlPlane
from tests.pages import ROOT

CRD = ROOT / "manifests" / "base" / "crd.yaml"
API_VERSION = "gpu.scheduler-ext.io/v1alpha1"
PATH = f"/apis/{API_VERSION}/gpunodes"
_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpunodes.gpu.scheduler-ext.io"


class GpuNodes:
    """The GPUNodes of one test; `close` removes them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = plane.api
        self._names: list[str] = []

    def create(self, name: str, **fields: Any) -> Json:
        """A new GPUNode; `fields` are further ones of the object."""
        made = self.api.create(PATH, gpu_node(name) | fields)
        self._names.append(name)
        return made

    def get(self, name: str) -> Json:
        """The object as it is stored."""
        return self.api.get(f"{PATH}/{name}")

    def report(self, name: str, status: Json | None, manager: str = "agent", query: str = "") -> Json:
        """Server-side apply of a status. Raises ApiError if it is refused."""
        path = f"{PATH}/{name}/status?fieldManager={manager}{query}"
        return self.api.patch(path, gpu_node(name) | {"status": status}, APPLY)

    def refusal(self, name: str, status: Json | None) -> str:
        """The API server's objection to a status; empty if it would accept it. Nothing is written."""
        try:
            self.report(name, status, query="&dryRun=All")
        except ApiError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Remove everything that was created."""
        for name in self._names:
            self.api.delete(f"{PATH}/{name}")


def install(plane: ControlPlane) -> Json:
    """Apply the CRD and wait until GPUNodes can be written; its conditions by type."""
    plane.kubectl("apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", CRD)

    def established() -> Json | None:
        conditions = plane.api.get(_DEFINITION)["status"]["conditions"]
        found = {condition["type"]: condition["status"] for condition in conditions or ()}
        return found if found.get("Established") == "True" else None

    found = eventually(established, "the CRD is established")
    # Discovery and the schema of server-side apply follow the condition by a moment.
    eventually(
        lambda: "gpunodes" in plane.kubectl("api-resources", "--api-group=gpu.scheduler-ext.io"), "discovery"
    )
    return found


def gpu_node(name: str) -> Json:
    """A GPUNode without a report."""
    return {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": {"name": name}}
