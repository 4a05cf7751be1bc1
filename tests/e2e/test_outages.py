"""An API server that is away for a minute, and forgets what watches had seen: on a cluster of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.agent.nvml_mock.presets import t4
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.gpu_host import GpuHost
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload

AWAY_S = 60.0
ONE = {"nvidia.com/gpu": "1"}


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    with running_cluster(tmp_path_factory.mktemp("outages")) as cluster:
        installation = Installation(cluster)
        installation.install("base")
        workload = Workload(installation)
        yield workload
        workload.close()


def filtered(installation: Installation, pod: RunningPod, asking: Json, names: list[str]) -> Json:
    """The reply of one extender, asked as kube-scheduler asks."""
    body = {"Pod": asking, "Nodes": None, "NodeNames": names}
    answer: Json = json.loads(unverified.post(f"{installation.extender_url(pod)}/filter", body))
    return answer


def refuses(installation: Installation, pod: RunningPod, asking: Json, name: str) -> bool:
    return not filtered(installation, pod, asking, [name])["NodeNames"]


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

    plane.stop_apiserver()
    time.sleep(AWAY_S / 2)
    # What is known is served on, and the probe says what it is.
    for each in installation.pods():
        assert filtered(installation, each, pod, [host.name])["NodeNames"] == [host.name]
        assert "what is known is served on" in readyz(each)
        assert installation.metric("gpu_extender_watch_connected") == 0
    host.machine.events.append((79, "GPU-t4-0"))
    host.machine.write()
    time.sleep(AWAY_S / 2)
    # No watch may go on from where it was.
    plane.compact()
    plane.start_apiserver()

    health: Any = eventually(
        lambda: host.devices()[0]["health"]["state"] == "Unhealthy" and host.devices()[0]["health"],
        "the agent reports what happened meanwhile",
        60.0,
    )
    assert health["reason"].startswith("XID 79")
    workload.remove_node(removed)
    eventually(lambda: installation.metric("gpu_extender_watch_connected") == 8, "every watch goes on", 60.0)
    assert installation.metric("gpu_extender_watch_restarts_total", reason="expired") > 0
    for each in installation.pods():
        eventually(partial(refuses, installation, each, pod, host.name), "it knows that the GPU is sick")
    assert [container.restarts for container in (*extenders, agent)] == restarts
    name = workload.create(pod)
    late = workload.add_whole("late", 1)
    workload.publish()
    assert workload.await_node(name, 60.0) == late
