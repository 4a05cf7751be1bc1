"""Objects that are no workloads, and the page about each."""

from __future__ import annotations

import pytest

from scheduler_ext.feature import installed
from scheduler_ext.wire.kind_pages import page_about
from tests.pages import ROOT

SHARING = "docs/concepts/README.md#sharing-modes"
TIME_SLICED = (
    "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
)


@pytest.mark.parametrize(
    ("api_version", "kind", "page"),
    [
        ("v1", "ResourceQuota", "docs/reference/cli.md#explain"),
        ("v1", "LimitRange", "docs/tasks/shares.md#quotas"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "docs/tasks/scale-on-gpu-metrics.md"),
        ("keda.sh/v1alpha1", "ScaledObject", "docs/tasks/scale-on-gpu-metrics.md"),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue", "docs/tasks/kueue.md"),
        ("nvidia.com/v1", "ClusterPolicy", "docs/tasks/platforms/README.md#the-gpu-operator"),
        ("resource.k8s.io/v1", "ResourceClaimTemplate", "docs/tasks/dra.md"),
        ("resource.k8s.io/v1beta1", "ResourceSlice", "docs/tasks/dra.md"),
        ("resource.nvidia.com/v1beta1", "ComputeDomain", "docs/tasks/dra.md"),
        ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", None),
        ("scheduling.k8s.io/v1", "PriorityClass", None),
        ("kyverno.io/v1", "ClusterPolicy", None),
        ("hypershift.openshift.io/v1beta1", "NodePool", None),
    ],
)
def test_the_page_follows_from_the_group_and_the_kind(api_version: str, kind: str, page: str | None) -> None:
    assert page_about(api_version, kind, "name", {}) == page

    assert page is None or (ROOT / page.partition("#")[0]).is_file()


def test_features_have_pages_of_their_own() -> None:
    for feature in installed():
        for key, page in feature.pages.items():
            group, _, kind = key.partition("/")
            kind, _, name = kind.partition("/")
            assert page_about(f"{group}/v1", kind or "Any", name, {}) == page
            assert (ROOT / page).is_file()


@pytest.mark.parametrize(
    ("name", "data", "page"),
    [
        pytest.param("slices", {"any": TIME_SLICED}, SHARING, id="of time slices"),
        pytest.param("p", {"a": '{"version":"v1","sharing":{"mps":{}}}'}, SHARING, id="of MPS, in JSON"),
        pytest.param(
            "p", {"a": "version: v1\nflags:\n  migStrategy: mixed\n"}, SHARING, id="of MIG strategies"
        ),
        pytest.param("p", {"config.yaml": "version: v1\nmig-configs: {}\n"}, SHARING, id="of MIG layouts"),
        pytest.param("app", {"app.yaml": "name: x\nfilesharing: true\n"}, None, id="of an application"),
    ],
)
def test_a_config_map_has_the_page_of_the_component_that_reads_it(
    name: str, data: dict[str, str], page: str | None
) -> None:
    assert page_about("v1", "ConfigMap", name, data) == page
