"""Another node of the same kind, as kube-scheduler's own filters see it: empty, and under a new name."""

from dataclasses import replace
from typing import Final

from scheduler_ext.core.intree.verdict import NodeFacts

# No Node has it: names are lower case (RFC 1123).
_NAME: Final = "A-NEW-NODE"
_HOSTNAME: Final = "kubernetes.io/hostname"
# Taints of a state that passes: conditions, cordons, deletions and starts. Sources: k8s.io/api/core/v1,
# well_known_taints; cluster-autoscaler, utils/taints; Karpenter, apis/v1; Node Readiness Controller.
_PASSING_PREFIXES: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "readiness.k8s.io/",
    "karpenter.sh/",
)
# Node agents of the network and of storage: Cilium, and the CSI drivers of AWS.
_PASSING_SUFFIX: Final = "/agent-not-ready"
_PASSING: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        # STARTING_TAINT of core.node.node_labels.
        "gpu.scheduler-ext.io/starting",
    }
)


def is_passing(taint_key: str) -> bool:
    """Whether a taint is that of a state which passes."""
    return (
        taint_key in _PASSING
        or taint_key.startswith(_PASSING_PREFIXES)
        or taint_key.endswith(_PASSING_SUFFIX)
    )


def facts_as_new(node: NodeFacts) -> NodeFacts:
    """The node after its start, with the same labels and lasting taints."""
    return replace(
        node,
        name=_NAME,
        labels={**node.labels, _HOSTNAME: _NAME} if _HOSTNAME in node.labels else node.labels,
        taints=tuple(taint for taint in node.taints if not is_passing(taint.key)),
        unschedulable=False,
        requested={},
        pod_count=0,
    )
