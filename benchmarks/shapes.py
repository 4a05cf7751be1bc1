"""The requests of a benchmark's pods: a dozen per kind, and the classes of nodes that fit each.

The same dozen is repeated, and the extender remembers more decisions than that: the figures are for pods
whose equals came before on an unchanged cluster. benchmarks.filtering measures new ones, too. Modest requests
name the H100 (or its compute capability) and fit EMPTY and PARTLY nodes; demanding requests leave the model
open and fit EMPTY and OTHER_MODEL nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.cluster import NodeClass
from benchmarks.inventory import MEMORY_SHARE_RESOURCE

_PREFIX = "gpu.scheduler-ext.io/"
_MODEL = f"{_PREFIX}model"
_COMPUTE = f"{_PREFIX}min-compute-capability"
_MODEST = frozenset({NodeClass.EMPTY, NodeClass.PARTLY})
_DEMANDING = frozenset({NodeClass.EMPTY, NodeClass.OTHER_MODEL})


@dataclass(frozen=True, slots=True)
class PodShape:
    """The resources that each container requests, the pod's annotations, and the node classes with room for
    it.
    """

    containers: tuple[Mapping[str, str], ...]
    fits: frozenset[NodeClass]
    annotations: Mapping[str, str] = field(default_factory=dict)


def _modest(*containers: Mapping[str, str], **annotations: str) -> PodShape:
    wishes = {_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    if _COMPUTE not in wishes:
        wishes.setdefault(_MODEL, "H100-80GB")
    return PodShape(containers, _MODEST, wishes)


def _demanding(*containers: Mapping[str, str], **annotations: str) -> PodShape:
    wishes = {_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return PodShape(containers, _DEMANDING, wishes)


def _gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)}


def _share(memory_mib: int) -> dict[str, str]:
    return {MEMORY_SHARE_RESOURCE: str(memory_mib)}


def _mig(**counts: int) -> dict[str, str]:
    names = {"one": "1g.10gb", "two": "2g.20gb", "three": "3g.40gb"}
    return {f"nvidia.com/mig-{names[key]}": str(count) for key, count in counts.items()}


SHAPES: dict[str, tuple[PodShape, ...]] = {
    "whole": (
        _modest(_gpus(1)),
        _demanding(_gpus(8)),
        _modest(_gpus(2), model="H100"),
        _demanding(_gpus(5)),
        _modest(_gpus(4), min_compute_capability="9.0"),
        _demanding(_gpus(6), model="A100-80GB,H100-80GB"),
        _modest(_gpus(3)),
        _demanding(_gpus(8), min_memory="40Gi"),
        _modest(_gpus(1), min_free_memory="60Gi"),
        _demanding(_gpus(7), min_cuda="12.4"),
        _modest(_gpus(4), strategy="binpack"),
        _demanding(_gpus(4), _gpus(4), strategy="spread"),
    ),
    "share": (
        _modest(_share(2_048)),
        _demanding(_share(36_864)),
        _modest(_share(4_096), model="H100"),
        _demanding(_share(40_960)),
        _modest(_share(8_192), min_compute_capability="9.0"),
        _demanding(_share(45_056), model="A100-80GB,H100-80GB"),
        _modest(_share(12_288), _share(4_096)),
        _demanding(_share(49_152), min_memory="40Gi"),
        _modest(_share(16_384), strategy="binpack"),
        _demanding(_share(40_960), _share(36_864)),
        _modest(_share(20_480), strategy="spread"),
        _demanding(_share(38_912), min_cuda="12.4"),
    ),
    "mig": (
        _modest(_mig(one=1)),
        _demanding(_mig(two=1)),
        _modest(_mig(one=2), model="H100"),
        _demanding(_mig(three=1)),
        _modest(_mig(one=3), min_compute_capability="9.0"),
        _demanding(_mig(three=2), model="A100-80GB,H100-80GB"),
        _modest(_mig(one=1), _mig(one=1)),
        _demanding(_mig(two=1), _mig(three=1)),
        _modest(_mig(one=4), strategy="binpack"),
        _demanding(_mig(one=2, three=1)),
        _modest(_mig(one=2), strategy="spread"),
        _demanding(_mig(two=2), min_cuda="12.4"),
    ),
}
