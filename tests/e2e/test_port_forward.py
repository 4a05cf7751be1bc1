"""Connections through the API server to a pod: port-forwards, including the kubectl plugin's own, and
logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from scheduler_ext.cluster.active_extender import INSPECTION_PORT, get_from_pod
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from tests.e2e.cluster.api import Api, Json, eventually
from tests.e2e.cluster.credentials import write_kubeconfig
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.installation import NAMESPACE
from tests.e2e.workload import Workload

WHOLE = "nvidia.com/gpu"
READ_OBJECTS = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
    {"apiGroups": ["gpu.scheduler-ext.io"], "resources": ["gpunodes"], "verbs": ["list"]},
]
FIND_EXTENDERS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
]
AUTHORIZATION = "/apis/rbac.authorization.k8s.io/v1"


def forward_rule(*verbs: str) -> Json:
    return {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": list(verbs)}


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


def may(api: Api, rules: Sequence[Json]) -> bool:
    """Whether a user has all these rights in the extender's namespace."""
    return all(
        api.create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "spec": {
                    "resourceAttributes": {
                        "namespace": NAMESPACE,
                        "verb": verb,
                        "group": rule["apiGroups"][0],
                        "resource": resource.partition("/")[0],
                        "subresource": resource.partition("/")[2],
                    }
                }
            },
        )["status"]["allowed"]
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


@contextmanager
def other_user(workload: Workload, rules: Sequence[Json], path: Path) -> Iterator[Path]:
    """The kubeconfig of a user who may read the cluster, with these rights in the extender's namespace."""
    api = workload.api
    name = f"other-user-{workload.namespace}"
    accounts = f"/api/v1/namespaces/{workload.namespace}/serviceaccounts"
    account = {"kind": "ServiceAccount", "name": name, "namespace": workload.namespace}
    own = f"{AUTHORIZATION}/namespaces/{NAMESPACE}"
    given = ((AUTHORIZATION, "Cluster", READ_OBJECTS), (own, "", rules))
    api.create(accounts, {"metadata": {"name": name}})
    try:
        for root, scope, allowed in given:
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{scope}Role", "name": name}
            kind = f"{scope.lower()}role"
            api.create(f"{root}/{kind}s", {"metadata": {"name": name}, "rules": list(allowed)})
            binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [account]}
            api.create(f"{root}/{kind}bindings", binding)
        token = api.create(f"{accounts}/{name}/token", {"spec": {}})["status"]["token"]
        # The API server applies new roles a moment later.
        eventually(lambda: may(api.as_user(token), [*READ_OBJECTS, *rules]), "the rights are in force")
        write_kubeconfig(path, api.server, api.ca_file, {"token": token})
        yield path
    finally:
        for root, scope, _ in given:
            for kind in ("rolebindings", "roles"):
                api.delete(f"{root}/{scope.lower()}{kind}/{name}")


@pytest.mark.parametrize(
    ("verbs", "asked"),
    [
        pytest.param(("create",), False, id="create alone: the cluster's objects answer"),
        pytest.param(("get", "create"), True, id="get and create: the extender answers"),
    ],
)
def test_the_rights_that_a_port_forward_needs(
    workload: Workload, placed: str, verbs: Sequence[str], asked: bool, tmp_path: Path
) -> None:
    rules = [*FIND_EXTENDERS, *([forward_rule(*verbs)] if verbs else [])]
    with other_user(workload, rules, tmp_path / "kubeconfig") as kubeconfig:
        kubectl = [str(workload.installation.plane.binaries.kubectl), "gpu-placement"]
        code, out, err = told([*kubectl, "why", placed, "-n", workload.namespace, "-o", "json"], kubeconfig)
    active = workload.installation.active().name
    note = (
        "Note: answered from the cluster's objects, because no extender is available: "
        f'pod {NAMESPACE}/{active}, port {INSPECTION_PORT}: 403 Forbidden: pods "{active}" is forbidden:'
    )
    assert (code, json.loads(out)["recorded"] is not None) == (0, asked)
    assert err == "" if asked else err.startswith(note)
