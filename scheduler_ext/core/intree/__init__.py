"""What kube-scheduler's own filters say about one pod on one node, before any extender is asked.

The server never runs this: kube-scheduler shows an extender only nodes that passed. It is for the commands
that answer without a kube-scheduler, which would otherwise call a cordoned or full node a fit.
"""

from __future__ import annotations

from scheduler_ext.core.intree.affinity import NodeSelectorTerm, Requirement
from scheduler_ext.core.intree.resource_fit import effective_requests
from scheduler_ext.core.intree.taints import Taint, Toleration
from scheduler_ext.core.intree.verdict import (
    NO_NODES,
    InTreeRejection,
    NodeFacts,
    PodNeeds,
    intree_rejection,
    name_rejection,
)

__all__ = [
    "NO_NODES",
    "InTreeRejection",
    "NodeFacts",
    "NodeSelectorTerm",
    "PodNeeds",
    "Requirement",
    "Taint",
    "Toleration",
    "effective_requests",
    "intree_rejection",
    "name_rejection",
]
