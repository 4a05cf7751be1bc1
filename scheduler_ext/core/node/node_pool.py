"""The node pool that a node's labels name."""

from __future__ import annotations

from collections.abc import Mapping

# Whoever makes nodes labels them with the group they are made in; the last is all that remains elsewhere.
POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)


def node_pool(labels: Mapping[str, str]) -> str:
    """The pool, else the type of instance; "" where no label tells."""
    return next((labels[name] for name in POOL_LABELS if labels.get(name)), "")
