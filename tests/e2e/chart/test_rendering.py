"""The chart's objects are those of kustomize, for every overlay, component and documented patch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import CHART, MANIFESTS, comparable, helm, hooks, installed, kustomized, rendered
from tests.e2e.cluster.binaries import kubernetes_version
from tests.manifests.components import AGENTS
from tests.manifests.objects import Json, containers
from tests.manifests.policy import violations

BASE, SHARES = "base", "overlays/shares"
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
}
EXTENDER = """apiVersion: config.scheduler-ext.io/v1alpha1
kind: ExtenderConfiguration
"""
OWN_CONFIGURATION = {
    "configMapGenerator": [
        {
            "name": "gpu-scheduler-config",
            "namespace": "gpu-scheduler",
            "behavior": "merge",
            "files": ["extender.yaml"],
        }
    ]
}
DIGEST = f"sha256:{'ab' * 32}"


def assert_equal(
    tmp_path: Path, values: Json, kustomization: Json, files: dict[str, str] | None = None
) -> None:
    ours, theirs = installed(tmp_path, values), comparable(kustomized(tmp_path, kustomization, files))
    assert ours.keys() == theirs.keys()
    for key, each in theirs.items():
        assert ours[key] == each


def resource(overlay: str) -> Json:
    return {"resources": ["base" if overlay == "base" else f"overlays/{overlay}"]}


def test_every_overlay_and_every_component_of_agents_is_compared() -> None:
    shipped = {path.name for path in (MANIFESTS / "overlays").iterdir()} - {"kwok-demo"}
    assert OVERLAYS.keys() == {"base"} | shipped
    assert sorted(AGENT_VALUES) == AGENTS


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("monitored", [pytest.param(False, id="alone"), pytest.param(True, id="monitored")])
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
    "components",
    [*(pytest.param([each], id=each) for each in AGENTS), pytest.param(AGENTS, id="all of them together")],
)
def test_equals_the_components_of_agents(tmp_path: Path, components: list[str]) -> None:
    agent = {key: value for each in components for key, value in AGENT_VALUES[each].items()}
    paths = [f"components/{each}" for each in components]
    if "agent-gke" in components:
        # It replaces the security context, so a component after it decides.
        paths.sort(key=lambda path: "agent-gke" not in path)
    assert_equal(tmp_path, {"agent": agent}, {**resource("base"), "components": paths})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_equals_the_component_for_openshift(tmp_path: Path, overlay: str) -> None:
    components = {"components": ["components/openshift"]}
    assert_equal(tmp_path, OVERLAYS[overlay] | {"openshift": True}, {**resource(overlay), **components})


@pytest.mark.parametrize(
    ("values", "kustomization", "files"),
    [
        pytest.param(
            {"authenticationReader": False},
            {"resources": [BASE], "components": ["components/without-kube-system"]},
            {},
            id="nothing in kube-system",
        ),
        pytest.param(
            {"shares": {"enabled": True, "cdi": True}},
            {"resources": [SHARES], "components": ["components/shares-cdi"]},
            {},
            id="shares given by NVIDIA's NRI plugin",
        ),
        pytest.param(
            {"dra": {"deviceTaints": True}},
            {"resources": [BASE], "components": ["components/dra-health"], **OWN_CONFIGURATION},
            {"extender.yaml": f"{EXTENDER}dra: {{deviceTaints: true}}\n"},
            id="taints of sick GPUs",
        ),
        pytest.param(
            {
                "idle": {"reclaim": "evict"},
                "extender": {"config": {"idle": {"reclaim": {"perHour": 2}}}},
            },
            {"resources": [BASE], "components": ["components/idle-reclaim"], **OWN_CONFIGURATION},
            {"extender.yaml": f"{EXTENDER}idle: {{reclaim: {{mode: evict, perHour: 2}}}}\n"},
            id="reclaim of idle GPUs",
        ),
        pytest.param(
            {
                "extender": {
                    "config": {"score": {"strategy": "binpack"}, "filter": {"maxCandidates": 1000000}}
                }
            },
            {"resources": [BASE], **OWN_CONFIGURATION},
            {
                "extender.yaml": f"{EXTENDER}score: {{strategy: binpack}}\n"
                "filter: {maxCandidates: 1000000}\n"
            },
            id="a configuration of one's own",
        ),
        pytest.param(
            {
                "shares": {"enabled": True},
                "extender": {"config": {"score": {"strategy": "binpack"}, "bind": {"deadline": "3s"}}},
            },
            {"resources": [SHARES], **OWN_CONFIGURATION},
            {
                "extender.yaml": f"{EXTENDER}score: {{strategy: binpack}}\n"
                "bind: {enabled: true, deadline: 3s}\n"
            },
            id="a configuration of one's own with shares",
        ),
        pytest.param(
            {
                "image": {"repository": "registry:5000/a", "digest": DIGEST},
                "scheduler": {"image": {"repository": "registry.example.com/b", "tag": "v1.36.1"}},
            },
            {
                "resources": [BASE],
                "images": [
                    {"name": "scheduler-ext", "newName": "registry:5000/a", "digest": DIGEST},
                    {
                        "name": "registry.k8s.io/kube-scheduler",
                        "newName": "registry.example.com/b",
                        "newTag": "v1.36.1",
                    },
                ],
            },
            {},
            id="images of one's own",
        ),
        pytest.param(
            {
                "networkPolicy": {
                    "apiServer": {"cidrs": ["192.0.2.10/32"], "ports": [16443]},
                    "dns": {"ports": []},
                }
            },
            {
                "resources": [BASE],
                "patches": [
                    {
                        "target": {"kind": "NetworkPolicy", "name": "gpu-scheduler(-agent)?"},
                        "patch": "- {op: replace, path: /spec/egress, value:"
                        " [{to: [{ipBlock: {cidr: 192.0.2.10/32}}], ports: [{port: 16443, protocol: TCP}]}]}",
                    }
                ],
            },
            {},
            id="a narrower network policy",
        ),
        pytest.param(
            {
                "standalone": {"enabled": True},
                "networkPolicy": {"prometheus": {"podLabels": {"app.kubernetes.io/name": "vmagent"}}},
            },
            {
                "resources": ["overlays/standalone-mtls"],
                "patches": [
                    {
                        "target": {"kind": "NetworkPolicy", "name": "gpu-scheduler(-extender)?"},
                        "patch": "- {op: replace, path: /spec/ingress/0/from/0/podSelector,"
                        " value: {matchLabels: {app.kubernetes.io/name: vmagent}}}",
                    }
                ],
            },
            {},
            id="another scraper",
        ),
        pytest.param(
            {
                "monitoring": {
                    "enabled": True,
                    "labels": {"release": "kube-prometheus-stack"},
                }
            },
            {
                "resources": [BASE],
                "components": ["components/monitoring"],
                "patches": [
                    {
                        "target": {"group": "monitoring.coreos.com"},
                        "patch": "- {op: add, path: /metadata/labels/release, value: kube-prometheus-stack}",
                    }
                ],
            },
            {},
            id="labels for kube-prometheus-stack",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "schedulerName": "my-scheduler"},
            {
                "resources": [SHARES],
                "configMapGenerator": [
                    OWN_CONFIGURATION["configMapGenerator"][0]
                    | {"files": ["extender.yaml", "kube-scheduler.yaml"]}
                ],
                "patches": [
                    {
                        "target": {
                            "kind": "(Mutating|Validating)AdmissionPolicy",
                            "name": "gpu-scheduler-share(s|-pods)",
                        },
                        "patch": "- {op: replace, path: /spec/variables/0/expression,"
                        " value: \"['my-scheduler']\"}",
                    }
                ],
            },
            {
                "extender.yaml": f"{EXTENDER}bind: {{enabled: true}}\nschedulerNames: [my-scheduler]\n",
                "kube-scheduler.yaml": (MANIFESTS / "components" / "shares" / "kube-scheduler.yaml")
                .read_text()
                .replace("schedulerName: gpu-scheduler", "schedulerName: my-scheduler"),
            },
            id="another name for the scheduler of shares",
        ),
    ],
)
def test_a_value_equals_the_patch_of_kustomize(
    tmp_path: Path, values: Json, kustomization: Json, files: dict[str, str]
) -> None:
    assert_equal(tmp_path, values, kustomization, files)


def test_unchanged_configurations_are_the_shipped_texts(tmp_path: Path) -> None:
    (config,) = (each for each in rendered(tmp_path, {}) if each["kind"] == "ConfigMap")
    shipped = MANIFESTS.parent / "config"
    assert config["data"] == {
        "kube-scheduler.yaml": (shipped / "kube-scheduler.yaml").read_text(),
        "extender.yaml": (shipped / "default.yaml").read_text(),
    }


ALL = {
    **{f"overlay {name}": values for name, values in OVERLAYS.items()},
    "everything that goes together": {
        "standalone": {"enabled": True, "replicas": 3},
        "dra": {"enabled": True, "deviceTaints": True},
        "idle": {"reclaim": "evict"},
        "monitoring": {"enabled": True},
    },
    "another namespace for everything": {"agent": {"namespace": {"name": "gpu-agents"}}},
}


@pytest.mark.parametrize("name", ALL)
def test_keeps_the_policy(tmp_path: Path, name: str) -> None:
    objects = rendered(tmp_path, ALL[name])
    if "namespace" in name:
        # The rules know the agent's namespace by its name.
        text = yaml.safe_dump_all(objects).replace("gpu-agents", "gpu-scheduler-agent")
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
    text = yaml.safe_dump_all(objects)
    assert "serviceaccount:gpu-scheduler:" not in text
    assert "serviceaccount:gpu-scheduler-agent:" not in text
    assert "gpu-scheduler-extender.one.svc:8888" in text
    assert ".gpu-scheduler.svc" not in text
    assert "kubectl -n one port-forward" in json.dumps(objects)
    assert "-n gpu-scheduler " not in json.dumps(objects)
    assert "resourceNamespace: one" in text
    assert "--own-lease=one/gpu-scheduler-extender" in text


def test_lint_finds_nothing(tmp_path: Path) -> None:
    told = helm(
        tmp_path,
        "lint",
        CHART,
        "--strict",
        "--namespace",
        "gpu-scheduler",
        "--kube-version",
        kubernetes_version(),
    )
    assert "0 chart(s) failed" in told
    assert "[WARNING]" not in told
    assert "[ERROR]" not in told


def test_common_labels_are_on_every_object_and_on_no_selector(tmp_path: Path) -> None:
    objects = rendered(
        tmp_path, {"commonLabels": {"team": "gpu", "cost": "42"}, "monitoring": {"enabled": True}}
    )
    lacking = [
        each
        for each in objects
        if not {"team": "gpu", "cost": "42"}.items() <= each["metadata"]["labels"].items()
    ]
    assert lacking == []
    plain = rendered(tmp_path, {"monitoring": {"enabled": True}})
    assert [each.get("spec") for each in objects] == [each.get("spec") for each in plain]


def test_the_package_has_everything(tmp_path: Path) -> None:
    helm(tmp_path, "package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("gpu-scheduler-*.tgz")
    values = {"monitoring": {"enabled": True}}
    assert rendered(tmp_path, values, chart=package) == rendered(tmp_path, values)


def test_two_images_are_named(tmp_path: Path) -> None:
    assert {image["image"] for _, image in containers(rendered(tmp_path, {}))} == {
        "scheduler-ext:0.1.0",
        f"registry.k8s.io/kube-scheduler:{kubernetes_version()}",
    }


def test_no_node_is_labelled_for_agents_that_do_not_run(tmp_path: Path) -> None:
    (config,) = [
        each for each in rendered(tmp_path, {"agent": {"enabled": False}}) if each["kind"] == "ConfigMap"
    ]
    assert yaml.safe_load(config["data"]["extender.yaml"])["inventory"] == {"labelNodes": False}
