"""What was read of a node's GPUs at one moment, before anybody judges it; None is what could not be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device or an instance: its PID on the host, its memory in MiB."""

    pid: int
    used_mib: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """A MIG profile the device supports; ``starts`` are None where placements may not be read."""

    name: str
    size: int | None
    starts: tuple[int, ...] | None
    max_instances: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """A MIG instance that exists, in units of the device's grid; its place is None where it may not be read.

    ``gpu_instance_id`` is NVML's number of the GPU instance, by which GKE's device plugin names it.
    """

    uuid: str
    profile: str
    start: int | None = None
    size: int | None = None
    gpu_instance_id: int | None = None
    processes: tuple[Process, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One GPU. Memory in MiB, ``used_mib`` without ``reserved_mib`` as in NVML v2.

    ``minor`` is the N of /dev/nvidiaN. ``faults`` are the conditions that make it unusable right now, such as
    "row remapping failed", each in a few words that do not vary; ``xids`` the XID events and ``ecc_errors``
    the number of uncorrectable ECC errors since the last reading. ``processes`` is None where they may not be
    seen.

    ``recovery_action`` is what the driver asks for, as NVML numbers it (0: nothing), None where it does not
    say. ``reset_pending`` is whether the GPU waits for a reset by any sign that NVML has of it, None where
    that cannot be read now.
    """

    uuid: str
    index: int
    total_mib: int
    minor: int | None = None
    vendor: str = "nvidia"
    product: str | None = None
    architecture: str | None = None
    compute_capability: tuple[int, int] | None = None
    reserved_mib: int | None = None
    used_mib: int | None = None
    utilization_percent: int | None = None
    numa_node: int | None = None
    pci_bus_id: str | None = None
    mig_enabled: bool | None = None
    grid_size: int | None = None
    profiles: tuple[ProfileReading, ...] = ()
    instances: tuple[InstanceReading, ...] = ()
    processes: tuple[Process, ...] | None = None
    faults: tuple[str, ...] = ()
    xids: tuple[int, ...] = ()
    ecc_errors: int = 0
    recovery_action: int | None = None
    reset_pending: bool | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All GPUs of a node. ``problem`` is set where none can be used now: no driver, or not this library's."""

    devices: tuple[DeviceReading, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    problem: str | None = None
