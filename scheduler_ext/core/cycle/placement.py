"""From a node's sources to the node that decisions read (`Sizing.resolved`), and the GPUs of one node that a
pod's shares get: filters and choice of a decision, for this node alone."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from scheduler_ext.core.cycle.cycle import FITS, Decision, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import reason_text
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo, Slot
from scheduler_ext.core.node.placed import with_planned
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot


@dataclass(frozen=True, slots=True)
class Sizing:
    """Settings for decisions about nodes: the policy, the names of resources, the headroom."""

    policy: SchedulingPolicy
    resources: ResourceNames
    headroom_percent: int

    def resolved(self, info: NodeInfo, known: dict[tuple[str, Hashable], Slot] | None = None) -> Node:
        """The node in the state that its pods leave, planned ones included. `known` are slots of the same
        report, by device and its holdings; those that are not known yet are added."""
        node = resolve(with_planned(info, self.resources), self.resources, self.headroom_percent, known)
        return node if node.info is info else replace(node, info=info)


@dataclass(frozen=True, slots=True)
class SharePlacement:
    """The GPU of each share, by container; without the devices that the device plugin picks."""

    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def place(
    info: NodeInfo, request: GpuRequest, sizing: Sizing, within: Snapshot | None = None
) -> SharePlacement | str:
    """The GPUs of a pod's shares on a node, or the reason why the pod does not fit. `within` is the cluster
    that scores compare with, as in filter and prioritize."""
    node = sizing.resolved(info)
    alone = build_snapshot({info.name: node}, 0, within=within)
    decision = filter_nodes(request, alone, sizing.policy)
    state = int(alone.state_of[0])
    verdict = int(decision.verdict[state])
    if verdict != FITS:
        return reason_text(verdict, request)
    return SharePlacement(share_devices(node, state, decision))


def share_devices(node: Node, state: int, decision: Decision) -> dict[str, tuple[str, ...]]:
    """The GPU for each container's share, as assumed by the scores."""
    request = decision.request
    if not isinstance(request, GpuRequest) or request.shares is None:
        return {}
    fit = decision.scoring.fit
    assert fit is not None
    names = [name for name, _ in request.shares.by_container]
    uuids = [node.uuids[int(slots[state])] for slots in fit.slots]
    return {name: (uuid,) for name, uuid in zip(names, uuids, strict=True) if uuid is not None}


def with_promised(info: NodeInfo, sizing: Sizing) -> NodeInfo:
    """The node as every decision sees it: with a GPU for each share promised to a planned or nominated pod. A
    share without one keeps its whole node from all others."""
    if info.planned:
        info = place_planned(info, sizing)
    return place_nominated(info, sizing) if info.nominated else info


def place_nominated(info: NodeInfo, sizing: Sizing) -> NodeInfo:
    """The node with a GPU for each share of its nominated pods, as if the pods that they wait for had left. A
    nominated pod that does not fit even then gets none: its node accepts no new share beside it."""
    placed: list[BoundPod] = []
    for pod in sorted(info.nominated, key=lambda pod: (-pod.priority, pod.uid)):
        staying = tuple(
            replace(other, departed=True) if other.terminating and other.priority < pod.priority else other
            for other in info.pods
            if other.uid != pod.uid
        )
        planned = tuple(other for other in info.planned if other.priority >= pod.priority)
        beside = replace(info, pods=(*staying, *placed), nominated=(), planned=planned)
        found = place(beside, pod.request, sizing)
        placed.append(pod if isinstance(found, str) else replace(pod, devices=found.devices))
    return replace(info, nominated=tuple(sorted(placed, key=lambda pod: pod.uid)))


def place_planned(info: NodeInfo, sizing: Sizing) -> NodeInfo:
    """The node with a GPU for each share of its planned pods, also where another extender has chosen it. Room
    that is held for a gang comes last: a pod with a place may use it."""
    if all(pod.request.shares is None or pod.devices for pod in info.planned):
        return info
    placed = [pod for pod in info.planned if pod.devices]
    for pod in sorted(info.planned, key=lambda pod: (pod.expected, -pod.priority, pod.uid)):
        if not pod.devices:
            beside = tuple(each for each in placed if pod.expected or not each.expected)
            found = place(replace(info, nominated=(), planned=beside), pod.request, sizing)
            placed.append(pod if isinstance(found, str) else replace(pod, devices=found.devices))
    return replace(info, planned=tuple(sorted(placed, key=lambda pod: pod.uid)))
