"""The node pool in a node's labels."""

from __future__ import annotations

import pytest

from scheduler_ext.core.node.node_labels import node_pool


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        pytest.param({}, "", id="no label, no pool"),
        pytest.param({"karpenter.sh/nodepool": "gpu"}, "gpu", id="Karpenter names it"),
        pytest.param({"cloud.google.com/gke-nodepool": "a2"}, "a2", id="GKE does"),
        pytest.param({"eks.amazonaws.com/nodegroup": "p5"}, "p5", id="EKS does"),
        pytest.param({"kubernetes.azure.com/agentpool": "nc"}, "nc", id="AKS does"),
        pytest.param(
            {"node.kubernetes.io/instance-type": "p5.48xlarge", "karpenter.sh/nodepool": "gpu"},
            "gpu",
            id="the instance type is for nodes that are in no pool",
        ),
        pytest.param({"node.kubernetes.io/instance-type": "dgx"}, "dgx", id="and distinguishes nodes there"),
        pytest.param(
            {"karpenter.sh/nodepool": "", "eks.amazonaws.com/nodegroup": "p5"},
            "p5",
            id="an empty label is none",
        ),
    ],
)
def test_the_pool_of_a_node(labels: dict[str, str], pool: str) -> None:
    assert node_pool(labels) == pool
