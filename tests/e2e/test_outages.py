"""An API server that is away for a while, and forgets the history of watches: on a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.nvml_mock.presets import t4
from tests.e2e.agents.gpu_host import GpuHost
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.installation import running_installation
from tests.e2e.workload import Workload

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
