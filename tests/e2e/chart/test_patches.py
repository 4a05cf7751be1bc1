"""Values that replace patches of a kustomization give the same objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import MANIFESTS, assert_equal, kustomized, of_chart, rendered
from tests.manifests.objects import Json
from tests.pages import ROOT, blocks

BASE, SHARES = "base", "overlays/shares"
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
MONITORING = (ROOT / "docs" / "tasks" / "monitoring.md").read_text()
DIGEST = f"sha256:{'ab' * 32}"


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
                "planner": {"enabled": True},
                "gangs": {"enabled": True},
                "idle": {"reclaim": "evict"},
            },
            {
                "resources": [BASE],
                "components": [
                    "components/planner",
                    "components/idle-reclaim",
                    "components/gangs",
                ],
                **OWN_CONFIGURATION,
            },
            {
                "extender.yaml": f"{EXTENDER}idle: {{reclaim: {{mode: evict}}}}\n"
                "nominate: {enabled: true, gangs: {enabled: true}}\n"
            },
            id="gangs beside reclaim",
        ),
        pytest.param(
            {"placeholders": {"enabled": True}},
            {"resources": [BASE], "components": ["components/placeholders"], **OWN_CONFIGURATION},
            {"extender.yaml": f"{EXTENDER}autoscaler: {{placeholders: {{enabled: true}}}}\n"},
            id="placeholders for an autoscaler",
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


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"scheduler": {"replicas": 3}}, id="sidecars"),
        pytest.param({"standalone": {"enabled": True, "replicas": 3}}, id="standalone extenders"),
    ],
)
def test_the_alert_and_the_panel_about_replicas_have_their_number(tmp_path: Path, values: Json) -> None:
    """As the kustomization on the page about monitoring has it."""
    objects = rendered(tmp_path, {**values, "monitoring": {"enabled": True}})
    (shown,) = (text for text in blocks(MONITORING, "yaml") if "GPUExtenderReplicaDown" in text)
    kustomization = yaml.safe_load(shown.replace("../manifests/", ""))
    theirs = kustomized(tmp_path, kustomization)
    assert of_chart(theirs, "Deployment")["spec"]["replicas"] == 3
    ours, patched = (
        of_chart(each, "PrometheusRule")["spec"]["groups"][0]["rules"][1] for each in (objects, theirs)
    )
    assert ours["expr"] == "sum by (cluster) (gpu_extender_ready) < 3"
    assert {key: ours[key] for key in ("alert", "expr")} == {key: patched[key] for key in ("alert", "expr")}
    assert ours["annotations"]["summary"] == patched["annotations"]["summary"]
    (board,) = (each for each in objects if each["metadata"]["name"] == "gpu-scheduler-dashboard")
    (panel,) = (each for each in panels(board) if each["title"] == "Ready replicas")
    assert "Green from 3 on" in panel["description"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1] == {"value": 3, "color": "green"}


def panels(board: Json) -> list[Json]:
    found: list[Json] = json.loads(board["data"]["dashboard.json"])["panels"]
    return found
