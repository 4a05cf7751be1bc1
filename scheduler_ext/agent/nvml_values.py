"""Typed values of NVML calls."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType

from scheduler_ext.agent.node_reading import Process

# Pointers to a GPU or MIG device and to a set of events; only nvml.py dereferences them.
Handle = NewType("Handle", object)
EventSet = NewType("EventSet", object)

# nvmlDeviceArchitecture_t, in the words of GPU feature discovery's label nvidia.com/gpu.family.
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada-lovelace",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}


class MigMode(enum.Enum):
    """A GPU's present MIG mode."""

    UNSUPPORTED = enum.auto()
    OFF = enum.auto()
    ON = enum.auto()


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Whether memory rows wait for a reset to be remapped, and whether remapping failed because no spare row
    was left.
    """

    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """A GPU's memory; without ``reserved_mib``, ``used_mib`` includes it."""

    total_bytes: int
    used_mib: int
    reserved_mib: int | None


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """A GPU instance profile: ``index`` to ask for it, ``number`` for its placements, its name or None."""

    index: int
    number: int
    name: str | None
    slices: int
    instances: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Attributes:
    """A MIG device's share: slices of the GPU, compute slices, MiB."""

    gpu_slices: int
    compute_slices: int
    memory_mib: int


def mib(size: int) -> int:
    """MiB from bytes, rounded up, so that no used memory looks free."""
    return -(-size >> 20)


def merged(entries: Iterable[tuple[int, int | None]]) -> tuple[Process, ...]:
    """Processes by PID, merged from several lists of (PID, bytes); the largest memory counts for a process in
    several lists.
    """
    used: dict[int, int | None] = {}
    for pid, size in entries:
        used[pid] = max((known for known in (used.get(pid), size) if known is not None), default=None)
    return tuple(Process(pid, None if size is None else mib(size)) for pid, size in sorted(used.items()))
