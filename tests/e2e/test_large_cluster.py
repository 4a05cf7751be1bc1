"""A thousand nodes on the real API server: one process reports for all, and an extender knows them.

No kubelet here: nodes and pods are only objects.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.agents.gpunode_api import install
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Api, Json, eventually
from tests.e2e.cluster.binaries import find_binaries
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane, running_control_plane
from tests.e2e.cluster.ports import LOOPBACK, free_ports
from tests.kube_objects import gpu, gpu_node

pytestmark = pytest.mark.release

NODES, PODS = 1000, 5000
READY_S = 60.0
_PODS_PATH = "/api/v1/namespaces/default/pods"


def in_parallel(make: Callable[[int], Json], count: int) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(make, range(count)))


def add_node(api: Api, number: int) -> Json:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return api.create(
        "/api/v1/nodes",
        {"metadata": {"name": f"n-{number:04}"}, "status": {"capacity": room, "allocatable": room}},
    )


def add_pod(api: Api, number: int) -> Json:
    """One in five requests a GPU."""
    limits = {"nvidia.com/gpu": "1"} if number % 5 == 0 else {}
    container = {"name": "main", "image": "train:1", "resources": {"limits": limits}}
    return api.create(
        _PODS_PATH,
        {
            "metadata": {"name": f"p-{number:04}"},
            "spec": {"nodeName": f"n-{number % NODES:04}", "containers": [container]},
        },
    )


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_control_plane(find_binaries(), tmp_path_factory.mktemp("large")) as plane:
        install(plane)
        api = Api(plane.server, plane.credentials.ca_file, plane.api.token, connections=16)
        in_parallel(lambda number: add_node(api, number), NODES)
        in_parallel(lambda number: add_pod(api, number), PODS)
        yield plane


def command(plane: ControlPlane, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "scheduler_ext", *arguments, f"--kubeconfig={plane.kubeconfig('admin')}"]


def report_on_all(plane: ControlPlane, directory: Path) -> None:
    """One agent writes the reports of all nodes."""
    devices = [gpu(i, f"GPU-{i}") for i in range(8)]
    readings = directory / "readings.yaml"
    readings.write_text(yaml.safe_dump_all([gpu_node(f"n-{number:04}", devices) for number in range(NODES)]))
    agent = Child("agent", command(plane, "agent", "--fake", str(readings)), directory / "agent.log")

    def reported() -> bool:
        # Rarely requested, because listing all reports is work that the agent would wait for.
        time.sleep(1.0)
        return sum("status" in each for each in plane.api.items(GPU_NODES)) == NODES

    try:
        eventually(reported, "all nodes are reported on", 120.0)
    finally:
        agent.stop()


def test_an_extender_knows_all_nodes(plane: ControlPlane, tmp_path: Path) -> None:
    report_on_all(plane, tmp_path)
    (health,) = free_ports(1)
    listen = ("--listen=127.0.0.1:0", f"--health-listen={LOOPBACK}:{health}", "--inspect-listen=127.0.0.1:0")
    extender = Child("extender", command(plane, "serve", *listen), tmp_path / "extender.log")
    try:
        url = f"http://{LOOPBACK}:{health}"
        extender.wait_ready(lambda: bool(unverified.get(f"{url}/readyz")), READY_S)
        families = text_string_to_metric_families(unverified.get(f"{url}/metrics"))
        states = next(each for each in families if each.name == "gpu_extender_inventory_nodes")
        assert {sample.labels["state"]: sample.value for sample in states.samples} == {
            "Fresh": NODES,
            "Stale": 0,
            "Missing": 0,
        }
    finally:
        extender.stop()
