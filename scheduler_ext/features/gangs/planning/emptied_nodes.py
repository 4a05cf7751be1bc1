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
        # With what each was found from, which is the same object while a node does not change.
        self._nodes: dict[str, tuple[NodeInfo, NodeInfo, Node]] = {}
        self._of: tuple[Snapshot, Snapshot, dict[GpuRequest, Bools]] | None = None

    def fits(self, snapshot: Snapshot, request: GpuRequest) -> Bools:
        """Whether each node of a snapshot would take a request, `[row]`."""
        if self._of is None or self._of[0] is not snapshot:
            nodes = self._emptied(snapshot.nodes)
            if self._of is not None and _are_same(nodes, self._of[1].nodes):
                self._of = snapshot, *self._of[1:]
            else:
                self._of = snapshot, build_snapshot(nodes, snapshot.generation, within=snapshot), {}
        _, emptied, known = self._of
        if request not in known:
            decision = filter_nodes(request, emptied, self._sizing.policy)
            known[request] = decision.fits[emptied.state_of[:-1]]
        return known[request]

    def _emptied(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        before, self._nodes = self._nodes, {}
        for name, node in nodes.items():
            known = before.get(name)
            if known is None or known[0] is not node.info:
                info = _without_pods(node.info)
                same = known is not None and known[1] == info
                emptied = known[2] if known is not None and same else self._sizing.resolved(info)
                known = node.info, info, emptied
            self._nodes[name] = known
        return {name: node for name, (_, _, node) in self._nodes.items()}


def _are_same(nodes: Mapping[str, Node], others: Mapping[str, Node]) -> bool:
    """Whether these are the same nodes in the same order."""
    return len(nodes) == len(others) and all(
        name == other and node is others[other]
        for (name, node), other in zip(nodes.items(), others, strict=True)
    )


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
