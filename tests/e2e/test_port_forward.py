"""Connections of the commands to an extender's pod, through the API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scheduler_ext.cluster.active_extender import INSPECTION_PORT, get_from_pod
from scheduler_ext.cluster.client.transport import Transport
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.installation import NAMESPACE
from tests.e2e.workload import Workload

WHOLE = "nvidia.com/gpu"


def told(command: Sequence[str], kubeconfig: Path) -> Json:
    """The output of a command that has no complaints."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KUBECTL_KUBERC": "false",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: Json = json.loads(done.stdout)
    return found


def explained(pod: RunningPod, name: str) -> Json:
    """The answer of a pod's inspection listener about a pod, without a forward."""
    url = f"http://{LOOPBACK}:{pod.ports.local(INSPECTION_PORT)}/explain?pod={name}"
    found: Json = json.loads(unverified.get(url))
    return found


def test_the_active_one_of_two_extenders_answers(workload: Workload) -> None:
    node = workload.add_whole("small", 3)
    workload.publish()
    installation = workload.installation
    active = installation.active()
    (passive,) = (pod for pod in installation.pods() if pod is not active)
    name = workload.create(workload.pod({WHOLE: "1"}))
    workload.await_node(name)
    full = f"{workload.namespace}/{name}"
    eventually(lambda: explained(active, full)["boundTo"], "the extender knows where it is")
    assert explained(passive, full)["recorded"] is None, "the other replica had no request"
    kubeconfig = installation.plane.kubeconfig("admin")
    plugin = [str(installation.plane.binaries.kubectl), "gpu-placement"]
    own = ["-n", workload.namespace, "-o", "json"]
    for program in (plugin, ["scheduler-ext"]):
        found = told([*program, "why", name, *own], kubeconfig)
        assert found["recorded"]["bound"]["result"] == "seen"
    for command in (["nodes", "-o", "json"], ["pods", *own]):
        (item,) = told([*plugin, *command, "--from", "extender"], kubeconfig)["items"]
        assert item["node"] == node


@pytest.fixture
def transport(workload: Workload) -> Iterator[Transport]:
    """The API server, for a user with all rights."""
    transport = Transport.from_kubeconfig(workload.installation.plane.kubeconfig("admin"))
    yield transport
    transport.close()


def test_one_question_after_the_other_is_answered_whole(workload: Workload, transport: Transport) -> None:
    for i in range(12):
        workload.add_whole(f"node-{i}", 8)
    workload.publish()
    active = workload.installation.active()
    for _ in range(60):
        status, body = get_from_pod(transport, NAMESPACE, active.name, INSPECTION_PORT, "/inventory")
        assert (status, len(body) > 1 << 14, len(json.loads(body)["items"])) == (200, True, 12)
