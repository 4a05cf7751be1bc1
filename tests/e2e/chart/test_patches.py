"""Values that replace patches of a kustomization give the same objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import MANIFESTS, assert_equal, kustomized, of_chart, rendered
from tests.manifests.objects import Json
from tests.pages import ROOT, blocks

BASE: Json = {"resources": ["base"]}
SHARES: Json = {"resources": ["overlays/shares"]}
EXTENDER = """apiVersion: config.scheduler-ext.io/v1alpha1
kind: ExtenderConfiguration
"""
CONFIG_MAP = {"name": "gpu-scheduler-config", "namespace": "gpu-scheduler", "behavior": "merge"}
OWN_CONFIGURATION: Json = {"configMapGenerator": [CONFIG_MAP | {"files": ["extender.yaml"]}]}
MONITORING = (ROOT / "docs" / "tasks" / "monitoring.md").read_text()
DIGEST = f"sha256:{'ab' * 32}"


# Values, the kustomization, and its files: what can be combined, in one row.
@pytest.mark.parametrize(
    ("values", "kustomization", "files"),
    [
        pytest.param(
            {
                "authenticationReader": False,
                "shares": {"enabled": True, "cdi": True},
                "extender": {"config": {"score": {"strategy": "binpack"}, "bind": {"deadline": "3s"}}},
            },
            SHARES
            | OWN_CONFIGURATION
            | {"components": ["components/without-kube-system", "components/shares-cdi"]},
            {
                "extender.yaml": f"{EXTENDER}score: {{strategy: binpack}}\n"
                "bind: {enabled: true, deadline: 3s}\n"
            },
            id="shares given by NVIDIA's NRI plugin, nothing in kube-system, and a configuration",
        ),
        pytest.param(
            {
                "dra": {"deviceTaints": True},
                "gangs": {"enabled": True},
                "idle": {"reclaim": "evict"},
                "modelAffinity": {"enabled": True},
                "placeholders": {"enabled": True},
                "extender": {"config": {"idle": {"reclaim": {"perHour": 2}}}},
            },
            BASE
            | OWN_CONFIGURATION
            | {
                "components": [
                    f"components/{name}"
                    for name in ("idle-reclaim", "gangs", "dra-health", "model-affinity", "placeholders")
                ]
            },
            {
                "extender.yaml": f"{EXTENDER}idle: {{reclaim: {{mode: evict, perHour: 2}}}}\n"
                "nominate: {gangs: {enabled: true}}\n"
                "autoscaler: {placeholders: {enabled: true}}\n"
                "dra: {deviceTaints: true}\n"
            },
            id="features with rights of their own",
        ),
        pytest.param(
            {
                "image": {"repository": "registry:5000/a", "digest": DIGEST},
                "scheduler": {"image": {"repository": "registry.example.com/b", "tag": "v1.36.1"}},
                "networkPolicy": {
                    "apiServer": {"cidrs": ["192.0.2.10/32"], "ports": [16443]},
                    "dns": {"ports": []},
                    "prometheus": {"podLabels": {"app.kubernetes.io/name": "vmagent"}},
                },
                "monitoring": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
            },
            BASE
            | {
                "components": ["components/monitoring"],
                "images": [
                    {"name": "scheduler-ext", "newName": "registry:5000/a", "digest": DIGEST},
                    {
                        "name": "registry.k8s.io/kube-scheduler",
                        "newName": "registry.example.com/b",
                        "newTag": "v1.36.1",
                    },
                ],
                "patches": [
                    {
                        "target": {"kind": "NetworkPolicy", "name": "gpu-scheduler(-agent)?"},
                        "patch": "- {op: replace, path: /spec/egress, value:"
                        " [{to: [{ipBlock: {cidr: 192.0.2.10/32}}], ports: [{port: 16443, protocol: TCP}]}]}",
                    },
                    {
                        "target": {"kind": "NetworkPolicy", "name": "gpu-scheduler"},
                        "patch": "- {op: replace, path: /spec/ingress/0/from/0/podSelector,"
                        " value: {matchLabels: {app.kubernetes.io/name: vmagent}}}",
                    },
                    {
                        "target": {"group": "monitoring.coreos.com"},
                        "patch": "- {op: add, path: /metadata/labels/release, value: kube-prometheus-stack}",
                    },
                ],
            },
            {},
            id="images, a narrower network policy, another scraper, and its labels",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "schedulerName": "my-scheduler"},
            SHARES
            | {
                "configMapGenerator": [CONFIG_MAP | {"files": ["extender.yaml", "kube-scheduler.yaml"]}],
                "patches": [
                    {
                        "target": {
                            "kind": "(Mutating|Validating)AdmissionPolicy",
                            "name": "gpu-scheduler-(share(s|-pods)|nominations-only)",
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
        pytest.param(
            {
                "extender": {
                    "config": {
                        "resources": {"wholeGpu": ["nvidia.com/gpu", "example.com/gpu"]},
                        "schedulerNames": ["gpu-scheduler", "other"],
                    }
                },
                "modelAffinity": {"enabled": True},
            },
            BASE
            | OWN_CONFIGURATION
            | {
                "components": ["components/model-affinity"],
                "patches": [
                    {
                        "target": {
                            "kind": "(Validating|Mutating)AdmissionPolicy",
                            "name": "gpu-scheduler-(nominations-only|model-affinity)",
                        },
                        "patch": "- {op: replace, path: /spec/variables/0/expression,"
                        " value: \"['gpu-scheduler', 'other']\"}",
                    },
                    {
                        "target": {
                            "kind": "MutatingAdmissionPolicy",
                            "name": "gpu-scheduler-model-affinity",
                        },
                        "patch": "- {op: replace, path: /spec/variables/1/expression, value:"
                        " \"['nvidia.com/gpu', 'example.com/gpu', 'gpu.scheduler-ext.io/memory-mib']\"}",
                    },
                ],
            },
            {
                "extender.yaml": f"{EXTENDER}schedulerNames: [gpu-scheduler, other]\n"
                "resources: {wholeGpu: [nvidia.com/gpu, example.com/gpu]}\n"
            },
            id="a further scheduler that uses the extender, and a resource of its own",
        ),
    ],
)
def test_a_value_equals_the_patch_of_kustomize(
    tmp_path: Path, values: Json, kustomization: Json, files: dict[str, str]
) -> None:
    assert_equal(tmp_path, values, kustomization, files)


def test_the_alert_and_the_panel_about_replicas_have_their_number(tmp_path: Path) -> None:
    """As the kustomization on the page about monitoring has it."""
    objects = rendered(tmp_path, {"scheduler": {"replicas": 3}, "monitoring": {"enabled": True}})
    (shown,) = (text for text in blocks(MONITORING, "yaml") if "GPUExtenderReplicaDown" in text)
    theirs = kustomized(tmp_path, yaml.safe_load(shown.replace("../manifests/", "")))
    ours, patched = (
        of_chart(each, "PrometheusRule")["spec"]["groups"][0]["rules"][1] for each in (objects, theirs)
    )
    assert ours["expr"] == patched["expr"] == "sum by (cluster) (gpu_extender_ready) < 3"
    (board,) = (each for each in objects if each["metadata"]["name"] == "gpu-scheduler-dashboard")
    panels = json.loads(board["data"]["dashboard.json"])["panels"]
    (panel,) = (each for each in panels if each["title"] == "Ready replicas")
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1] == {"value": 3, "color": "green"}
