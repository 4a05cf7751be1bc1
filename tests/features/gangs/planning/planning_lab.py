"""A cluster for the planner, in a few words: nodes of so many free GPUs, and pods that ask for some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.intree import NodeFacts, PodNeeds
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.planning.in_tree_filters import InTreeFilters
from scheduler_ext.features.gangs.planning.node_rooms import NodeRooms
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.waiting_pod import (
    WaitingPod,
    amounts_needed,
    amounts_offered,
    asked_gpus,
)
from tests.core.asked import whole
from tests.core.reported import NAMES, device, node

SIZING = Sizing(SchedulingPolicy(), NAMES, 10)
CPU_MILLI = 64_000


def gpus_node(name: str, gpus: int, *pods: BoundPod, planned: Sequence[BoundPod] = ()) -> NodeInfo:
    """A node of so many A100s."""
    devices = [device(i, uuid=f"GPU-{name}-{i}") for i in range(gpus)]
    made = node(*devices, pods=pods, cpu_milli=CPU_MILLI)
    allocatable = {"nvidia.com/gpu": gpus, NAMES.share: 2**20}
    return replace(made, name=name, allocatable=allocatable, planned=tuple(planned))


def waiting(
    uid: str,
    request: GpuRequest | int = 1,
    priority: int = 0,
    cpu: float = 1,
    number: int = 0,
    **fields: Any,
) -> WaitingPod:
    """A pod that kube-scheduler found no node for; `fields` are further ones of it."""
    request = whole(request) if isinstance(request, int) else request
    request = replace(request, priority=priority, cpu_milli=int(cpu * 1000))
    pod = BoundPod(uid, "ml", uid, priority, request, cpu_milli=int(cpu * 1000), created_at=float(number))
    needs = fields.pop("needs", None) or PodNeeds(None, {}, None, (), {"cpu": Fraction(cpu)})
    amounts = amounts_needed(needs.requests, frozenset())
    kind = request, tuple(sorted(amounts.items())), needs.required_terms, tuple(needs.node_selector.items())
    fields.setdefault("was_tried", True)
    return WaitingPod(pod, needs, amounts, kind, asked_gpus(request), number, **fields)


class PlanningLab:
    """Nodes, and the rooms beside their GPUs: 64 CPUs and 110 pods each."""

    def __init__(self, infos: Sequence[NodeInfo]) -> None:
        self.rooms = NodeRooms()
        self.in_tree = InTreeFilters()
        self.infos = {info.name: info for info in infos}
        for info in infos:
            self.show(info.name)

    def show(self, name: str, **facts: Any) -> None:
        """A Node is so; `facts` are fields of its NodeFacts."""
        plain = NodeFacts(name, {"kubernetes.io/hostname": name}, (), False)
        room = amounts_offered({"cpu": Fraction(CPU_MILLI, 1000), "pods": Fraction(110)})
        self.rooms.update_node(name, replace(plain, **facts), room)

    def snapshot(self) -> Snapshot:
        """The nodes as they are published."""
        return build_snapshot({name: SIZING.resolved(info) for name, info in self.infos.items()}, 1)

    def cluster(self, emptied: EmptiedNodes | None = None) -> PlannedCluster:
        """The cluster that places are tried on."""
        snapshot = self.snapshot()
        view = self.in_tree.at(self.rooms.copy(("cpu", "pods")), snapshot)
        return PlannedCluster(snapshot, SIZING, view, {}, emptied)
