"""Nodes with agents, and the rights that each component adds to the base."""

from __future__ import annotations

import re

import pytest
import yaml

from scheduler_ext.core.node.node_labels import agent_label
from tests.manifests.objects import Json, mapping, of_kind
from tests.manifests.policy import violations
from tests.manifests.shipped import AGENTS, base, shipped
from tests.pages import ROOT, blocks, section

_POD = "DaemonSet gpu-scheduler-agent"
_CONTAINER = f"{_POD}/agent"
_NO_ESCALATION = f"{_CONTAINER}: securityContext.allowPrivilegeEscalation is not False"
_NO_CAPABILITIES = f"{_CONTAINER}: securityContext.capabilities is not {{'drop': ['ALL']}}"
# All rights of a component beyond the base's policy.
ASKED: dict[str, set[str]] = {
    "agent-runtime-class": set(),
    "agent-volume-mounts": {f"{_POD}: volume all-gpus is a hostPath"},
    "agent-mig": {_NO_ESCALATION, _NO_CAPABILITIES},
    "agent-host-processes": {f"{_POD}: hostPID is set"},
    "agent-gke": {
        _NO_ESCALATION,
        _NO_CAPABILITIES,
        f"{_CONTAINER}: securityContext.privileged is set",
        f"{_POD}: volume nvidia is a hostPath",
        f"{_POD}: volume dev is a hostPath",
    },
    "dcgm-exporter": set(),
    # Roles of OpenShift, each for one namespace.
    "openshift": {
        "RoleBinding gpu-scheduler-nonroot: bound to system:openshift:scc:nonroot-v2",
        "RoleBinding gpu-scheduler-agent-privileged: bound to system:openshift:scc:privileged",
    },
    "without-kube-system": set(),
}


def pod(objects: list[Json]) -> Json:
    (daemon_set,) = of_kind(objects, "DaemonSet")
    return mapping(daemon_set, "spec", "template", "spec")


@pytest.mark.parametrize("component", ASKED)
def test_a_component_makes_the_documented_requests(component: str) -> None:
    assert set(violations(shipped(component))) == ASKED[component]


@pytest.mark.parametrize("order", [AGENTS, AGENTS[::-1]], ids=["in one order", "in the other"])
def test_all_components_go_together(order: list[str]) -> None:
    asked = set().union(*(ASKED[component] for component in AGENTS))
    assert set(violations(shipped(*order))) == asked


def runs_on(labels: dict[str, str]) -> bool:
    """Whether the DaemonSet's affinity accepts a node: any term, and all of its expressions."""
    affinity = mapping(
        pod(base()), "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return any(
        all(_holds(expression, labels) for expression in term["matchExpressions"])
        for term in affinity["nodeSelectorTerms"]
    )


def _holds(expression: Json, labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    operator, values = expression["operator"], expression.get("values", [])
    return {"In": value in values, "NotIn": value not in values, "Exists": value is not None}[operator]


GPU_LABELS = {
    "nvidia.com/gpu.present": "true",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    "eks.amazonaws.com/instance-gpu-manufacturer": "nvidia",
    "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
    "karpenter.azure.com/sku-gpu-manufacturer": "nvidia",
    "kubernetes.azure.com/accelerator": "nvidia",
}
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        *(pytest.param({key: value}, True, id=key) for key, value in GPU_LABELS.items()),
        pytest.param({"gpu.scheduler-ext.io/agent": "true"}, True, id="an administrator says so"),
        pytest.param({"gpu.scheduler-ext.io/agent": "maybe"}, False, id="an administrator says something"),
        pytest.param({}, False, id="no sign of a GPU"),
        pytest.param({"nvidia.com/gpu.present": "false"}, False, id="there is none"),
        pytest.param(GPU_LABELS | {"gpu.scheduler-ext.io/agent": "false"}, False, id="not wanted, by either"),
        pytest.param(GPU_LABELS | {"gpu.scheduler-ext.io/agent": "true"}, True, id="wanted"),
        pytest.param(GPU_LABELS | {UPGRADE: "pod-restart-required"}, False, id="its driver is replaced"),
        pytest.param(GPU_LABELS | {UPGRADE: "upgrade-done"}, True, id="its driver was replaced"),
    ],
)
def test_the_nodes_that_agents_run_on(labels: dict[str, str], runs: bool) -> None:
    assert runs_on(labels) is runs


def test_the_extender_knows_which_nodes_the_affinity_leaves_out() -> None:
    """It labels these nodes, unless an administrator has set the label to another value."""
    for label in (*GPU_LABELS, "gpu.scheduler-ext.io/agent", "other"):
        for value in ("true", "false", "nvidia", "x"):
            found = agent_label({label: value})
            assert (found == "brings") is runs_on({label: value})
            lacks_it = not runs_on({label: value}) and label != "gpu.scheduler-ext.io/agent"
            assert (found == "lacks") is lacks_it


def test_another_port_of_the_api_server_is_opened_for_all_who_need_it() -> None:
    """By the patch of docs/tasks/install.md, whose target's name is a whole regular expression."""
    (text,) = blocks(section((ROOT / "docs" / "tasks" / "install.md").read_text(), "## Platforms"), "yaml")
    (patch,) = yaml.safe_load(text)["patches"]
    names = {
        each["metadata"]["name"]
        for each in of_kind(base(), "NetworkPolicy")
        if re.fullmatch(patch["target"]["name"], each["metadata"]["name"])
    }
    assert names == {"gpu-scheduler", "gpu-scheduler-agent"}
