"""What nodes have free and pods hold, in GPUs and CPU, and the nodes that could take a pod."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.intree import NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Node, NodeInfo
from scheduler_ext.core.node.pod_facts import NO_FACTS, FactsOfPods, PodFacts
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.queue.room import Amounts, RunningPod
from scheduler_ext.features.gangs.queue.run_times import RunKind
from scheduler_ext.views.node_usage import PerNode
from scheduler_ext.views.placed_pods import PlacedPod, placed_pods

_GPU_MILLI = 1000


class _Held(NamedTuple):
    free: Amounts
    pods: tuple[PlacedPod, ...]


class RoomOfNodes:
    """The nodes of the last snapshot; only those that changed are computed again. One thread at a time."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._held = PerNode(self._held_on)
        self._emptied = EmptiedNodes(sizing)
        self._by_name: Mapping[str, _Held] = {}
        self._facts: Mapping[str, NodeFacts] = {}
        self._snapshot: Snapshot | None = None

    def follow(self, snapshot: Snapshot, facts: Mapping[str, NodeFacts]) -> None:
        """The nodes are now those of `snapshot`, with these facts for kube-scheduler's own filters."""
        self._by_name = self._held.of(snapshot)
        self._facts = facts
        self._snapshot = snapshot

    def has(self, name: str) -> bool:
        """Whether there is such a node; a plan may be older."""
        return name in self._by_name

    @property
    def free(self) -> dict[str, Amounts]:
        """What each node has left, in thousandths of a GPU and of a CPU."""
        return {name: held.free for name, held in self._by_name.items()}

    def holders(self, facts: FactsOfPods, now: float) -> Iterator[tuple[BoundPod, RunningPod]]:
        """The pods that hold GPUs, at `now` in seconds of wall time."""
        for name, held in self._by_name.items():
            for placed in held.pods:
                yield placed.pod, _holder(placed, name, facts.get(placed.pod.uid, NO_FACTS), now)

    def within(self, request: GpuRequest, needs: PodNeeds) -> frozenset[str]:
        """The nodes that would take a pod if no other pods were there."""
        if self._snapshot is None:
            return frozenset()
        fits = self._emptied.fits(self._snapshot, request).tolist()
        ignored = frozenset({*needs.requests, "pods"})
        return frozenset(
            name
            for name, fitting in zip(self._snapshot.nodes, fits, strict=True)
            if fitting
            and (
                name not in self._facts
                or intree_rejection(needs, self._facts[name], ignore_resources=ignored) is None
            )
        )

    def _held_on(self, node: Node) -> _Held:
        # Planned pods wait in the queue, and do not hold anything yet.
        now = self._sizing.resolved(replace(node.info, planned=())) if node.info.planned else node
        return _Held((_free_gpu_milli(now), _free_cpu_milli(now.info)), placed_pods(now))

    def gpu_memory_mib(self, names: frozenset[str]) -> int:
        """The memory of the largest GPU of these nodes; 0 if unknown."""
        nodes = self._snapshot.nodes if self._snapshot is not None else {}
        devices = (device for name in names for device in nodes[name].info.devices)
        return max((device.memory.total_mib for device in devices), default=0)


def run_kind(pod: BoundPod, facts: PodFacts) -> RunKind:
    """What a pod on a node is compared by."""
    return RunKind(pod.namespace, facts.owner, pod.asked)


def _free_gpu_milli(node: Node) -> int:
    if node.info.is_out or node.info.changing:
        return 0
    if node.info.report is None:
        return node.free_gpus * _GPU_MILLI
    idle = sum(slot.idle for slot in node.state.slots if slot.healthy)
    return max(0, round((idle - node.state.adrift) * _GPU_MILLI))


def _free_cpu_milli(info: NodeInfo) -> int:
    if info.cpu_milli is None:
        return UNLIMITED
    return info.cpu_milli - info.cpu_elsewhere_milli - sum(pod.cpu_milli for pod in info.pods if pod.holds)


def _holder(placed: PlacedPod, node: str, facts: PodFacts, now: float) -> RunningPod:
    pod = placed.pod
    since = facts.running_since or placed.since
    age_s = max(0.0, now - since) if since is not None else 0.0
    left_s = facts.max_duration_s - age_s if facts.max_duration_s is not None else None
    return RunningPod(
        node=node,
        amounts=(round(placed.held * _GPU_MILLI), pod.cpu_milli),
        kind=run_kind(pod, facts),
        age_s=age_s,
        # One that has run for longer than stated may run on.
        limit_s=left_s if left_s is not None and left_s > 0 else None,
        leaving=pod.terminating,
    )


def gpu_milli(request: GpuRequest, gpu_memory_mib: int) -> int:
    """The requested GPUs in thousandths: of a MIG profile its slices, of a share its part of a GPU with that
    memory."""
    total = 0.0
    for ask in request.units:
        total += ask.count * (_slices(ask.profile) if ask.profile is not None else 1.0)
    if request.shares is not None and gpu_memory_mib:
        total += request.shares.total_mib / gpu_memory_mib
    return round(total * _GPU_MILLI)


def _slices(profile: str) -> float:
    """The part of a GPU with seven compute slices: 0.43 for 3g.40gb."""
    slices = profile.split("g.")[0].split(".")[-1]
    return min(7, int(slices)) / 7 if slices.isdecimal() else 1.0


def amounts_of(request: GpuRequest, cpu_milli: int, gpu_memory_mib: int) -> Amounts:
    """What a waiting pod asks."""
    return gpu_milli(request, gpu_memory_mib), cpu_milli
