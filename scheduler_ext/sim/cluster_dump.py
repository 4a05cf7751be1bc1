"""A real cluster as a simulated one: nodes with GPUs of one model, and pods with whole GPUs or one share.
MIG, time-slicing and MPS have no counterpart there. A simulated share is a part of any GPU. So a share of
memory is the part of the smallest GPU that is large enough for it, and goes to no smaller one."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, NodeInfo, version_number
from scheduler_ext.core.node.promisable import shareable_mib
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.gang_request import GangRequest
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import vendor_of
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod, admits, model_of
from scheduler_ext.sim.world import TraceNode, World
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import pod_amounts, quantities
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name, pod_priority
from scheduler_ext.wire.pod.pod_needs import not_modelled
from scheduler_ext.wire.pod.pod_request import asks_gpu, pod_request

_MIB = 2**20
# The main memory of a node without a Node object, which limits nothing.
_UNLIMITED_MIB = 10**12
# The effects of taints that keep pods away.
_STRICT = ("NoSchedule", "NoExecute")
# Annotations that concern a free GPU, a driver or the strategy, not a model.
_IGNORED = ("min-free-memory", "min-cuda", "strategy")
# The constraint of a pod that no GPU of the cluster meets.
_NO_MODEL = ("none",)


@dataclass(frozen=True, slots=True)
class _SimulatedGpu:
    """A GPU that the simulation gives away; `share_mib` is the memory for shares, and `memory_mib` all of it,
    0 if unknown. `device` is None if only labels describe it."""

    model: str
    vendor: str
    share_mib: int
    memory_mib: int
    compute_capability: tuple[int, int] | None
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class _DumpedPod:
    """A pod on a node, with its requests of CPU and main memory."""

    pod: BoundPod
    cpu_milli: int
    memory_mib: int


class ClusterDump:
    """The simulated `nodes` of a cluster, by name, the pods on them, and `notes` on everything left out.
    Raises InventoryError for an object that cannot be read, and without a usable GPU."""

    def __init__(self, state: ClusterState, sizing: Sizing) -> None:
        self._sizing = sizing
        self._pods = state.objects.pods
        self.notes: list[str] = []
        self._gpus: list[list[_SimulatedGpu]] = []
        self._running: list[list[_DumpedPod]] = []
        shapes: list[TraceNode] = []
        left = Counter[str]()
        on_nodes = state.objects.pods_by_node()
        for name, info in sorted(state.infos.items()):
            node = state.objects.nodes.get(name)
            cause = _cause_to_leave_out(info, node)
            if cause is not None:
                left[cause] += 1
                continue
            gpus = self._usable(info)
            self._gpus.append(gpus)
            self._running.append([self._as_running(pod) for pod in on_nodes.get(name, ())])
            cpu_milli = UNLIMITED if info.cpu_milli is None else info.cpu_milli
            model = gpus[0].model if gpus else ""
            memory_mib = _memory_mib(name, node)
            value = info.value
            if gpus and info.fraction > 1:
                value = info.gpu_value(model_of(model), sizing.policy.values)
            shapes.append(TraceNode(name, cpu_milli, memory_mib, len(gpus), model, value, info.spot))
        self.nodes = tuple(shapes)
        self.notes += [
            f"{_counted(count, 'node')} left out: {cause}" for cause, count in sorted(left.items())
        ]
        # The smallest GPU of each model.
        every = sorted((gpu for gpus in self._gpus for gpu in gpus), key=lambda gpu: -gpu.share_mib)
        self._models = {gpu.model: gpu for gpu in every}
        if not every:
            because = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise InventoryError(f"no node has a GPU that can be simulated{because}")
        self._note_rules_of_nodes(state)

    def hold(self, world: World) -> None:
        """Put the running pods into the empty world of these nodes. Amounts beyond a node's are cut off."""
        for node, pods in enumerate(self._running):
            # The pods on unknown GPUs get those that the others leave.
            for running in sorted(pods, key=lambda each: not self._seen_slots(each.pod, node)):
                self._hold(world, node, running)

    def nodes_for_trace(self) -> tuple[TraceNode, ...]:
        """The nodes with all their GPUs, less the CPU and the memory of pods that hold no GPU."""
        shapes = []
        for node, pods in zip(self.nodes, self._running, strict=True):
            others = [each for each in pods if not each.pod.request.asks_gpu]
            cpu_milli = node.cpu_milli - sum(each.cpu_milli for each in others)
            memory_mib = node.memory_mib - sum(each.memory_mib for each in others)
            shapes.append(replace(node, cpu_milli=max(0, cpu_milli), memory_mib=max(0, memory_mib)))
        return tuple(shapes)

    def alive(self) -> list[kube.Pod]:
        """The pods of the dump that request GPUs and have not ended, on nodes or waiting."""
        resources = self._sizing.resources
        return [
            pod
            for pod in self._pods
            if not is_finished(pod) and pod.spec is not None and asks_gpu(pod.spec, resources)
        ]

    def trace_pods(self, pods: Iterable[kube.Pod], *, noted: bool = True) -> list[TracePod]:
        """The pods as in traces, less those that cannot be simulated; `notes` count these if `noted`."""
        found, left, ignored = [], Counter[str](), Counter[str]()
        for pod in pods:
            kind = self._kind_of(pod)
            if isinstance(kind, PodKind):
                found.append(TracePod(pod_name(pod), kind, priority=pod_priority(pod), gang=_gang_of(pod)))
                ignored.update(_ignored(pod))
            else:
                left[kind] += 1
        if noted:
            causes = sorted(left.items())
            self.notes += [f"{_counted(count, 'pod')} left out: {cause}" for cause, count in causes]
            self.notes += [f"ignored: {what} (pods: {count})" for what, count in sorted(ignored.items())]
        return found

    def _note_rules_of_nodes(self, state: ClusterState) -> None:
        """Notes on what the nodes admit, which the simulation ignores."""
        names = [node.name for node in self.nodes if node.gpus]
        specs = [state.objects.nodes[name].spec for name in names if name in state.objects.nodes]
        tainted = sum(bool(spec and any(t.effect in _STRICT for t in spec.taints or ())) for spec in specs)
        if tainted:
            self.notes.append(f"taints are ignored (nodes: {tainted})")
        sharing = sum(state.infos[name].share_node for name in names)
        if 0 < sharing < len(names):
            self.notes.append(
                f"{sharing} of {len(names)} GPU nodes are for memory shares; here every node takes all pods"
            )

    def _usable(self, info: NodeInfo) -> list[_SimulatedGpu]:
        """The healthy GPUs of the node's commonest model that are neither cordoned nor in MIG mode, at most
        as many as it advertises."""
        headroom = self._sizing.headroom_percent if info.share_node else 0
        if info.report is not None:
            gpus = [
                _SimulatedGpu(
                    model=device.model.name,
                    vendor=device.vendor,
                    share_mib=shareable_mib(device, headroom),
                    memory_mib=device.memory.total_mib,
                    compute_capability=device.compute_capability,
                    device=device,
                )
                for device in info.report.devices
                if device.healthy and not device.cordoned and not device.mig.enabled
            ]
        elif info.estimate is not None:
            estimate = info.estimate
            memory_mib = estimate.memory_mib or 0
            capability = estimate.compute_capability or estimate.model.compute_capability
            gpu = _SimulatedGpu(estimate.model.name, estimate.vendor, memory_mib, memory_mib, capability)
            gpus = [gpu] * estimate.count
        else:
            return []
        models = Counter(gpu.model for gpu in gpus)
        commonest = max(models, key=models.__getitem__, default="")
        if len(models) > 1:
            self.notes.append(f"node {info.name}: GPUs of several models; only {commonest} counts")
        gpus = [gpu for gpu in gpus if gpu.model == commonest]
        if info.allocatable is not None and not info.share_node:
            gpus = gpus[: sum(map(info.limit, self._sizing.resources.whole))]
        return gpus

    def _as_running(self, pod: kube.Pod) -> _DumpedPod:
        try:
            bound = bound_pod(pod, self._sizing.resources)
            return _DumpedPod(bound, bound.cpu_milli, _asked_memory_mib(pod))
        except QuantityError as error:
            raise InventoryError(f"Pod {pod_name(pod)}: {error}") from None

    def _seen_slots(self, pod: BoundPod, node: int) -> list[int]:
        """The GPUs that a pod is known to hold, by its annotations or its agent's report."""
        annotated = {uuid for uuids in pod.devices.values() for uuid in uuids}
        return [
            slot
            for slot, gpu in enumerate(self._gpus[node])
            if gpu.device is not None and (gpu.device.uuid in annotated or pod.is_on(gpu.device))
        ]

    def _hold(self, world: World, node: int, running: _DumpedPod) -> None:
        pod = running.pod
        cpu_milli = min(running.cpu_milli, int(world.cpu_free[node]))
        memory_mib = min(running.memory_mib, int(world.memory_free[node]))
        world.place(PodKind(cpu_milli, memory_mib), node, ())
        order = dict.fromkeys((*self._seen_slots(pod, node), *range(len(self._gpus[node]))))
        for _, share_mib in pod.request.shares.running if pod.request.shares else ():
            for slot in order:
                milli = _part_milli(share_mib, self._gpus[node][slot].share_mib)
                if milli <= world.room_milli[slot, node]:
                    world.place(PodKind(0, 0, 1, milli), node, (slot,))
                    break
        whole = sum(ask.count for ask in pod.request.units if ask.profile is None)
        slots = tuple(slot for slot in order if world.room_milli[slot, node] == GPU_MILLI)[:whole]
        if slots:
            world.place(PodKind(0, 0, len(slots), GPU_MILLI), node, slots)

    def _kind_of(self, pod: kube.Pod) -> PodKind | str:
        """The pod as in a trace, or the reason why it cannot be simulated."""
        try:
            request, memory_mib = pod_request(pod, self._sizing.resources), _asked_memory_mib(pod)
        except QuantityError as error:
            return f"an invalid request: {error}"
        if isinstance(request, InvalidRequest):
            return f"an invalid request: {request.message}"
        if any(ask.profile is not None for ask in request.units):
            return "MIG instances"
        plain = PodKind(request.cpu_milli, memory_mib)
        if not request.asks_gpu:
            return plain
        shares = request.shares.by_container if request.shares is not None else ()
        if len(shares) + len(request.units) > 1:
            return "several shares or kinds of GPUs"
        if shares:
            return self._share(plain, request, shares[0][1])
        ask = request.units[0]
        vendor = vendor_of(ask.resource)
        admitted = [gpu for gpu in self._admitted(request) if vendor in (None, gpu.vendor)]
        return replace(
            plain, gpus=ask.count, gpu_milli=GPU_MILLI, models=self._wanted_models(request, admitted)
        )

    def _share(self, plain: PodKind, request: GpuRequest, share_mib: int) -> PodKind:
        admitted = [gpu for gpu in self._admitted(request) if gpu.share_mib >= share_mib]
        smallest = min((gpu.share_mib for gpu in admitted), default=share_mib)
        milli = _part_milli(share_mib, smallest)
        return replace(plain, gpus=1, gpu_milli=milli, models=self._wanted_models(request, admitted))

    def _admitted(self, request: GpuRequest) -> list[_SimulatedGpu]:
        """The models that the pod's constraints admit, by their smallest GPU."""
        least_capability = version_number(request.min_compute_capability)
        return [
            gpu
            for gpu in self._models.values()
            if admits(request.models, model_of(gpu.model))
            and gpu.memory_mib >= request.min_memory_mib
            and version_number(gpu.compute_capability) >= least_capability
        ]

    def _wanted_models(self, request: GpuRequest, admitted: list[_SimulatedGpu]) -> tuple[str, ...]:
        """The models that a kind of pod names: none if it takes every GPU of the cluster."""
        if len(admitted) == len(self._models):
            return tuple(sorted(request.models))
        return tuple(sorted(gpu.model for gpu in admitted)) or _NO_MODEL


def _cause_to_leave_out(info: NodeInfo, node: kube.NodeObject | None) -> str | None:
    source = info.report or info.estimate
    if node is not None and node.spec is not None and node.spec.unschedulable:
        return "cordoned"
    if info.freshness != "Fresh":
        return "without a fresh report"
    if info.changing:
        return "a change in progress"
    if source is not None and (source.sharing_strategy != "none" or source.replicas > 1):
        return "time-slicing or MPS"
    if source is not None and source.mig_strategy == "single":
        return "MIG instances as whole GPUs"
    return None


def _gang_of(pod: kube.Pod) -> str:
    """The gang that a pod names; empty for none, and for one that cannot be read."""
    gang_request = read_gang_request(pod)
    return str(gang_request.key) if isinstance(gang_request, GangRequest) else ""


def _ignored(pod: kube.Pod) -> list[str]:
    """What the pod says about its placement without effect here."""
    spec = pod.spec or kube.PodSpec()
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    annotations = kube.strings(pod.metadata.annotations) if pod.metadata is not None else {}
    found = [f"annotation {name}" for name in _IGNORED if ANNOTATION_PREFIX + name in annotations]
    if spec.node_selector or (affinity is not None and (affinity.required or affinity.preferred)):
        found.append("node selectors and node affinity")
    return found + not_modelled(pod)


def _memory_mib(name: str, node: kube.NodeObject | None) -> int:
    if node is None:
        return _UNLIMITED_MIB
    try:
        amounts = quantities(node.status.allocatable if node.status is not None else None)
    except QuantityError as error:
        raise InventoryError(f"Node {name}: status: {error}") from None
    return min(int(amounts.get("memory", 0) // _MIB), _UNLIMITED_MIB)


def _asked_memory_mib(pod: kube.Pod) -> int:
    """The effective request of main memory, rounded up. Raises QuantityError."""
    return max(0, math.ceil(pod_amounts(held_spec(pod)).get("memory", 0) / _MIB))


def _part_milli(share_mib: int, gpu_mib: int) -> int:
    """The share as a part of a GPU, rounded up; more than the GPU if it does not fit."""
    return max(1, -(-share_mib * GPU_MILLI // gpu_mib)) if gpu_mib >= share_mib else GPU_MILLI + 1


def _counted(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"
