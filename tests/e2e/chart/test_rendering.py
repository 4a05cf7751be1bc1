"""The chart's objects are those of kustomize, for every overlay and component."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import (
    CHART,
    assert_equal,
    comparable,
    helm,
    hooks,
    installed,
    kustomized,
    rendered,
)
from tests.e2e.cluster.binaries import SHIPPED_MINOR, kubernetes_version
from tests.manifests.objects import Json, of_kind, pods
from tests.manifests.policy import violations
from tests.manifests.shipped import AGENTS

OVERLAYS: dict[str, Json] = {
    "base": {},
    "shares": {"shares": {"enabled": True}},
    "standalone-mtls": {"standalone": {"enabled": True}},
    "dra": {"dra": {"enabled": True}},
}
AGENT_VALUES: dict[str, Json] = {
    "agent-gke": {"hostDriver": "/home/kubernetes/bin/nvidia"},
    "agent-host-processes": {"hostProcesses": True},
    "agent-mig": {"mig": True},
    "agent-runtime-class": {"runtimeClassName": "nvidia"},
    "agent-volume-mounts": {"volumeMounts": True},
    "dcgm-exporter": {"dcgmExporter": "http://$(HOST_IP):9400/metrics"},
}


def resource(overlay: str) -> Json:
    return {"resources": ["base" if overlay == "base" else f"overlays/{overlay}"]}


@pytest.mark.parametrize(
    ("overlay", "monitored"),
    [("base", False), *(pytest.param(overlay, True, id=f"{overlay}, monitored") for overlay in OVERLAYS)],
)
def test_equals_the_overlay(tmp_path: Path, overlay: str, monitored: bool) -> None:
    components = ["components/monitoring"] if monitored else []
    values = OVERLAYS[overlay] | {"monitoring": {"enabled": monitored}}
    ours = installed(tmp_path, values)
    theirs = comparable(kustomized(tmp_path, {**resource(overlay), "components": components}))
    if overlay == "standalone-mtls":
        # A component of kustomize does not know beside which overlay it is.
        access = "port-forward deployment/gpu-scheduler"
        objects = json.dumps(list(theirs.values())).replace(f"{access} ", f"{access}-extender ")
        theirs = dict(zip(theirs, json.loads(objects), strict=True))
    assert ours == theirs


@pytest.mark.parametrize(
    "components", [["agent-gke", "dcgm-exporter"], AGENTS], ids=["GKE", "all of them together"]
)
def test_equals_the_components_of_agents(tmp_path: Path, components: list[str]) -> None:
    agent = {key: value for each in components for key, value in AGENT_VALUES[each].items()}
    # GKE's component replaces the security context, so a component after it decides.
    paths = [f"components/{each}" for each in sorted(components, key=lambda name: name != "agent-gke")]
    assert_equal(tmp_path, {"agent": agent}, {**resource("base"), "components": paths})


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("http://dcgm.monitoring:9401/metrics", 9401),
        ("http://dcgm.monitoring/metrics", 80),
        ("https://dcgm.monitoring", 443),
    ],
)
def test_agents_may_connect_to_the_port_of_a_dcgm_exporter(tmp_path: Path, address: str, port: int) -> None:
    objects = rendered(tmp_path, {"agent": {"dcgmExporter": address}})
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "NetworkPolicy")}
    assert policies["gpu-scheduler-agent"]["egress"][-1] == {"ports": [{"port": port, "protocol": "TCP"}]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_on_openshift_it_equals_the_component_and_every_pod_has_a_constraint(
    tmp_path: Path, overlay: str
) -> None:
    values = OVERLAYS[overlay] | {"openshift": True}
    ours = installed(tmp_path, values)
    theirs = kustomized(tmp_path, {**resource(overlay), "components": ["components/openshift"]})
    assert ours == comparable(theirs)
    objects = list(ours.values())
    granted = {
        (subject["namespace"], subject["name"])
        for binding in of_kind(objects, "RoleBinding")
        if binding["roleRef"]["name"].startswith("system:openshift:scc:")
        for subject in binding["subjects"]
        if subject["namespace"] == binding["metadata"]["namespace"]
    }
    running = {
        (each["metadata"]["namespace"], spec["serviceAccountName"])
        for each in of_kind(objects, "Deployment", "DaemonSet")
        for _, spec in pods([each])
    }
    assert running <= granted


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(
            {
                "standalone": {"enabled": True, "replicas": 3},
                "dra": {"enabled": True, "deviceTaints": True},
                "idle": {"reclaim": "evict"},
                "monitoring": {"enabled": True},
                "placeholders": {"enabled": True},
                "gangs": {"enabled": True},
                "modelAffinity": {"enabled": True},
            },
            id="everything that goes together",
        ),
        pytest.param({"agent": {"namespace": {"name": "gpu-agents"}}}, id="another namespace"),
    ],
)
def test_keeps_the_policy(tmp_path: Path, values: Json) -> None:
    # The rules know the agent's namespace by its name.
    text = yaml.safe_dump_all(rendered(tmp_path, values)).replace("gpu-agents", "gpu-scheduler-agent")
    objects = list(yaml.safe_load_all(text))
    assert hooks(objects)
    assert violations(objects) == []


def test_names_no_other_namespace_than_the_given_ones(tmp_path: Path) -> None:
    values = {
        "agent": {"namespace": {"name": "two"}},
        "standalone": {"enabled": True},
        "monitoring": {"enabled": True},
    }
    objects = rendered(tmp_path, values, namespace="one")
    namespaces = {each["metadata"].get("namespace") for each in objects}
    assert namespaces == {"one", "two", "kube-system", None}
    accounts = {
        (subject["name"], subject["namespace"]) for each in objects for subject in each.get("subjects", ())
    }
    assert accounts == {
        ("gpu-scheduler", "one"),
        ("gpu-scheduler-extender", "one"),
        ("gpu-scheduler-agent", "two"),
    }
    # Addresses, leases and commands within texts.
    text = json.dumps(objects)
    for other in (".gpu-scheduler.svc", "-n gpu-scheduler ", "serviceaccount:gpu-scheduler"):
        assert other not in text
    assert "resourceNamespace: one" in text
    assert "--own-lease=one/gpu-scheduler-extender" in text


def test_lint_finds_nothing(tmp_path: Path) -> None:
    release = ("--kube-version", kubernetes_version(SHIPPED_MINOR))
    told = helm(tmp_path, "lint", CHART, "--strict", "--namespace", "gpu-scheduler", *release)
    assert "0 chart(s) failed" in told
    assert "[WARNING]" not in told
    assert "[ERROR]" not in told


def test_common_labels_are_on_every_object_and_on_no_selector(tmp_path: Path) -> None:
    labels = {"team": "gpu", "cost": "42"}
    objects = rendered(tmp_path, {"commonLabels": labels, "monitoring": {"enabled": True}})
    assert [each for each in objects if not labels.items() <= each["metadata"]["labels"].items()] == []
    plain = rendered(tmp_path, {"monitoring": {"enabled": True}})
    assert [each.get("spec") for each in objects] == [each.get("spec") for each in plain]


def test_the_package_has_everything(tmp_path: Path) -> None:
    helm(tmp_path, "package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("gpu-scheduler-*.tgz")
    values = {"monitoring": {"enabled": True}}
    assert rendered(tmp_path, values, chart=package) == rendered(tmp_path, values)
