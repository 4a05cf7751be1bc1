"""Raw readings of a node's GPUs at one moment; None stands for a value that could not be read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device or an instance: its PID on the host, its memory in MiB, and whether it is
    a client of an MPS server, which computes for it."""

    pid: int
    used_mib: int | None = None
    mps: bool = False


@dataclass(frozen=True, slots=True)
class Samples:
    """The recent activity of a GPU. `computing` is whether anything used its engines, encoder and decoder
    included, and `busy_pids` are the processes that did since the last reading."""

    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    power_watts: float | None = None
    temperature_celsius: int | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    computing: bool | None = None
    busy_pids: frozenset[int] | None = None


NO_SAMPLES = Samples()


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """A MIG profile that the device supports; `starts` is None if placements may not be read."""

    name: str
    size: int | None
    starts: tuple[int, ...] | None
    max_instances: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """An existing MIG instance, in units of the device's grid; its place is None if it may not be read.
    `gpu_instance_id` is NVML's number of the GPU instance, which GKE's device plugin uses as a name."""

    uuid: str
    profile: str
    start: int | None = None
    size: int | None = None
    gpu_instance_id: int | None = None
    processes: tuple[Process, ...] | None = None
    samples: Samples = NO_SAMPLES


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One GPU. Memory in MiB, `used_mib` without `reserved_mib` as in NVML v2. `minor` is the N of
    /dev/nvidiaN. `faults` are the conditions that make the GPU unusable right now, such as "row remapping
    failed", each as a short constant text; `xids` are the XID events and `ecc_errors` the number of
    uncorrectable ECC errors since the last reading. `processes` is None if they may not be seen.
    `recovery_action` is the action that the driver asks for, as NVML numbers it (0: nothing), None if
    the driver does not say. `reset_pending` is whether any sign in NVML says that the GPU waits for a
    reset, None if that cannot be read now."""

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
    samples: Samples = NO_SAMPLES
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
    """All GPUs of a node. `problem` is set while none can be used, such as without a matching driver."""

    devices: tuple[DeviceReading, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    problem: str | None = None
