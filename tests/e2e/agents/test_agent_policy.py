"""Write access of the project's tokens on the real API server: an agent one GPUNode, the extender an
annotation, a new label and the end of a startup taint.
"""

from __future__ import annotations

import re

import pytest

from tests.agent.nvml_mock.presets import t4
from tests.e2e.agents.gpu_host import NAMESPACE, GpuHost
from tests.e2e.agents.gpunode_api import API_VERSION
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import APPLY, JSON_PATCH, MERGE, Api, ApiError, Json, eventually
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

APPLIED = "fieldManager=scheduler-ext-agent&force=true"
UNCORDONED = {"annotations": {"gpu.scheduler-ext.io/cordoned": ""}}
AGENT = "gpu.scheduler-ext.io/agent"
NUDGED = {"gpu.scheduler-ext.io/inventory-changed": "now"}
STATUS = {"devices": [{"uuid": "GPU-x", "index": 0, "memory": {"totalMiB": 1}}]}


@pytest.fixture
def host(workload: Workload) -> GpuHost:
    host = GpuHost(workload, "t4", t4(0))
    host.await_report()
    return host


@pytest.fixture
def agent(host: GpuHost) -> Api:
    """The API as the agent of that host."""
    api = host.workload.api
    meta = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{host.agent().name}")["metadata"]
    pod = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return api.as_account(NAMESPACE, "gpu-scheduler-agent", **pod)


@pytest.fixture
def extender(workload: Workload) -> Api:
    return workload.api.as_account("gpu-scheduler", "gpu-scheduler-extender")


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
    stolen = workload.api.as_account(NAMESPACE, "gpu-scheduler-agent")
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


STARTING = {"key": "gpu.scheduler-ext.io/starting", "value": "true", "effect": "NoSchedule"}
KEPT = {"key": "example.com/kept", "effect": "NoExecute"}
END = {"op": "remove", "path": "/spec/taints/0"}


def label(key: str, value: str | None) -> Json:
    """A change of a label of a Node, with an annotation that the extender may write."""
    return {"metadata": {"labels": {key: value}, "annotations": NUDGED}}


@pytest.mark.parametrize(
    ("labels", "taints", "change"),
    [
        pytest.param({}, [], {"spec": {"unschedulable": True}}, id="cordon it"),
        pytest.param({}, [], {"metadata": {"annotations": {"a": "b"}}}, id="annotate it otherwise"),
        pytest.param({}, [], {"metadata": {"annotations": {"kept": None}}}, id="take an annotation away"),
        pytest.param({}, [], label("a", "b"), id="add another label"),
        pytest.param({}, [], label(AGENT, "yes"), id="give its label another value"),
        pytest.param({AGENT: "false"}, [], label(AGENT, "true"), id="overrule an administrator"),
        pytest.param({AGENT: "true"}, [], label(AGENT, None), id="remove its label"),
        pytest.param({"kept": "1"}, [], label("kept", "2"), id="change another label"),
        pytest.param({}, [KEPT], [END], id="remove another taint"),
        pytest.param(
            {},
            [STARTING],
            [{"op": "replace", "path": "/spec/taints/0/key", "value": "a"}],
            id="exchange the startup taint for another",
        ),
        pytest.param(
            {},
            [STARTING],
            [END, {"op": "add", "path": "/spec/unschedulable", "value": True}],
            id="cordon a node with the end of the startup taint",
        ),
    ],
)
def test_the_extender_does_not(
    workload: Workload, extender: Api, labels: Json, taints: list[Json], change: Json | list[Json]
) -> None:
    # Without a report, the running extender leaves the startup taint where it is.
    node = f"/api/v1/nodes/{workload.add_node('plain', {}, labels=labels)}"
    workload.api.patch(node, {"metadata": {"annotations": {"kept": "1"}}, "spec": {"taints": taints}})
    refusal = extender.refusal("PATCH", node, change, JSON_PATCH if isinstance(change, list) else MERGE)
    assert refusal.startswith("403 Forbidden")
    assert re.search("may (change one annotation of|add one label to) a Node", refusal)


def test_the_extender_may_label_and_annotate_a_node_and_end_its_startup_taint(
    workload: Workload, extender: Api
) -> None:
    node = f"/api/v1/nodes/{workload.add_node('plain', {}, labels={'kept': '1'})}"
    workload.api.patch(node, {"spec": {"taints": [STARTING, KEPT]}})
    for _ in range(2):
        extender.patch(node, label(AGENT, "true"))
    extender.patch(node, [END], JSON_PATCH)
    found = workload.api.get(node)
    assert {key: found["metadata"]["labels"][key] for key in (AGENT, "kept")} == {AGENT: "true", "kept": "1"}
    assert [each["key"] for each in found["spec"]["taints"]] == [KEPT["key"]]


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
