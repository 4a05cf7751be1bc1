"""An API server that is away for a while, and forgets the history of watches: on a cluster of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.nvml_mock.presets import t4
from tests.e2e.agents.gpu_host import GpuHost
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.ports import LOOPBACK, free_ports
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.installation import NAMESPACE, Installation, running_installation
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

ONE = {"nvidia.com/gpu": "1"}


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    with (
        running_installation(tmp_path_factory.mktemp("outages")) as installation,
        Workload(installation) as workload,
    ):
        yield workload


def readyz(pod: RunningPod) -> str:
    return unverified.get(f"http://{LOOPBACK}:{pod.ports.local('health')}/readyz?verbose")


def test_everything_goes_on_after_an_api_server_that_was_away(workload: Workload) -> None:
    installation = workload.installation
    host = GpuHost(workload, "t4", t4(0))
    host.await_report()
    removed = workload.add_whole("removed", 1)
    workload.publish()
    pod = workload.pod(ONE)
    plane = installation.plane
    extenders = [each.containers["extender"] for each in installation.pods()]
    agent = host.agent().containers["agent"]
    restarts = [container.restarts for container in (*extenders, agent)]
    # Of each extender; how many depends on the resources that this Kubernetes serves.
    watches = installation.metric("gpu_extender_watch_connected")
    assert watches >= 10

    plane.stop_apiserver()
    eventually(lambda: installation.metric("gpu_extender_watch_connected") == 0, "every watch has ended")
    # Known data is served on, and the probe reports the state.
    for each in installation.pods():
        assert installation.filter(each, pod, [host.name]) == [host.name]
        assert "the last state stays in force" in readyz(each)
    host.machine.events.append((79, "GPU-t4-0"))
    host.machine.write()
    # No watch may continue from its last version.
    plane.compact()
    plane.start_apiserver()

    health: Any = eventually(
        lambda: host.devices()[0]["health"]["state"] == "Unhealthy" and host.devices()[0]["health"],
        "the agent reports what happened meanwhile",
        60.0,
    )
    assert health["reason"].startswith("XID 79")
    workload.remove_node(removed)
    eventually(
        lambda: installation.metric("gpu_extender_watch_connected") == watches, "every watch goes on", 60.0
    )
    assert installation.metric("gpu_extender_watch_restarts_total", reason="expired") > 0
    eventually(lambda: installation.refuses(pod, [host.name]), "every extender knows that the GPU is sick")
    assert [container.restarts for container in (*extenders, agent)] == restarts
    name = workload.create(pod)
    late = workload.add_whole("late", 1)
    workload.publish()
    # kube-scheduler's own watches wait for up to a minute after an outage.
    assert workload.await_node(name, 150.0) == late


# Far below the shipped ages, so that a test can wait for them.
AGES = "inventory: {staleAfter: 3s, missingAfter: 6s}\n"


@contextmanager
def running_extender(installation: Installation, config: Path) -> Iterator[tuple[Child, str]]:
    """An extender beside those installed: its process, and the URL of its API. It takes part in a Lease that
    has no holder, so that it writes nothing.
    """
    api, health = free_ports(2)
    command = [
        *(sys.executable, "-m", "scheduler_ext", "serve", f"--config={config}"),
        f"--kubeconfig={installation.plane.kubeconfig('admin')}",
        f"--listen={LOOPBACK}:{api}",
        f"--health-listen={LOOPBACK}:{health}",
        f"--inspect-listen={LOOPBACK}:0",
        f"--lease={NAMESPACE}/unheld",
    ]
    child = Child("short-ages", command, installation.plane.directory / "short-ages.log")
    try:
        child.wait_ready(lambda: bool(unverified.get(f"http://{LOOPBACK}:{health}/readyz")), 30.0)
        yield child, f"http://{LOOPBACK}:{api}"
    finally:
        child.stop()


def test_a_restarted_extender_keeps_a_dead_agent_missing(workload: Workload, tmp_path: Path) -> None:
    """It was reported long before this process started, and the API server knows when."""
    config = tmp_path / "config.yaml"
    head = "apiVersion: config.scheduler-ext.io/v1alpha1\nkind: ExtenderConfiguration\n"
    config.write_text(head + AGES)
    installation = workload.installation
    dead = workload.add_whole("dead", 1)
    workload.publish()
    body = {"Pod": workload.pod(ONE), "Nodes": None, "NodeNames": [dead]}

    def left(url: str) -> list[str]:
        names: list[str] = json.loads(unverified.post(f"{url}/filter", body))["NodeNames"]
        return names

    with running_extender(installation, config) as (child, url):
        eventually(lambda: left(url) == [], "a report without renewal is missing")
        child.kill()
    with running_extender(installation, config) as (child, url):
        # At once: not for as long as a new report would be good.
        assert left(url) == []
        # An edit of the GPUNode for another reason does not make the report fresh.
        annotations = {"gpu.scheduler-ext.io/cordoned": "GPU-other"}
        workload.api.patch(f"{GPU_NODES}/{dead}", {"metadata": {"annotations": annotations}})
        time.sleep(1.0)
        assert left(url) == []
        child.kill()
    with running_extender(installation, config) as (_, url):
        assert left(url) == []
        devices = [gpu(0, f"GPU-{dead}-0", memory={"totalMiB": 81920, "usedMiB": 1})]
        workload.report(dead, devices, sequence=2)
        workload.publish()
        assert left(url) == [dead]
