"""Reports and a definition of a next release, which has fields that this release does not know."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import yaml

from tests.agent.nvml_mock.presets import h100
from tests.e2e.agents.gpu_host import GpuHost
from tests.e2e.agents.gpunode_api import CRD, PATH, GpuNodes
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

NEW = "ofTheNextRelease"
MANAGER = "scheduler-ext-agent"
REPORT = {NEW: "of the node", "devices": [gpu(0) | {NEW: "of the GPU"}]}


@pytest.fixture
def nodes(workload: Workload) -> Iterator[GpuNodes]:
    """Where GPUNodes have the fields of a next release; at the end those of this one."""
    nodes = GpuNodes(workload.installation.plane)
    define(workload.installation.plane, next_definition())
    nodes.create("probe")
    eventually(lambda: not nodes.refusal("probe", REPORT), "the new fields may be written", 60.0)
    yield nodes
    restore(nodes, workload.installation.plane)
    nodes.close()


def define(plane: ControlPlane, definition: str) -> None:
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definition)


def restore(nodes: GpuNodes, plane: ControlPlane) -> None:
    """Roll the definition back."""
    define(plane, CRD.read_text())
    eventually(lambda: "not declared" in nodes.refusal("probe", REPORT), "new fields are refused", 60.0)


def next_definition() -> str:
    definition = copy.deepcopy(yaml.safe_load(CRD.read_text()))
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for part in (status, status["properties"]["devices"]["items"]):
        part["properties"][NEW] = {"type": "string", "maxLength": 99}
    text: str = yaml.safe_dump(definition)
    return text


def test_a_node_with_an_agent_of_the_next_release_takes_pods(workload: Workload, nodes: GpuNodes) -> None:
    new = {NEW: "of the GPU", "throttleReasons": ["OfTheNextRelease"]}
    devices = [gpu(i, f"GPU-next-{i}") | new for i in range(2)]
    name = workload.add_node("next", {"nvidia.com/gpu": "2"}, devices, ofTheNextRelease="of the node")
    workload.publish()
    assert nodes.get(name)["status"][NEW] == "of the node"
    assert workload.installation.metric("gpu_extender_inventory_nodes", state="Missing") == 0
    model = {"gpu.scheduler-ext.io/model": "A100-80GB"}
    assert workload.place(workload.pod({"nvidia.com/gpu": "1"}, annotations=model)) == name


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param("of the next release", id="while the definition stays"),
        pytest.param("of this release", id="after the definition is rolled back"),
    ],
)
def test_an_agent_that_is_rolled_back_replaces_the_report(
    workload: Workload, nodes: GpuNodes, definition: str
) -> None:
    host = GpuHost(workload, "gpus", h100(0))
    host.await_report()
    report_of_the_next_release(host, nodes)
    if definition == "of this release":
        restore(nodes, workload.installation.plane)
    host.machine.events.append((79, "GPU-h100-0"))
    host.machine.write()

    def is_sick() -> bool:
        return bool(host.devices()[0]["health"]["state"] == "Unhealthy")

    eventually(is_sick, "the agent reports again", 60.0)
    assert {NEW} & (host.report()["status"].keys() | host.devices()[0].keys()) == set()
    assert f"f:{NEW}" not in str(host.report()["metadata"]["managedFields"])
    assert "trying again" not in host.agent().containers["agent"].log.read_text()


def report_of_the_next_release(host: GpuHost, nodes: GpuNodes) -> None:
    """Write what an agent of the next release would write on the host."""

    def written() -> bool:
        status: Json = copy.deepcopy(host.report()["status"])
        status[NEW] = status["devices"][0][NEW] = "written"
        found = nodes.report(host.name, status, MANAGER, "&force=true")["status"]
        return NEW in found and NEW in found["devices"][0]

    eventually(written, "its report is stored")
    assert nodes.api.get(f"{PATH}/{host.name}")["status"][NEW] == "written"
