"""The pods of a trace, their requests and GPU models as the core reads them, and the workload that a policy
expects."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.gpu.models import GpuModel, canonical_model, normalise_model
from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.pod_kinds import UNKNOWN, RecentWorkload, TaskClass, Workload

# A trace's GPU is a device of this many MiB, all of them for shares.
GPU_MILLI = 1000
# The first interval between updates in pods; it doubles up to the last one.
_FIRST_INTERVAL = 25
_LAST_INTERVAL = 800
_MOST_FIRST = 999_999_999
_FIRST_PATTERN = re.compile(r"first:([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class PodKind:
    """A request: thousandths of a core, MiB of main memory, GPUs and thousandths of each. `gpu_milli` below
    1,000 is a share of one GPU. `models` are the admitted models, sorted; empty admits all. `spot` is
    whether its priority makes it prefer spot nodes (True), avoid them (False), or neither (None)."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()
    spot: bool | None = None

    @property
    def is_share(self) -> bool:
        """Whether it requests a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < GPU_MILLI

    @property
    def demand_milli(self) -> int:
        """Thousandths of a GPU in all."""
        return self.gpus * self.gpu_milli

    @property
    def request_class(self) -> str:
        """The class of the request in reports: cpu-only, share, 1-gpu, 2-gpu...; -constrained for models."""
        if not self.gpus:
            return "cpu-only"
        asked = "share" if self.is_share else f"{self.gpus}-gpu"
        return f"{asked}-constrained" if self.models else asked


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod of a trace; pods of one `gang` start together."""

    name: str
    kind: PodKind
    qos: str = ""
    priority: int = 0
    gang: str = ""

    @property
    def gpus(self) -> float:
        """The requested GPUs, parts of one included."""
        return self.kind.demand_milli / GPU_MILLI


@lru_cache(maxsize=4096)
def task_class(kind: PodKind) -> TaskClass:
    """The class of the pod in the core, without main memory."""
    cpu_milli = core_cpu_milli(kind.cpu_milli)
    if not kind.gpus:
        return TaskClass(cpu_milli=cpu_milli)
    if kind.is_share:
        return TaskClass(cpu_milli=cpu_milli, shares_mib=(kind.gpu_milli,), models=kind.models)
    return TaskClass(cpu_milli=cpu_milli, gpus=kind.gpus, models=kind.models)


def core_cpu_milli(cpu_milli: int) -> int:
    """An amount of CPU as in the core: at most UNLIMITED, as on the wire."""
    return min(UNLIMITED, cpu_milli)


@lru_cache(maxsize=4096)
def model_of(name: str) -> GpuModel:
    """The model of a node's GPUs, from its name in a trace."""
    return canonical_model(name, vendor="nvidia")


@lru_cache(maxsize=4096)
def model_name_of(name: str) -> str:
    """The model or family that a pod names, as in GpuModel."""
    try:
        return normalise_model(name)
    except ValueError:
        # The name is no product's, but a node of the trace may have it.
        return model_of(name).name


def admits(wanted: Sequence[str], model: GpuModel) -> bool:
    """Whether a pod that names these models admits GPUs of this one; a pod that names none admits all."""
    return not wanted or any(model_name_of(name) in (model.name, model.family) for name in wanted)


def workload_of(pods: Sequence[TracePod]) -> Workload:
    """The workload of all these pods."""
    return Workload.of(Counter(task_class(pod.kind) for pod in pods))


def first_count(target: str) -> int | None:
    """N of a target "first:N"; None for the targets "trace" and "online". Raises SimulationError for anything
    else."""
    match = _FIRST_PATTERN.fullmatch(target)
    if match is None and target not in ("trace", "online"):
        raise SimulationError(
            f"target {target[:80]}: unknown; write trace, online, or first:N with N of 1 to {_MOST_FIRST}"
        )
    return int(match[1]) if match else None


class Expectation:
    """The expected workload, updated by arriving pods; only the target "trace" knows later pods."""

    def __init__(self, target: str, pods: Sequence[TracePod]) -> None:
        self._first = first_count(target)
        self._online = target == "online"
        self.workload = workload_of(pods) if target == "trace" else UNKNOWN
        # Of the first N, all pods count alike: none is forgotten.
        self._seen = (
            RecentWorkload(HALF_LIFE_PODS, UNKNOWN_PODS) if self._online else RecentWorkload(float("inf"))
        )
        self._due = self._first or _FIRST_INTERVAL

    def add(self, kind: PodKind) -> Workload | None:
        """Count a pod; the new workload to expect, None for no change."""
        if not self._online and (self._first is None or self._seen.seen >= self._first):
            return None
        self._seen.add(task_class(kind))
        if self._seen.seen < self._due:
            return None
        self._due += min(self._due, _LAST_INTERVAL)
        self.workload = self._seen.workload()
        return self.workload
