"""Every node as it would be without any pod, for the question whether a pod could ever fit there."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot


class EmptiedNodes:
    """Kept from step to step, because nodes without their pods seldom change. One thread at a time."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._nodes: dict[str, tuple[NodeInfo, Node]] = {}
        self._of: tuple[Snapshot, Snapshot, dict[GpuRequest, Bools]] | None = None

    def fits(self, snapshot: Snapshot, request: GpuRequest) -> Bools:
        """Whether each node of a snapshot would take a request, `[row]`."""
        if self._of is None or self._of[0] is not snapshot:
            emptied = build_snapshot(self._emptied(snapshot.nodes), snapshot.generation, within=snapshot)
            self._of = snapshot, emptied, {}
        _, emptied, known = self._of
        if request not in known:
            decision = filter_nodes(request, emptied, self._sizing.policy)
            known[request] = decision.fits[emptied.state_of[:-1]]
        return known[request]

    def _emptied(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        before, self._nodes = self._nodes, {}
        for name, node in nodes.items():
            info = _without_pods(node.info)
            known = before.get(name)
            same = known is not None and known[0] == info
            self._nodes[name] = known if known is not None and same else (info, self._sizing.resolved(info))
        return {name: node for name, (_, node) in self._nodes.items()}


def _without_pods(info: NodeInfo) -> NodeInfo:
    departed = tuple(replace(pod, departed=True) for pod in info.pods)
    return replace(
        info,
        pods=departed,
        assumed=frozenset(),
        nominated=(),
        planned=(),
        claims=(),
        cpu_elsewhere_milli=0,
    )
