"""The ledger's drift by node, for metrics: worked out again only for nodes that changed."""

from __future__ import annotations

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.promisable import drift_mib
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot


class Drift:
    """Remembers what it said of each node. For one caller at a time."""

    def __init__(self, resources: ResourceNames) -> None:
        self._resources = resources
        self._known: dict[str, tuple[NodeInfo, int]] = {}

    def by_node(self, snapshot: Snapshot | None) -> dict[str, int]:
        """MiB that pods use beyond what they hold, by node of shares."""
        known = {}
        for name, node in snapshot.nodes.items() if snapshot is not None else ():
            info = node.info
            if info.report is not None and info.share_node:
                before = self._known.get(name)
                same = before is not None and before[0] is info
                known[name] = before if same and before else (info, drift_mib(info, self._resources))
        self._known = known
        return {name: mib for name, (_, mib) in known.items()}
