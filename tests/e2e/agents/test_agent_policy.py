"""Write access of the project's tokens on the real API server: an agent one GPUNode, the extender an
annotation, a new label and the end of a startup taint.
"""

from __future__ import annotations

import pytest

from tests.agent.nvml_mock.presets import t4
from tests.e2e.agents.gpu_host import NAMESPACE, GpuHost
from tests.e2e.agents.gpunode_api import API_VERSION
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import APPLY, JSON_PATCH, Api, ApiError, Json, eventually
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

APPLIED = "fieldManager=scheduler-ext-agent&force=true"
UNCORDONED = {"annotations": {"gpu.scheduler-ext.io/cordoned": ""}}
AGENT = "gpu.scheduler-ext.io/agent"
LABELLED = {AGENT: "true"}
NUDGED = {"gpu.scheduler-ext.io/inventory-changed": "now"}
STATUS = {"devices": [{"uuid": "GPU-x", "index": 0, "memory": {"totalMiB": 1}}]}


def token(api: Api, namespace: str, account: str, pod: Json | None) -> Api:
    """The API as a ServiceAccount: with a token as requested by the kubelet, or with one that belongs to no
    pod.
    """
    spec: Json = {"expirationSeconds": 600}
    if pod is not None:
        meta = pod["metadata"]
        spec["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
        }
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return api.as_user(api.create(path, {"spec": spec})["status"]["token"])


@pytest.fixture
def host(workload: Workload) -> GpuHost:
    host = GpuHost(workload, "t4", t4(0))
    host.await_report()
    return host


@pytest.fixture
def agent(host: GpuHost) -> Api:
    """The API as the agent of that host."""
    api = host.workload.api
    pod = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{host.agent().name}")
    return token(api, NAMESPACE, "gpu-scheduler-agent", pod)


def apply(api: Api, name: str, subresource: str = "", **fields: Json) -> None:
    body = {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": {"name": name}} | fields
    api.patch(f"{GPU_NODES}/{name}{subresource}?{APPLIED}", body, APPLY)


def test_an_agent_reports_on_its_own_node(host: GpuHost, agent: Api) -> None:
    apply(agent, host.name, "/status", status=STATUS)
    assert [device["uuid"] for device in host.devices()] == ["GPU-x"]


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_an_agent_does_not_report_on_another_node(
    workload: Workload, host: GpuHost, agent: Api, subresource: str
) -> None:
    other = workload.add_whole("other", 1)
    workload.publish()
    with pytest.raises(ApiError, match="may write the GPUNode of that node only") as refused:
        apply(agent, other, subresource, **({"status": STATUS} if subresource else {}))
    assert refused.value.status == 403
    with pytest.raises(ApiError, match="may write the GPUNode of that node only"):
        apply(agent, workload.name("nowhere"))


def test_a_token_of_no_pod_reports_on_no_node(workload: Workload, host: GpuHost) -> None:
    stolen = token(workload.api, NAMESPACE, "gpu-scheduler-agent", None)
    with pytest.raises(ApiError, match="may write the GPUNode of that node only"):
        apply(stolen, host.name, "/status", status=STATUS)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        pytest.param(UNCORDONED, "annotations", id="lift a cordon"),
        pytest.param({"labels": {"a": "b"}}, "neither labels", id="label itself"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "plain-1", "uid": "u"}]},
            "the Node of its own name",
            id="belong to another node",
        ),
    ],
)
def test_an_agent_does_not(host: GpuHost, agent: Api, metadata: Json, said: str) -> None:
    api = host.workload.api
    api.patch(
        f"{GPU_NODES}/{host.name}",
        {"metadata": {"annotations": {"gpu.scheduler-ext.io/cordoned": "GPU-t4-0"}}},
    )
    with pytest.raises(ApiError, match=said):
        apply(agent, host.name, metadata={"name": host.name, **metadata})


def test_an_agent_has_no_other_right(host: GpuHost, agent: Api) -> None:
    with pytest.raises(ApiError, match='cannot delete resource "gpunodes"'):
        agent.delete(f"{GPU_NODES}/{host.name}")
    with pytest.raises(ApiError, match='cannot list resource "nodes"'):
        agent.items("/api/v1/nodes")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec": {"unschedulable": True}}, id="cordon it"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, id="annotate it otherwise"),
        pytest.param({"metadata": {"annotations": {"kept": None}}}, id="take an annotation away"),
    ],
)
def test_the_extender_changes_nothing_else_of_a_node(workload: Workload, change: Json) -> None:
    extender = token(workload.api, "gpu-scheduler", "gpu-scheduler-extender", None)
    node = f"/api/v1/nodes/{workload.add_whole('whole', 1)}"
    workload.api.patch(node, {"metadata": {"annotations": {"kept": "1"}}})
    with pytest.raises(ApiError, match="may change one annotation of a Node") as refused:
        extender.patch(node, change)
    assert refused.value.status == 403
    extender.patch(node, {"metadata": {"annotations": NUDGED}})


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param({}, LABELLED | {"a": "b"}, id="add another one beside its own"),
        pytest.param({}, {AGENT: "yes"}, id="give its own another value"),
        pytest.param({AGENT: "false"}, LABELLED, id="overrule an administrator"),
        pytest.param(LABELLED, {AGENT: None}, id="remove its own label"),
        pytest.param({"kept": "1"}, {"kept": "2"}, id="change another label"),
    ],
)
def test_the_extender_does_not(workload: Workload, before: Json, change: Json) -> None:
    extender = token(workload.api, "gpu-scheduler", "gpu-scheduler-extender", None)
    node = f"/api/v1/nodes/{workload.add_node('plain', {}, labels=before)}"
    labels = workload.api.get(node)["metadata"]["labels"]
    with pytest.raises(ApiError, match="may add one label to a Node") as refused:
        extender.patch(node, {"metadata": {"labels": change}})
    assert refused.value.status == 403
    assert workload.api.get(node)["metadata"]["labels"] == labels


def test_the_extender_labels_a_node_once_and_may_still_annotate_it(workload: Workload) -> None:
    extender = token(workload.api, "gpu-scheduler", "gpu-scheduler-extender", None)
    node = f"/api/v1/nodes/{workload.add_node('plain', {}, labels={'kept': '1'})}"
    for _ in range(2):
        extender.patch(node, {"metadata": {"labels": LABELLED, "annotations": NUDGED}})
    found = workload.api.get(node)["metadata"]["labels"]
    assert {key: found[key] for key in (AGENT, "kept")} == LABELLED | {"kept": "1"}


STARTING = {"key": "gpu.scheduler-ext.io/starting", "value": "true", "effect": "NoSchedule"}
KEPT = {"key": "example.com/kept", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param([KEPT], [{"op": "remove", "path": "/spec/taints/0"}], id="another taint"),
        pytest.param(
            [STARTING],
            [{"op": "replace", "path": "/spec/taints/0/key", "value": "a"}],
            id="a taint in exchange for another",
        ),
        pytest.param(
            [STARTING],
            [
                {"op": "remove", "path": "/spec/taints/0"},
                {"op": "add", "path": "/spec/unschedulable", "value": True},
            ],
            id="the startup taint with a cordon",
        ),
    ],
)
def test_the_extender_removes_no_other_taint(
    workload: Workload, before: list[Json], change: list[Json]
) -> None:
    extender = token(workload.api, "gpu-scheduler", "gpu-scheduler-extender", None)
    # Without a report, the running extender leaves the startup taint where it is.
    node = f"/api/v1/nodes/{workload.add_node('plain', {})}"
    workload.api.patch(node, {"spec": {"taints": before}})
    with pytest.raises(ApiError, match="may change one annotation of a Node") as refused:
        extender.patch(node, change, JSON_PATCH)
    assert refused.value.status == 403


def test_the_extender_may_remove_the_startup_taint_alone(workload: Workload) -> None:
    extender = token(workload.api, "gpu-scheduler", "gpu-scheduler-extender", None)
    node = f"/api/v1/nodes/{workload.add_node('plain', {})}"
    workload.api.patch(node, {"spec": {"taints": [STARTING, KEPT]}})
    extender.patch(node, [{"op": "remove", "path": "/spec/taints/0"}], JSON_PATCH)
    assert [each["key"] for each in workload.api.get(node)["spec"]["taints"]] == [KEPT["key"]]


def test_the_running_extender_removes_it_when_report_and_plugin_are_there(workload: Workload) -> None:
    """A pod waits at the taint until then, and is placed afterwards."""
    name = workload.add_node("new", {})
    node = f"/api/v1/nodes/{name}"
    workload.api.patch(node, {"spec": {"taints": [KEPT, STARTING]}})
    workload.report(name, [gpu(0, f"GPU-{name}")])
    workload.publish()

    def keys() -> list[str]:
        return [each["key"] for each in workload.api.get(node)["spec"]["taints"]]

    assert keys() == [KEPT["key"], STARTING["key"]]
    amounts = {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}
    workload.api.patch(f"{node}/status", {"status": amounts})
    eventually(lambda: keys() == [KEPT["key"]], "the startup taint is removed")
