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


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param(
            {"scheduler": {"replica": 3}},
            "'/scheduler': additional properties 'replica'",
            id="a misspelt value",
        ),
        pytest.param({"agent": {"enabled": "yes"}}, "/agent/enabled", id="a text in place of a switch"),
        pytest.param({"scheduler": {"replicas": 0}}, "/scheduler/replicas", id="no replica"),
        pytest.param({"image": {"digest": "sha256:1"}}, "/image/digest", id="a digest that is none"),
        pytest.param(
            {"networkPolicy": {"apiServer": {"ports": []}}},
            "/networkPolicy/apiServer/ports",
            id="no port of the API server, which a policy would read as every port",
        ),
        pytest.param(
            {"extender": {"config": {"filter": {"maxCandidate": 5}}}},
            "'/extender/config/filter': additional properties 'maxCandidate'",
            id="a misspelt key of the extender's configuration",
        ),
        pytest.param(
            {"extender": {"config": {"score": {"strategy": "bestfit"}}}},
            "/extender/config/score/strategy",
            id="an unknown strategy",
        ),
        pytest.param(
            {"schedulerName": "default-scheduler"}, "/schedulerName", id="the name of the default scheduler"
        ),
        pytest.param(
            {"agent": {"namespace": {"name": "gpu-scheduler"}}},
            "agent.namespace.name",
            id="one namespace for all",
        ),
        pytest.param(
            {"agent": {"namespace": {"name": "kube-system"}}},
            "agent.namespace.name: not kube-system",
            id="agents in a namespace whose other pods would lose their traffic",
        ),
        pytest.param(
            {"commonLabels": {"app.kubernetes.io/name": "gpu"}},
            "commonLabels: app.kubernetes.io/name belongs to the chart",
            id="a label by which the chart finds its own pods",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "standalone": {"enabled": True}},
            "standalone.enabled: not with shares.enabled",
            id="shares with a standalone extender",
        ),
        pytest.param(
            {"shares": {"enabled": True}, "dra": {"enabled": True}},
            "dra.enabled: not with shares.enabled",
            id="shares with claims",
        ),
        pytest.param(
            {"extender": {"config": {"bind": {"enabled": True}}}},
            "extender.config.bind.enabled: set shares.enabled",
            id="an extender that binds without the rights of shares",
        ),
        pytest.param(
            {"extender": {"config": {"idle": {"reclaim": {"mode": "dry-run"}}}}},
            "idle.reclaim.mode: set idle.reclaim, which also grants the rights",
            id="an extender that reclaims without the rights",
        ),
        pytest.param(
            {"extender": {"config": {"schedulerNames": ["other"]}}},
            "extender.config.schedulerNames: lacks",
            id="an extender that does not know its scheduler",
        ),
        pytest.param(
            {"gangs": {"enabled": True}}, "gangs.enabled: only with", id="gangs without the planner"
        ),
        pytest.param(
            {"shares": {"cdi": True}}, "shares.cdi: only with", id="devices of shares without shares"
        ),
        pytest.param(
            {"shares": {"enabled": True}, "scheduler": {"config": {"extenders": [{"filterVerb": "filter"}]}}},
            "scheduler.config: its extender needs bindVerb",
            id="shares that kube-scheduler would bind itself",
        ),
        pytest.param(
            {"scheduler": {"config": {"extenders": [{"bindVerb": "bind"}]}}},
            "scheduler.config: its extender needs bindVerb",
            id="a bind that the extender would refuse",
        ),
        pytest.param(
            {"scheduler": {"config": {"extenders": []}, "managedResources": ["example.com/gpu"]}},
            "scheduler.managedResources: not with",
            id="resources for a configuration that lists its own",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(tmp_path: Path, values: Json, named: str) -> None:
    assert named in refusal(tmp_path, values)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_namespace_of_others_is_refused(tmp_path: Path, namespace: str) -> None:
    assert f"namespace {namespace}: the scheduler needs" in refusal(tmp_path, {}, namespace=namespace)


def test_kubernetes_before_1_31_is_refused(tmp_path: Path) -> None:
    assert "requires kubeVersion: >=1.31.0-0" in refusal(tmp_path, {}, version="1.30.14")


@pytest.mark.parametrize(
    ("values", "version", "named"),
    [
        pytest.param(
            {"shares": {"enabled": True}},
            "1.35.4-eks-1a2b3c",
            "shares.enabled: memory shares need Kubernetes 1.36",
            id="shares",
        ),
        pytest.param(
            {"planner": {"enabled": True}, "gangs": {"enabled": True}},
            "1.35.4",
            "gangs.enabled: the policy that holds pods back needs Kubernetes 1.36",
            id="gangs",
        ),
        pytest.param({"dra": {"enabled": True}}, "1.33.13", "needs Kubernetes 1.34", id="claims"),
        pytest.param({"dra": {"deviceTaints": True}}, "1.33.13", "needs Kubernetes 1.34", id="taints"),
    ],
)
def test_what_the_cluster_is_too_old_for_is_refused(
    tmp_path: Path, values: Json, version: str, named: str
) -> None:
    assert named in refusal(tmp_path, values, version)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        pytest.param(
            {"inventory": {"staleAfter": "5 minutes"}},
            "'/extender/config/inventory/staleAfter': '5 minutes' does not match pattern '^([0-9]+",
            id="words in place of a duration",
        ),
        pytest.param(
            {"server": {"readTimeout": "5m30s"}},
            "extender.config.server.readTimeout: 5m30s is outside 100ms to 5m",
            id="a duration of two parts above its bound",
        ),
        pytest.param(
            {"server": {"decisionDeadline": "9ms"}},
            "extender.config.server.decisionDeadline: 9ms is outside 10ms to 1m",
            id="a duration below its bound",
        ),
        pytest.param(
            {"inventory": {"staleAfter": "10m"}},
            "extender.config.inventory.missingAfter: must be later than staleAfter",
            id="a report that would be missing before it is stale",
        ),
        pytest.param(
            {"score": {"weights": {"healthy": 1}}},
            "extender.config.score.weights.healthy: no such score; there are balance",
            id="the weight of a score that does not exist",
        ),
        pytest.param(
            {"inventory": None}, "'/extender/config/inventory': got null, want object", id="an empty section"
        ),
    ],
)
def test_a_configuration_that_the_extender_would_refuse_is_refused(
    tmp_path: Path, config: Json, named: str
) -> None:
    assert named in refusal(tmp_path, {"extender": {"config": config}})


def test_the_longest_and_the_shortest_durations_are_taken(tmp_path: Path) -> None:
    config = {
        "inventory": {"staleAfter": "1s", "missingAfter": "24h"},
        "server": {"decisionDeadline": "10ms", "gracefulTimeout": "0.5s", "readTimeout": "4m60s"},
    }
    objects = rendered(tmp_path, {"extender": {"config": config}})
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


def test_a_release_that_no_registry_has_needs_a_tag(tmp_path: Path) -> None:
    """Of a vendor that numbers releases of its own, after the minor releases that the chart knows."""
    told = refusal(tmp_path, {}, version="v1.38.100")
    assert "scheduler.image.tag: set it, because registry.k8s.io has no release 1.38.100" in told


@pytest.mark.parametrize("tag", ["1.36.3", "v1.36", "latest"])
def test_a_tag_that_kubernetes_registry_does_not_have_is_refused(tmp_path: Path, tag: str) -> None:
    told = refusal(tmp_path, {"scheduler": {"image": {"tag": tag}}})
    assert f"scheduler.image.tag: {tag} is no tag of registry.k8s.io/kube-scheduler" in told
    assert "such as v1.36.3" in told


def test_a_registry_of_ones_own_may_have_other_tags(tmp_path: Path) -> None:
    image = {"repository": "registry.example.com/kube-scheduler", "tag": "1.36.3"}
    assert rendered(tmp_path, {"scheduler": {"image": image}})
