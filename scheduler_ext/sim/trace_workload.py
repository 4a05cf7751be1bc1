"""What pods of a trace ask, and which kind of pod that is to the core."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.pod_kinds import TaskClass

# A trace's GPU is a device of this many MiB, all of them for shares.
GPU_MILLI = 1000


@dataclass(frozen=True, slots=True)
class PodKind:
    """All that scheduling looks at: thousandths of a core, MiB of main memory, GPUs and thousandths of each.

    ``gpu_milli`` below 1,000 is a share of one GPU; ``models`` are the ones it admits, sorted, any where
    there are none.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether it asks a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < GPU_MILLI

    @property
    def demand_milli(self) -> int:
        """Thousandths of a GPU in all."""
        return self.gpus * self.gpu_milli

    @property
    def request_class(self) -> str:
        """What is asked of GPUs, as reports group it: cpu-only, share, 1-gpu, 2-gpu...; constrained ones by
        themselves."""
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


def task_class(kind: PodKind) -> TaskClass:
    """The kind of pod as the core's scores know it; main memory is no part of it."""
    cpu_milli = core_cpu_milli(kind.cpu_milli)
    if not kind.gpus:
        return TaskClass(cpu_milli=cpu_milli)
    if kind.is_share:
        return TaskClass(cpu_milli=cpu_milli, shares_mib=(kind.gpu_milli,), models=kind.models)
    return TaskClass(cpu_milli=cpu_milli, gpus=kind.gpus, models=kind.models)


def core_cpu_milli(cpu_milli: int) -> int:
    """An amount of CPU as the core takes it: no more than has room in its columns, as on the wire."""
    return min(UNLIMITED, cpu_milli)
