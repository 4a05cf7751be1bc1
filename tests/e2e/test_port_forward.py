"""Connections of the commands to an extender's pod, through the API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from scheduler_ext.cluster.active_extender import INSPECTION_PORT, get_from_pod
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.installation import NAMESPACE
from tests.e2e.workload import Workload

WHOLE = "nvidia.com/gpu"


class Told(NamedTuple):
    """Leftovers of a command."""

    code: int
    out: str
    err: str


def told(command: Sequence[str], kubeconfig: Path) -> Told:
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KUBECTL_KUBERC": "false",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Told(done.returncode, done.stdout, done.stderr)


def inspect_url(pod: RunningPod, path: str) -> str:
    """The address of a pod's inspection listener, without a forward."""
    return f"http://{LOOPBACK}:{pod.ports.local(INSPECTION_PORT)}{path}"


def passive(workload: Workload) -> RunningPod:
    active = workload.installation.active()
    (other,) = (pod for pod in workload.installation.pods() if pod is not active)
    return other


@pytest.fixture
def placed(workload: Workload) -> str:
    """A pod of the project's scheduler that the active extender has placed and knows."""
    workload.add_whole("small", 3)
    workload.publish()
    active = workload.installation.active()
    name = workload.create(workload.pod({WHOLE: "1"}))
    workload.await_node(name)
    url = inspect_url(active, f"/explain?pod={workload.namespace}/{name}")

    def told() -> dict[str, Any]:
        with urlopen(url) as reply:
            answer: dict[str, Any] = json.loads(reply.read())
            return answer

    eventually(lambda: told()["boundTo"], "the extender knows where it is")
    return name


def test_the_active_one_of_two_extenders_answers_about_a_decision(workload: Workload, placed: str) -> None:
    plane = workload.installation.plane
    with urlopen(inspect_url(passive(workload), f"/explain?pod={workload.namespace}/{placed}")) as reply:
        assert json.loads(reply.read())["recorded"] is None, "the other replica had no request"
    for program in ([str(plane.binaries.kubectl), "gpu-placement"], ["scheduler-ext"]):
        asked = [*program, "why", placed, "-n", workload.namespace, "-o", "json"]
        code, out, err = told(asked, plane.kubeconfig("admin"))
        assert (code, err) == (0, "")
        assert json.loads(out)["recorded"]["bound"]["result"] == "seen"


@pytest.mark.parametrize("command", ["nodes", "pods"])
def test_lists_come_from_an_extender(workload: Workload, placed: str, command: str) -> None:
    plane = workload.installation.plane
    asked = [str(plane.binaries.kubectl), "gpu-placement", command, "--from", "extender", "-o", "json"]
    if command == "pods":
        asked += ["-n", workload.namespace]
    code, out, err = told(asked, plane.kubeconfig("admin"))
    assert (code, err) == (0, "")
    (item,) = json.loads(out)["items"]
    assert item["node"] == workload.name("small")


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


def test_a_port_without_a_listener_is_an_error_that_says_so(workload: Workload, transport: Transport) -> None:
    active = workload.installation.active()
    with pytest.raises(ClusterError, match=rf"pod {NAMESPACE}/{active.name}, port 9: .*connection refused"):
        get_from_pod(transport, NAMESPACE, active.name, 9, "/explain")
