"""A simulated cluster in the server's form: nodes with reports, pods bound to their GPUs, JSON."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from scheduler_ext.core.cycle.placement import SharePlacement, place
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.models import canonical_model, normalise_model
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, task_class
from scheduler_ext.sim.world import Cluster, TraceNode, World
from scheduler_ext.wire.config import Configuration, FilterSection, MemorySection, ScoreSection
from scheduler_ext.wire.extender_args import ExtenderArgs, decode_args
from scheduler_ext.wire.pod.cached_pod import bound_pod
from tests.kube_objects import ANNOTATION, SHARE, Json, names_body, pod
from tests.sim.small import fits

RESOURCES = ResourceNames()
WHOLE = "nvidia.com/gpu"
# Spellings of NVML and of users, and an unknown one.
MODELS = ("NVIDIA-A100-SXM4-80GB", "Tesla T4", "G2")
_DEVICES = "devices.gpu.scheduler-ext.io/main"
_DEADLINE_S = 60.0
_HARD_TO_EVICT = 1_000_000
_SCORE = ScoreSection()


@dataclass(frozen=True, slots=True)
class Running:
    """A pod on a node, by their numbers, and on these of its GPUs."""

    number: int
    kind: PodKind
    node: int
    slots: tuple[int, ...]


def asking(kind: PodKind, number: int = 0, running: Running | None = None) -> Json:
    """The pod in the form of the API server: waiting, or bound by the extender."""
    limits = {}
    if kind.is_share:
        limits = {SHARE: str(kind.gpu_milli)}
    elif kind.gpus:
        limits = {WHOLE: str(kind.gpus)}
    annotations = {ANNOTATION + "model": ",".join(kind.models)} if kind.models else {}
    if running is not None and running.slots:
        annotations[_DEVICES] = ",".join(uuid_of(running.node, slot) for slot in running.slots)
    made = pod(f"p{number}", limits, annotations=annotations)
    made["spec"]["containers"][0]["resources"]["requests"] = {
        **limits,
        "cpu": f"{kind.cpu_milli}m",
        "memory": f"{kind.memory_mib}Mi",
    }
    # Bound pods are hard to evict, as the simulator has no neighbours.
    waiting = 0 if kind.spot is None else -1 if kind.spot else 1
    made["spec"]["priority"] = waiting if running is None else _HARD_TO_EVICT
    return made


def uuid_of(node: int, slot: int) -> str:
    return f"GPU-{node}-{slot}"


def info_of(cluster: Cluster, node: int, running: Sequence[Running]) -> NodeInfo:
    """One node with its pods; a node without GPUs has no report, and pods without GPUs count as CPU of
    others.
    """
    gpus, model = int(cluster.gpus[node]), cluster.models[cluster.model[node]]
    here = [each for each in running if each.node == node]
    return NodeInfo(
        cluster.names[node],
        report=Report(tuple(_device(node, slot, model) for slot in range(gpus))) if gpus else None,
        allocatable={WHOLE: gpus, SHARE: gpus * GPU_MILLI},
        share_node=True,
        pods=tuple(_bound(each) for each in here if each.kind.gpus),
        cpu_milli=int(cluster.cpu_milli[node]),
        cpu_elsewhere_milli=sum(each.kind.cpu_milli for each in here if not each.kind.gpus),
        spot=bool(cluster.spot[node]),
    )


def _device(node: int, slot: int, model: str) -> Device:
    return Device(
        uuid=uuid_of(node, slot),
        index=slot,
        vendor="nvidia",
        product=model,
        model=canonical_model(model),
        compute_capability=None,
        memory=Memory(GPU_MILLI),
    )


def _bound(running: Running) -> BoundPod:
    made = asking(running.kind, running.number, running)
    args = decode_args(names_body(made, []))
    return replace(bound_pod(args.pod, RESOURCES), cpu_milli=running.kind.cpu_milli)


class Server(Extender):
    """The extender on a simulated cluster: without headroom, and with equal models."""

    def __init__(
        self,
        cluster: Cluster,
        running: Sequence[Running],
        workload: Workload,
        max_candidates: int,
        score: ScoreSection = _SCORE,
    ) -> None:
        super().__init__(
            Configuration(
                filter=FilterSection(max_candidates=max_candidates),
                memory=MemorySection(headroom_percent=0),
                score=replaced(score, weights={**score.weights, "model-preference": 0.0}),
            )
        )
        self._cluster = cluster
        self.replace_nodes([info_of(cluster, node, running) for node in range(len(cluster))])
        self._table.forecast = Forecast(_as_asked(workload), ())
        self._publish()

    def follow(self, node: int, running: Sequence[Running]) -> None:
        """Replace the pods of one node."""
        self.update_nodes({self._cluster.names[node]: info_of(self._cluster, node, running)})

    def fitting(self, kind: PodKind, names: Sequence[str]) -> list[str]:
        """The answer of filter."""
        reply = json.loads(self.filter(names_body(asking(kind), names), time.monotonic() + _DEADLINE_S).body)
        assert (reply["Error"], reply["FailedNodes"]) == ("", {})
        found: list[str] = reply["NodeNames"]
        return found

    def points(self, kind: PodKind, names: Sequence[str]) -> dict[str, int]:
        """The answer of prioritize."""
        reply = json.loads(
            self.prioritize(names_body(asking(kind), names), time.monotonic() + _DEADLINE_S).body
        )
        return {entry["Host"]: entry["Score"] for entry in reply}

    def device(self, kind: PodKind, node: int, running: Sequence[Running]) -> str | None:
        """The GPU that a bind on the node gives to a share; None for other pods."""
        args = decode_args(names_body(asking(kind), []))
        request = self._request(args)
        assert isinstance(request, GpuRequest)
        found = place(info_of(self._cluster, node, running), request, self.sizing, within=self.snapshot)
        assert isinstance(found, SharePlacement)
        return found.devices["main"][0] if kind.is_share else None

    def _request(self, args: ExtenderArgs) -> GpuRequest | InvalidRequest:
        request = super()._request(args)
        assert isinstance(request, GpuRequest)
        spec = json.loads(args.raw_pod)["spec"]
        cpu = spec["containers"][0]["resources"]["requests"]["cpu"]
        return replace(request, cpu_milli=int(cpu.removesuffix("m")))


def _as_asked(workload: Workload) -> Workload:
    """The same, with models as in pods' annotations."""
    counts: dict[TaskClass, float] = {}
    for task, part in workload.parts.items():
        task = replace(task, models=tuple(sorted(normalise_model(model) for model in task.models)))
        counts[task] = counts.get(task, 0.0) + part
    return Workload.of(counts, workload.unknown)


_models = st.sampled_from(
    ((), (), ("NVIDIA-A100-SXM4-80GB",), ("Tesla T4",), ("G2", "t4"), ("a100",), MODELS)
)
_cpus = st.sampled_from((0, 500, 1000, 2500, 4000, 8000, 33_000))
_kinds = st.one_of(
    st.builds(PodKind, _cpus, st.sampled_from((1000, 90_000))),
    st.builds(
        lambda cpu, milli, models: PodKind(cpu, 1000, 1, milli, models),
        _cpus,
        st.sampled_from((1, 100, 250, 333, 500, 667, 750, 999)),
        _models,
    ),
    st.builds(
        lambda cpu, gpus, models: PodKind(cpu, 1000, gpus, 1000, models), _cpus, st.integers(1, 8), _models
    ),
)
kinds = st.builds(lambda kind, spot: replace(kind, spot=spot), _kinds, st.sampled_from((None, True, False)))
several_kinds = st.lists(kinds, min_size=1, max_size=4)
workloads = st.dictionaries(kinds.map(task_class), st.integers(1, 9), max_size=6).map(
    lambda counts: Workload.of({task: float(count) for task, count in counts.items()})
)
_nodes = st.builds(
    TraceNode,
    st.just(""),
    st.sampled_from((8000, 31_000, 96_000)),
    st.just(100_000),
    st.sampled_from((0, 1, 2, 4, 8)),
    st.sampled_from(MODELS),
    spot=st.booleans(),
)


@st.composite
def clusters(draw: st.DrawFn, most: int = 7) -> Cluster:
    """A few nodes, some of them equal; the order of names differs from theirs."""
    nodes = draw(st.lists(_nodes, min_size=1, max_size=most))
    names = draw(st.permutations([f"n{index}" for index in range(len(nodes))]))
    return Cluster.of([replace(node, name=name) for name, node in zip(names, nodes, strict=True)])


steps = st.lists(st.tuples(kinds, st.integers(0, 2**20), st.sampled_from((False, False, True))), max_size=30)


def lived_in(cluster: Cluster, steps: Sequence[tuple[PodKind, int, bool]]) -> tuple[World, list[Running]]:
    """A world after pods came, each to any node and any GPUs with room, and some left."""
    world, running = World(cluster), list[Running]()
    for number, (kind, seed, leaves) in enumerate(steps):
        chance = random.Random(seed)
        admits = cluster.admits(kind.models) if kind.gpus else cluster.admits(())
        nodes = [node for node in range(len(cluster)) if admits[node] and fits(world, kind, node)]
        if nodes:
            node = chance.choice(nodes)
            rooms = world.room_milli[: int(cluster.gpus[node]), node].tolist()
            able = [slot for slot, room in enumerate(rooms) if room >= kind.gpu_milli]
            slots = tuple(chance.sample(able, kind.gpus))
            world.place(kind, node, slots)
            running.append(Running(number, kind, node, slots))
        if leaves and running:
            gone = running.pop(chance.randrange(len(running)))
            world.release(gone.kind, gone.node, gone.slots)
    return world, running
