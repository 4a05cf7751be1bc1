"""The pods of a trace, and their requests and GPU models as the core reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler_ext.core.gpu.models import GpuModel, canonical_model, normalise_wish
from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.pod_kinds import TaskClass

# A trace's GPU is a device of this many MiB, all of them for shares.
GPU_MILLI = 1000


@dataclass(frozen=True, slots=True)
class PodKind:
    """A request: thousandths of a core, MiB of main memory, GPUs and thousandths of each. ``gpu_milli`` below
    1,000 is a share of one GPU. ``models`` are the admitted models, sorted; empty admits all."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()

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
    """One pod of a trace."""

    name: str
    kind: PodKind
    qos: str = ""
    priority: int = 0


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
def wish_of(name: str) -> str:
    """The model or family that a pod names, as in GpuModel."""
    try:
        return normalise_wish(name)
    except ValueError:
        # The name is no product's, but a node of the trace may have it.
        return model_of(name).name


def admits(wishes: Sequence[str], model: GpuModel) -> bool:
    """Whether a pod that names these models admits GPUs of this one; a pod that names none admits all."""
    return not wishes or any(wish_of(wish) in (model.name, model.family) for wish in wishes)
