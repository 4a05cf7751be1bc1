"""Objects of autoscalers, and the page about them."""

from __future__ import annotations

import pytest

from scheduler_ext.wire.kind_pages import page_about
from tests.wire.test_workloads import TEMPLATE, document, read


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("karpenter.sh/v1", "NodePool"),
        ("karpenter.sh/v1", "NodeClaim"),
        ("karpenter.sh/v1alpha5", "Provisioner"),
        ("karpenter.k8s.aws/v1", "EC2NodeClass"),
        ("karpenter.azure.com/v1beta1", "AKSNodeClass"),
        ("karpenter.k8s.gcp/v1alpha1", "GCENodeClass"),
        ("eks.amazonaws.com/v1", "NodeClass"),
        ("cloud.google.com/v1", "ComputeClass"),
        ("cluster.x-k8s.io/v1beta1", "MachineDeployment"),
    ],
)
def test_the_page_follows_from_the_group_and_the_kind(api_version: str, kind: str) -> None:
    assert page_about(api_version, kind, "name", {}) == "docs/features/autoscaling/autoscalers.md"


def test_a_config_map_of_the_expander_has_it_too() -> None:
    found = page_about("v1", "ConfigMap", "cluster-autoscaler-priority-expander", {"priorities": "10: [a]"})
    assert found == "docs/features/autoscaling/autoscalers.md"


def test_a_node_pool_beside_a_workload_is_no_workload() -> None:
    job = document("batch/v1/Job", f"{{template: {TEMPLATE}}}")
    (found,) = read(job, document("karpenter.sh/v1/NodePool", "{limits: {nvidia.com/gpu: 8}}"))
    assert found.unread == ()
