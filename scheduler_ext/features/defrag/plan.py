"""A defragmentation plan: for each waiting pod the moves that let it in, on one cluster that changes with
each of them."""

import gc
import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_ext.core.errors import PodError
from scheduler_ext.core.intree import is_passing, needs_key
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.gang_request import GangRequest
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.explain.explainer import other_scheduler
from scheduler_ext.features.defrag.movable import Rules, movable_pods
from scheduler_ext.features.defrag.moves import Effort, Move, Stuck
from scheduler_ext.features.defrag.moving_cluster import MovingCluster
from scheduler_ext.features.defrag.search import Search
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.views.fragmentation import fragmentation
from scheduler_ext.whatif.whatif import PodInfo
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating, pod_name, pod_uid
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request

# Other waiting pods that are looked at, in the order of their priorities.
_OTHERS = 100


@dataclass(frozen=True, slots=True)
class PlacementGoal:
    """A waiting pod, or a number of free GPUs on one node, which a pod of that request stands for."""

    pod_info: PodInfo
    gpus: int | None = None

    @property
    def name(self) -> str:
        """NAMESPACE/NAME of the pod, or the number of GPUs in words."""
        return pod_name(self.pod_info.pod) if self.gpus is None else gpus_in_words(self.gpus)


def gpus_in_words(count: int) -> str:
    """A number of free GPUs."""
    return f"{count} free GPU{'' if count == 1 else 's'} on one node"


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The answer for one waiting pod: the node where it fits and the moves before; without a node, the
    nearest refusal and the cheapest set of pods that did not suffice."""

    wanted: PlacementGoal
    node: str | None
    moves: Sequence[Move] = ()
    refusal: dict[str, Any] | None = None
    stuck: Stuck | None = None
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class DefragPlan:
    """The answer for all waiting pods. `staying` counts pods with GPUs that may not be moved, by reason;
    `also_fit` are other waiting pods that fit after the moves and did not before; `fragmentation` is
    (unallocated, unusable) in GPUs, before and after; `nodes` are the nodes after the moves, and `rooms`
    those that other runs hold, with their nodes."""

    outcomes: Sequence[PodOutcome]
    staying: Counter[str] = field(default_factory=Counter)
    movable: int = 0
    also_fit: Sequence[str] = ()
    before: tuple[float, float] = (0.0, 0.0)
    after: tuple[float, float] = (0.0, 0.0)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    rooms: Sequence[tuple[str, BoundPod]] = ()

    @property
    def moves(self) -> list[Move]:
        """All moves, in their order."""
        return [move for outcome in self.outcomes for move in outcome.moves]

    @property
    def complete(self) -> bool:
        """Whether every pod gets in."""
        return all(outcome.node is not None for outcome in self.outcomes)


def waiting_pod(pod: kube.Pod, state: ClusterState, config: Configuration) -> PlacementGoal:
    """The pod as one that looks for a node. Raises PodError if its request cannot be read."""
    name = pod_name(pod)
    try:
        request = pod_request(pod, config.resource_names(), state.claims)
        needs = pod_needs(pod, state.claims)
    except QuantityError as error:
        raise PodError(f"Pod {name}: {error}") from None
    if isinstance(request, InvalidRequest):
        raise PodError(f"Pod {name}: {request.message}")
    return PlacementGoal(PodInfo(pod, pod_uid(pod) or f"{name} waiting", request, needs))


def doubt(outcome: PodOutcome, config: Configuration) -> str | None:
    """Why moves would not bring a pod in, or are not needed; None if nothing is known that says so."""
    wanted, pod = outcome.wanted, outcome.wanted.pod_info.pod
    spec, status = pod.spec or kube.PodSpec(), pod.status or kube.PodStatus()
    if isinstance(gang := read_gang_request(pod), GangRequest):
        return (
            f"pod {wanted.name} starts with all {gang.size} pods of gang {gang.key}, and a plan is made for "
            "each pod by itself"
        )
    if spec.scheduling_gates:
        return f"pod {wanted.name} goes on waiting until its scheduling gates are gone"
    if (stranger := other_scheduler(spec.scheduler_name or "", False, config)) is not None:
        return f"pod {wanted.name} may go on waiting: {stranger}"
    if status.nominated_node_name and outcome.moves:
        return f"preemption already makes room for pod {wanted.name} on node {status.nominated_node_name}"
    return None


def free_gpus(count: int, state: ClusterState, config: Configuration) -> PlacementGoal:
    """A number of whole GPUs on one node, free for any pod that tolerates the taints of GPU nodes. Time
    slices, parts by MPS and MIG instances that are offered as GPUs are none."""
    resource = _whole_resource(state, config)
    keys = {
        taint.key
        for node in state.objects.nodes.values()
        for taint in (node.spec.taints if node.spec is not None else None) or ()
        # Nodes that start, end or fail are closed to every new pod, whatever it asks.
        if taint.key and not is_passing(taint.key)
    }
    cut = [name for name, info in state.infos.items() if _offers_instances(info)]
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in cut]
    terms = {"nodeSelectorTerms": [{"matchFields": others}]}
    # Written as a manifest, because amounts are read from their text.
    manifest = {
        "kind": "Pod",
        "metadata": {"name": f"gpus-{count}", "annotations": {f"{ANNOTATION_PREFIX}sharing": "exclusive"}},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            if cut
            else None,
            "containers": [{"name": "gpus", "resources": {"limits": {resource: str(count)}}}],
            "tolerations": [{"key": key, "operator": "Exists"} for key in sorted(keys)],
        },
    }
    (pod,) = read_pods(json.dumps(manifest).encode())
    wanted = waiting_pod(pod, state, config)
    return PlacementGoal(wanted.pod_info, count)


def _whole_resource(state: ClusterState, config: Configuration) -> str:
    """The first resource of whole GPUs that a node hands out: a cluster may have no GPUs of NVIDIA."""
    names = [name for name in config.resource_names().whole if not name.endswith(".shared")]
    there = {
        name for info in state.infos.values() for name, count in (info.allocatable or {}).items() if count > 0
    }
    return next((name for name in names if name in there), config.resource_names().whole[0])


def _offers_instances(info: NodeInfo) -> bool:
    """Whether a node offers MIG instances as GPUs (strategy single)."""
    if info.report is None:
        return info.estimate is not None and info.estimate.model.is_mig_slice
    return info.report.mig_strategy == "single" and any(device.mig.enabled for device in info.devices)


def make_plan(
    wanted: Sequence[PlacementGoal],
    state: ClusterState,
    config: Configuration,
    rules: Rules,
    effort: Effort | None = None,
) -> DefragPlan:
    """The moves that let these pods in. Raises InventoryError for an object that cannot be read."""
    collected = gc.isenabled()
    # The collector would walk all objects of the cluster several times, and a plan leaves no cycles behind.
    gc.disable()
    try:
        return DefragPlanner(state, config, rules, effort).plan(wanted)
    finally:
        if collected:
            gc.enable()


class DefragPlanner:
    """Plans on the state of a cluster. Raises InventoryError for an object that cannot be read."""

    def __init__(
        self, state: ClusterState, config: Configuration, rules: Rules, effort: Effort | None = None
    ) -> None:
        self.cluster = MovingCluster(state, config)
        self.pods, staying = movable_pods(state, self.cluster, config, rules)
        self._staying = Counter(staying.values())
        self._state, self._config = state, config
        self._budgets = list(state.objects.budgets)
        self._effort = effort or Effort()
        self._moved: set[str] = set()
        # Pods without a plan, by what they ask and by the number of changes of the cluster before.
        self._stuck: dict[Hashable, PodOutcome] = {}
        # Rooms that stay free, by node and uid.
        self._free: list[tuple[str, str]] = []

    def plan(self, wanted: Sequence[PlacementGoal]) -> DefragPlan:
        """The moves that let these pods in, one after the other in the order of their priorities."""
        cluster = self.cluster
        rooms = cluster.hold_rooms(self._state.held, {each.name for each in wanted})
        before = fragmentation(cluster.snapshot)
        others = self._others(wanted)
        fitting = {each.name for each in others if cluster.best(each.pod_info) is not None}
        order = sorted(wanted, key=lambda each: -each.pod_info.request.priority)
        outcomes = [self._outcome(each) for each in order]
        for node, uid in self._free:
            cluster.release(node, uid)
        after = fragmentation(cluster.snapshot)
        also = [
            each.name
            for each in (others if any(outcome.moves for outcome in outcomes) else ())
            if each.name not in fitting and cluster.best(each.pod_info) is not None
        ]
        nodes = cluster.snapshot.nodes
        return DefragPlan(outcomes, self._staying, len(self.pods), also, before, after, nodes, rooms)

    def _outcome(self, wanted: PlacementGoal) -> PodOutcome:
        cluster, pod_info = self.cluster, wanted.pod_info
        cluster.denominate(pod_info.uid)
        node = cluster.best(pod_info)
        if node is not None:
            self._enter(wanted, node)
            return PodOutcome(wanted, node)
        asked = pod_info.request, needs_key(pod_info.needs), cluster.mark()
        if asked in self._stuck:
            return replace(self._stuck[asked], wanted=wanted)
        left = [pod for pod in self.pods if pod.uid not in self._moved]
        search = Search(cluster, left, self._budgets, self._effort)
        room = search.find(pod_info)
        if room is None:
            refusal = cluster.refusal(pod_info)
            self._stuck[asked] = PodOutcome(wanted, None, (), refusal, search.nearest, search.exhausted)
            return self._stuck[asked]
        self._moved.update(move.pod.uid for move in room.moves)
        cluster.release(room.node, pod_info.uid)
        self._enter(wanted, room.node)
        return PodOutcome(wanted, room.node, room.moves, exhausted=search.exhausted)

    def _enter(self, wanted: PlacementGoal, node: str) -> None:
        """The room is taken for the pods that follow; GPUs that no pod asks stay free."""
        if wanted.gpus is None:
            self.cluster.bind(wanted.pod_info, node)
        else:
            self.cluster.hold(node, wanted.pod_info, {})
            self._free.append((node, wanted.pod_info.uid))

    def _others(self, wanted: Sequence[PlacementGoal]) -> list[PlacementGoal]:
        names = {each.name for each in wanted}
        found = []
        for pod in self._state.objects.pods:
            spec, status = pod.spec or kube.PodSpec(), pod.status or kube.PodStatus()
            # A nominated pod has its place.
            if spec.node_name or status.nominated_node_name or spec.scheduling_gates:
                continue
            if is_finished(pod) or is_terminating(pod) or pod_name(pod) in names:
                continue
            try:
                each = waiting_pod(pod, self._state, self._config)
            except PodError:
                continue
            if each.pod_info.request.asks_gpu:
                found.append(each)
        return sorted(found, key=lambda each: -each.pod_info.request.priority)[:_OTHERS]
