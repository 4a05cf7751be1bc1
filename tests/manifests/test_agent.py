"""Nodes with agents, and the rights that each component adds to the base."""

from __future__ import annotations

import itertools
import re

import pytest
import yaml

from scheduler_ext.core.node.node_labels import agent_label
from tests.manifests.components import AGENTS, ASKED, operations, patched, with_components
from tests.manifests.objects import Json, mapping, of_kind
from tests.manifests.policy import violations
from tests.manifests.shipped import base
from tests.pages import ROOT, blocks, rows, section


def pod(objects: list[Json]) -> Json:
    (daemon_set,) = of_kind(objects, "DaemonSet")
    return mapping(daemon_set, "spec", "template", "spec")


def container(objects: list[Json]) -> Json:
    (found,) = pod(objects)["containers"]
    return dict(found)


def lacks(component: str, objects: list[Json]) -> list[str]:
    """Parts that only the component has."""
    spec, agent = pod(objects), container(objects)
    context, environment = agent["securityContext"], {each["name"]: each for each in agent["env"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in agent["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    holds = {
        "agent-runtime-class": {"runtimeClassName": spec.get("runtimeClassName") == "nvidia"},
        "agent-volume-mounts": {
            "all GPUs": paths.get(mounts.get("/var/run/nvidia-container-devices/all", "")) == "/dev/null"
        },
        "agent-host-processes": {"hostPID": spec.get("hostPID") is True},
        "agent-mig": {
            "SYS_ADMIN": "SYS_ADMIN" in context.get("capabilities", {}).get("add", ())
            or context.get("privileged") is True,
            "escalation": context.get("allowPrivilegeEscalation") is not False,
            "NVIDIA_MIG_MONITOR_DEVICES": "NVIDIA_MIG_MONITOR_DEVICES" in environment,
        },
        "agent-gke": {
            "privileged": context.get("privileged") is True,
            "escalation": context.get("allowPrivilegeEscalation") is not False,
            "library": "--nvml-library=/usr/local/nvidia/lib64/libnvidia-ml.so.1" in agent["args"],
            "driver": paths.get(mounts.get("/usr/local/nvidia", "")) == "/home/kubernetes/bin/nvidia",
            "devices": paths.get(mounts.get("/dev", "")) == "/dev",
        },
    }
    always = {
        # kubelet's socket is root's.
        "root": (context.get("runAsUser"), context.get("runAsGroup")) == (0, 0),
        "read-only": context.get("readOnlyRootFilesystem") is True,
    }
    return [what for what, is_so in {**holds[component], **always}.items() if not is_so]


@pytest.mark.parametrize("component", AGENTS)
def test_a_component_makes_the_documented_requests(component: str) -> None:
    objects = with_components(component)
    assert set(violations(objects)) == ASKED[component]
    assert lacks(component, objects) == []
    assert lacks(component, base()) != []


@pytest.mark.parametrize(
    "pair", list(itertools.permutations(AGENTS, 2)), ids=lambda pair: " then ".join(pair)
)
def test_two_components_in_any_order_are_both_there(pair: tuple[str, str]) -> None:
    objects = with_components(*pair)
    assert set(violations(objects)) == ASKED[pair[0]] | ASKED[pair[1]]
    assert [lacks(component, objects) for component in pair] == [[], []]


@pytest.mark.process
def test_all_components_together() -> None:
    for order in itertools.permutations(AGENTS):
        objects = with_components(*order)
        assert [lacks(component, objects) for component in order] == [[]] * len(AGENTS)


@pytest.mark.parametrize(
    ("component", "left_out"),
    [
        pytest.param(
            component, number, id=f"{component}: {operation['path'].rpartition('spec/')[2]}, {number}"
        )
        for component in AGENTS
        for number, operation in enumerate(operations(component))
    ],
)
def test_every_line_of_a_component_is_missed(component: str, left_out: int) -> None:
    changes = operations(component)
    del changes[left_out]
    assert lacks(component, patched(changes)) != []


def test_the_page_lists_the_components() -> None:
    table = section((ROOT / "docs" / "tasks" / "agent.md").read_text(), "## Where the driver is")
    assert sorted(re.findall(r"^\| `(agent-[a-z-]+)`", table, re.MULTILINE)) == AGENTS


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
        pytest.param(
            {"gpu.scheduler-ext.io/agent": "true", UPGRADE: "pod-restart-required"},
            False,
            id="an administrator says so, and its driver is replaced",
        ),
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


@pytest.mark.parametrize("value", ["true", "false", "nvidia", "x"])
@pytest.mark.parametrize("label", [*GPU_LABELS, "gpu.scheduler-ext.io/agent", "other"])
def test_the_extender_knows_which_nodes_the_affinity_leaves_out(label: str, value: str) -> None:
    """It labels these nodes, unless an administrator has set the label to another value."""
    found = agent_label({label: value})
    assert (found == "brings") is runs_on({label: value})
    assert (found == "lacks") is (not runs_on({label: value}) and label != "gpu.scheduler-ext.io/agent")


def test_the_page_names_the_labels() -> None:
    table = section((ROOT / "docs" / "tasks" / "agent.md").read_text(), "## Which nodes")
    named = [row[0].strip("`").partition("=") for row in rows(table)]
    terms = mapping(
        pod(base()), "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )["nodeSelectorTerms"]
    chosen = [term["matchExpressions"][0] for term in terms]
    assert [(key, [value] if value else []) for key, _, value in named] == [
        (each["key"], each.get("values", [])) for each in chosen
    ]


def test_the_page_takes_agents_off_a_node_by_that_label() -> None:
    text = (ROOT / "docs" / "tasks" / "agent.md").read_text()
    assert "kubectl label node NODE gpu.scheduler-ext.io/agent=false" in text
    assert not runs_on(GPU_LABELS | {"gpu.scheduler-ext.io/agent": "false"})


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
