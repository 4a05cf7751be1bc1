"""Karpenter's objects (karpenter.sh/v1, and v1alpha1 for NodeOverlays): a NodePool for each group, and a
NodeOverlay where the provider does not know what a node hands out."""

from collections.abc import Iterator
from typing import Any

from scheduler_ext.features.autoscaling.node_groups.node_facts import (
    labels,
    ordered,
    resources,
    starting_taint,
    taints,
)
from scheduler_ext.features.autoscaling.node_groups.table import MAX_GROUPS, NodeGroup, NodeGroups

_NODE_POOL = "karpenter.sh/nodepool"


def karpenter_objects(table: NodeGroups) -> dict[str, Any]:
    """A List for `kubectl apply`."""
    items = [
        item for rank, group in enumerate(ordered(table.groups)) for item in _objects(group, rank, table)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def karpenter_notes(table: NodeGroups) -> list[str]:
    """What Karpenter cannot do of the table."""
    return [
        f"groups[{i}].min: Karpenter keeps no minimum of {group.min}; it adds nodes for waiting pods only"
        for i, group in enumerate(table.groups)
        if group.min
    ]


def _objects(group: NodeGroup, rank: int, table: NodeGroups) -> Iterator[dict[str, Any]]:
    node_class = table.karpenter.node_class
    template = {
        "nodeClassRef": {"group": node_class.group, "kind": node_class.kind, "name": node_class.name},
        "requirements": [
            _in("node.kubernetes.io/instance-type", *group.instance_types),
            _in("karpenter.sh/capacity-type", group.capacity_type),
            *([_in("topology.kubernetes.io/zone", *group.zones)] if group.zones else []),
        ],
        "taints": taints(group),
        "startupTaints": [starting_taint()],
    }
    yield {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": group.name},
        "spec": {
            "weight": MAX_GROUPS - rank,
            "limits": {"nodes": str(group.max)},
            "template": {"metadata": {"labels": labels(group)}, "spec": template},
            # Karpenter moves pods to where it believes that they fit, which it cannot know here.
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": table.karpenter.consolidate_after,
            },
        },
    }
    # EC2 counts no GPU where a machine has a fraction of one (g6f, gr6f), so the provider offers none.
    if group.hand_out != "whole" or group.parts > 1:
        amounts = resources(group, table.headroom_percent)
        yield {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": group.name},
            "spec": {
                "requirements": [_in(_NODE_POOL, group.name)],
                "capacity": {name: str(amount) for name, amount in amounts.items()},
            },
        }


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
