"""Objects that are no workloads, and the page about each."""

from __future__ import annotations

import pytest

from scheduler_ext.wire.kind_pages import page_about
from tests.pages import ROOT

AUTOSCALERS = "docs/features/autoscaling/autoscalers.md"
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
        ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "docs/features/idle/right-sizing.md"),
        ("policy/v1", "PodDisruptionBudget", "docs/features/defrag/defragment.md"),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue", "docs/tasks/kueue.md"),
        ("karpenter.sh/v1", "NodePool", AUTOSCALERS),
        ("karpenter.sh/v1", "NodeClaim", AUTOSCALERS),
        ("karpenter.sh/v1alpha5", "Provisioner", AUTOSCALERS),
        ("karpenter.k8s.aws/v1", "EC2NodeClass", AUTOSCALERS),
        ("karpenter.azure.com/v1beta1", "AKSNodeClass", AUTOSCALERS),
        ("karpenter.k8s.gcp/v1alpha1", "GCENodeClass", AUTOSCALERS),
        ("eks.amazonaws.com/v1", "NodeClass", AUTOSCALERS),
        ("cloud.google.com/v1", "ComputeClass", AUTOSCALERS),
        ("cluster.x-k8s.io/v1beta1", "MachineDeployment", AUTOSCALERS),
        ("nvidia.com/v1", "ClusterPolicy", "docs/tasks/platforms/README.md#the-gpu-operator"),
        ("resource.k8s.io/v1", "ResourceClaimTemplate", "docs/tasks/dra.md"),
        ("resource.k8s.io/v1beta1", "ResourceSlice", "docs/tasks/dra.md"),
        ("resource.nvidia.com/v1beta1", "ComputeDomain", "docs/tasks/dra.md"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "docs/features/gangs/gangs.md"),
        ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", None),
        ("scheduling.k8s.io/v1", "PriorityClass", None),
        ("kyverno.io/v1", "ClusterPolicy", None),
        ("hypershift.openshift.io/v1beta1", "NodePool", None),
    ],
)
def test_the_page_follows_from_the_group_and_the_kind(api_version: str, kind: str, page: str | None) -> None:
    assert page_about(api_version, kind, "name", {}) == page
    assert page is None or (ROOT / page.partition("#")[0]).is_file()


@pytest.mark.parametrize(
    ("name", "data", "page"),
    [
        pytest.param("slices", {"any": TIME_SLICED}, SHARING, id="of time slices"),
        pytest.param("p", {"a": '{"version":"v1","sharing":{"mps":{}}}'}, SHARING, id="of MPS, in JSON"),
        pytest.param(
            "p", {"a": "version: v1\nflags:\n  migStrategy: mixed\n"}, SHARING, id="of MIG strategies"
        ),
        pytest.param("p", {"config.yaml": "version: v1\nmig-configs: {}\n"}, SHARING, id="of MIG layouts"),
        pytest.param(
            "cluster-autoscaler-priority-expander",
            {"priorities": "10: [a]"},
            AUTOSCALERS,
            id="of the expander",
        ),
        pytest.param("app", {"app.yaml": "name: x\nfilesharing: true\n"}, None, id="of an application"),
    ],
)
def test_a_config_map_has_the_page_of_the_component_that_reads_it(
    name: str, data: dict[str, str], page: str | None
) -> None:
    assert page_about("v1", "ConfigMap", name, data) == page
