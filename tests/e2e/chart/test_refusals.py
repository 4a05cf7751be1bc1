"""Values that the chart refuses, with a message that names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import CHART, NAMESPACE, HelmError, rendered
from tests.manifests.objects import Json


def refusal(tmp_path: Path, values: Json, version: str | None = None, namespace: str = NAMESPACE) -> str:
    with pytest.raises(HelmError) as refused:
        rendered(tmp_path, values, version, namespace)
    return str(refused.value)


def test_values_of_another_form_are_refused_with_their_names(tmp_path: Path) -> None:
    """By the schema, all at once."""
    told = refusal(
        tmp_path,
        {
            "scheduler": {"replica": 3, "replicas": 0},
            "agent": {"enabled": "yes"},
            "image": {"digest": "sha256:1"},
            # A policy would read this as every port.
            "networkPolicy": {"apiServer": {"ports": []}},
            "schedulerName": "default-scheduler",
            "extender": {
                "config": {
                    "filter": {"maxCandidate": 5},
                    "score": {"strategy": "bestfit"},
                    "inventory": {"staleAfter": "5 minutes"},
                    "server": None,
                }
            },
        },
    )
    for named in (
        "'/scheduler': additional properties 'replica'",
        "/scheduler/replicas",
        "/agent/enabled",
        "/image/digest",
        "/networkPolicy/apiServer/ports",
        "/schedulerName",
        "'/extender/config/filter': additional properties 'maxCandidate'",
        "/extender/config/score/strategy",
        "'/extender/config/inventory/staleAfter': '5 minutes' does not match pattern '^([0-9]+",
        "'/extender/config/server': got null, want object",
    ):
        assert named in told


SHARED: Json = {"shares": {"enabled": True}}
GANGS: Json = {"gangs": {"enabled": True}}


def configured(**sections: Json) -> Json:
    return {"extender": {"config": sections}}


# What is said about values.
REFUSED: list[tuple[str, Json]] = [
    ("agent.namespace.name", {"agent": {"namespace": {"name": "gpu-scheduler"}}}),
    # Its other pods would lose their traffic.
    ("agent.namespace.name: not kube-system", {"agent": {"namespace": {"name": "kube-system"}}}),
    (
        "commonLabels: app.kubernetes.io/name belongs to the chart",
        {"commonLabels": {"app.kubernetes.io/name": "gpu"}},
    ),
    ("standalone.enabled: not with shares.enabled", SHARED | {"standalone": {"enabled": True}}),
    ("dra.enabled: not with shares.enabled", SHARED | {"dra": {"enabled": True}}),
    ("extender.config.bind.enabled: set shares.enabled", configured(bind={"enabled": True})),
    (
        "idle.reclaim.mode: set idle.reclaim, which also grants the rights",
        configured(idle={"reclaim": {"mode": "dry-run"}}),
    ),
    ("extender.config.schedulerNames: lacks", {"extender": {"config": {"schedulerNames": ["other"]}}}),
    ("nominate.enabled: not false with gangs", GANGS | configured(nominate={"enabled": False})),
    ("shares.cdi: only with", {"shares": {"cdi": True}}),
    (
        "scheduler.config: its extender needs bindVerb",
        SHARED | {"scheduler": {"config": {"extenders": [{"filterVerb": "filter"}]}}},
    ),
    (
        "scheduler.config: its extender needs bindVerb",
        {"scheduler": {"config": {"extenders": [{"bindVerb": "bind"}]}}},
    ),
    (
        "scheduler.managedResources: not with",
        {"scheduler": {"config": {"extenders": []}, "managedResources": ["example.com/gpu"]}},
    ),
    (
        "extender.config.server.readTimeout: 5m30s is outside 100ms to 5m",
        configured(server={"readTimeout": "5m30s"}),
    ),
    (
        "extender.config.server.decisionDeadline: 9ms is outside 10ms to 1m",
        configured(server={"decisionDeadline": "9ms"}),
    ),
    (
        "extender.config.inventory.missingAfter: must be later than staleAfter",
        configured(inventory={"staleAfter": "10m"}),
    ),
    (
        "extender.config.score.weights.healthy: no such score; there are balance",
        configured(score={"weights": {"healthy": 1}}),
    ),
    (
        "scheduler.image.tag: v1.36 is no tag of registry.k8s.io/kube-scheduler",
        {"scheduler": {"image": {"tag": "v1.36"}}},
    ),
]
# The same for clusters of a version.
OF_CLUSTERS: list[tuple[str, Json, str]] = [
    ("requires kubeVersion: >=1.31.0-0", {}, "1.30.14"),
    ("shares.enabled: memory shares need Kubernetes 1.36", SHARED, "1.35.4-eks-1a2b3c"),
    ("gangs.enabled: the policy that holds pods back needs Kubernetes 1.36", GANGS, "1.35.4"),
    ("modelAffinity.enabled: the policy", {"modelAffinity": {"enabled": True}}, "1.35.4"),
    ("needs Kubernetes 1.34", {"dra": {"enabled": True}}, "1.33.13"),
    ("needs Kubernetes 1.34", {"dra": {"deviceTaints": True}}, "1.33.13"),
    # Of a vendor that numbers releases of its own, after the minor releases that the chart knows.
    ("scheduler.image.tag: set it, because registry.k8s.io has no release 1.38.100", {}, "v1.38.100"),
]
ROWS = [*((*row, None) for row in REFUSED), *OF_CLUSTERS]


@pytest.mark.parametrize(("said", "values", "version"), ROWS, ids=[said for said, *_ in ROWS])
def test_a_wrong_value_is_refused_with_its_name(
    tmp_path: Path, said: str, values: Json, version: str | None
) -> None:
    assert said in refusal(tmp_path, values, version)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_namespace_of_others_is_refused(tmp_path: Path, namespace: str) -> None:
    assert f"namespace {namespace}: the scheduler needs" in refusal(tmp_path, {}, namespace=namespace)


def test_values_at_their_bounds_are_taken(tmp_path: Path) -> None:
    """And the tag of a registry of one's own."""
    config = {
        "inventory": {"staleAfter": "1s", "missingAfter": "24h"},
        "server": {"decisionDeadline": "10ms", "gracefulTimeout": "0.5s", "readTimeout": "4m60s"},
    }
    image = {"repository": "registry.example.com/kube-scheduler", "tag": "1.36.3"}
    objects = rendered(tmp_path, configured(**config) | {"scheduler": {"image": image}})
    (written,) = (each["data"] for each in objects if each["kind"] == "ConfigMap")
    assert yaml.safe_load(written["extender.yaml"]).items() >= config.items()


def nulls(schema: Json, depth: int) -> Json:
    """The values of a depth as null."""
    if depth == 1:
        return dict.fromkeys(key for key in schema["properties"] if key != "global")
    sections = {key: each for key, each in schema["properties"].items() if each.get("properties")}
    found = {key: nulls(each, depth - 1) for key, each in sections.items()}
    return {key: each for key, each in found.items() if each}


def missing(values: Json, where: str = "") -> Iterator[tuple[str, str]]:
    for key, each in values.items():
        if each is None:
            yield where, key
        else:
            yield from missing(each, f"{where}/{key}")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_null_is_refused_with_the_name_of_the_value(tmp_path: Path, depth: int) -> None:
    """Also a section whose lines are all comments is null. Helm removes the default."""
    values = nulls(json.loads((CHART / "values.schema.json").read_text()), depth)
    told = re.findall(r"at '(\S*)': missing (?:property|properties) (.*)", refusal(tmp_path, values))
    expected = sorted(missing(values))
    assert len(expected) >= 10
    assert (
        sorted((where, name) for where, names in told for name in re.findall(r"'(\w+)'", names)) == expected
    )
