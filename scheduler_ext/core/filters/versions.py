"""Is the GPU's architecture new enough, and does the driver support the CUDA version that the pod needs?"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from scheduler_ext.core.framework.criterion import Change, Filter, Lower, Trial, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason, lacking_part, where
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeState, version_number
from scheduler_ext.core.request.request import GpuRequest


def _text(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}"


def _older_version(field: str, offered: Callable[[NodeState], Iterable[int]]) -> Lower:
    """Lowers a field with a version to the newest of the `offered` ones that fits."""

    def lower(request: GpuRequest, trial: Trial) -> Change | None:
        asked: tuple[int, ...] = getattr(request, field)
        numbers = {number for state in trial.snapshot.states for number in offered(state)} - {0}
        for number in sorted(numbers, reverse=True):
            version = (number // 1_000_000, number // 1000 % 1000)
            changed = replace(request, **{field: version})  # type: ignore[arg-type]  # a version by its name
            if number < version_number(asked) and trial.fits(changed):
                return f'"{_text(number)}" instead of "{".".join(map(str, asked))}"', changed
        return None

    return lower


class _VersionFilter(Filter):
    """A least version; an unknown one does not pass."""

    kind = MissKind.SIZE
    field: ClassVar[str]

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and getattr(request, self.field) is not None

    def needed(self, view: View) -> int:
        return version_number(getattr(view.request, self.field))

    def below(self, view: View, uuid: str | None, number: int, unit: str) -> NearestMiss:
        needed = ".".join(map(str, getattr(view.request, self.field)))
        return NearestMiss(self.name, uuid, needed, _text(number) if number else None, unit)

    def lacks(self, miss: NearestMiss) -> float:
        if miss.have is None:
            return 1.0
        needed, have = (
            version_number(tuple(map(int, str(version).split(".")))) for version in (miss.needed, miss.have)
        )
        return lacking_part(needed, have)


class ComputeCapability(_VersionFilter):
    """Keeps GPUs of at least the requested compute capability."""

    name = "compute-capability"
    reason = Reason(
        "node(s) had too low a compute capability",
        "The node's GPUs have a lower CUDA compute capability than requested, or do not report one.",
        "Use nodes with newer GPUs, or lower gpu.scheduler-ext.io/min-compute-capability.",
    )
    field = "min_compute_capability"
    relaxed: ClassVar = {
        "min-compute-capability": _older_version(
            field, lambda state: (slot.compute_capability for slot in state.slots)
        )
    }

    def passes(self, view: View) -> Bools:
        needed = self.needed(view)
        return view.narrow(lambda gpu: gpu.compute_capability >= needed)

    def miss(self, view: View, node: Node) -> NearestMiss:
        low = [(slot.compute_capability, uuid) for uuid, slot in node.gpus]
        low = [pair for pair in low if pair[0] < self.needed(view)]
        number, uuid = max(low, key=lambda pair: pair[0], default=(0, None))
        return self.below(view, uuid, number, "compute capability")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        known = f"compute capability {miss.have}" if miss.have else "an unknown compute capability"
        return f"{where(node, miss.device)} has {known}; the pod needs {miss.needed}"


class Cuda(_VersionFilter):
    """Refuses nodes whose driver supports a lower CUDA version than requested."""

    name = "cuda"
    reason = Reason(
        "node(s) had too old a CUDA driver",
        "The node's driver supports a lower CUDA version than min-cuda, or does not report one.",
        "Upgrade the driver, or lower gpu.scheduler-ext.io/min-cuda.",
    )
    field = "min_cuda"
    relaxed: ClassVar = {"min-cuda": _older_version(field, lambda state: (state.cuda,))}

    def passes(self, view: View) -> Bools:
        return view.snapshot.node.cuda >= self.needed(view)

    def miss(self, view: View, node: Node) -> NearestMiss:
        return self.below(view, None, node.state.cuda, "CUDA version")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        does = f"supports CUDA {miss.have}" if miss.have else "does not say which CUDA it supports"
        return f"the driver of {node.info.name} {does}; the pod needs {miss.needed}"
