"""One GPU as its node's agent reported it."""

from collections.abc import Hashable
from dataclasses import dataclass

from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import least_memory_mib
from scheduler_ext.core.gpu.models import GpuModel


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device or an instance, as the agent saw it: uid or namespace and name, either may lack."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance that exists: units `[start, start + size)` of the device's placement grid. `start`
    is None if the agent may not read it; the instance counts by its profile then. `offered` is the profile by
    which the device plugin hands it out, if that is another one."""

    uuid: str
    profile: str
    start: int | None
    size: int
    holder: Holder | None = None
    offered: str | None = None

    @property
    def offered_as(self) -> str:
        """The profile that pods request to get it."""
        return self.offered or self.profile

    @property
    def mask(self) -> int:
        """The grid units it occupies, as a bit mask; 0 if its place is not known."""
        return 0 if self.start is None else ((1 << self.size) - 1) << self.start


@dataclass(frozen=True, slots=True)
class Mig:
    """A device's MIG state; `geometry` is its own placements, else the package's table, else None."""

    enabled: bool = False
    creatable: bool = False
    geometry: Geometry | None = None
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """A device's memory in MiB as NVML v2 counts it: `used` is without `reserved`. `unaccounted` is use
    that no known pod explains; None if use cannot be attributed. A total of 0 is unknown: the driver states
    no memory of GPUs that share the CPU's (DGX Spark and Jetson: NVML, "not supported"). `stated`: such a
    total is that of labels or of the model's table."""

    total_mib: int
    reserved_mib: int = 0
    used_mib: int = 0
    unaccounted_mib: int | None = None
    stated: bool = False

    @property
    def measured(self) -> bool:
        """Whether the driver states the memory, and so its use."""
        return self.total_mib > 0 and not self.stated


@dataclass(frozen=True, slots=True)
class Device:
    """One physical GPU of a report; one that an operator cordoned keeps what it has and takes nothing new."""

    uuid: str
    index: int
    vendor: str
    product: str
    model: GpuModel
    compute_capability: tuple[int, int] | None
    memory: Memory
    healthy: bool = True
    health_reason: str = ""
    cordoned: bool = False
    mig: Mig = Mig()
    holders: tuple[Holder, ...] = ()
    pci_bus_id: str | None = None
    numa_node: int | None = None

    @property
    def likeness(self) -> Hashable:
        """What decisions about it depend on, apart from what pods hold of it."""
        state = self.healthy, self.cordoned, self.memory, self.mig
        return self.vendor, self.model, self.compute_capability, *state

    def instance_memory_mib(self, instance: MigInstance) -> int:
        """As reported or tabled, otherwise its part of the grid, or what its name states at least."""
        geometry = self.mig.geometry
        if geometry is None:
            return least_memory_mib(instance.profile) or 0
        profile = geometry.profile(instance.profile)
        if profile is not None and profile.memory_mib is not None:
            return profile.memory_mib
        return self.memory.total_mib * instance.size // geometry.grid


@dataclass(frozen=True, slots=True)
class Report:
    """What one node's agent reported, or what its ResourceSlices list if `from_slices`. `cordoned_strangers`
    are cordoned UUIDs that no device has. `own_replicas` are those of resources that have not `replicas`:
    by profile, "" for whole GPUs."""

    devices: tuple[Device, ...]
    driver_version: str | None = None
    cuda_version: tuple[int, ...] | None = None
    mig_strategy: str = "none"
    sharing_strategy: str = "none"
    replicas: int = 1
    boot_id: str | None = None
    sequence: int | None = None
    reported_at: str | None = None
    cordoned_strangers: tuple[str, ...] = ()
    from_slices: bool = False
    own_replicas: tuple[tuple[str, int], ...] = ()

    def replicas_of(self, profile: str = "") -> int:
        """How many pods may share a GPU that is handed out whole, or an instance of a profile."""
        if self.sharing_strategy == "none":
            return 1
        return next((count for name, count in self.own_replicas if name == profile), self.replicas)

    def hands_out_instances(self, device: Device) -> bool:
        """Whether pods get instances of the GPU instead of all of it. Under strategy none the device plugin
        hands out a GPU in MIG mode like any other (k8s-device-plugin, internal/rm/device_map.go)."""
        return device.mig.enabled and self.mig_strategy != "none"
