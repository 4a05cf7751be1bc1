"""One GPU over time: constant values are read once, and the last known values are kept."""

from dataclasses import replace

from scheduler_ext.agent import nvml_errors
from scheduler_ext.agent.node_reading import DeviceReading
from scheduler_ext.agent.nvml import Handle, MigMode, Nvml
from scheduler_ext.agent.nvml_mig import grid_size, read_instances, read_profiles
from scheduler_ext.agent.nvml_samples import Sampler

# nvmlDeviceArchitecture_t, in the words of GPU feature discovery's label nvidia.com/gpu.family.
_ARCHITECTURES = {
    **dict(enumerate(("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada-lovelace"), 2)),
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}


class TrackedDevice:
    """A GPU whose UUID was read. `handle` is None while it cannot be reached, for the reason in `fault`.
    A GPU that fails keeps its last known MIG instances, because pods still hold them."""

    def __init__(self, known: DeviceReading) -> None:
        """`known` is the reading to report until the GPU can be read."""
        self.uuid = known.uuid
        self.index = known.index
        self.handle: Handle | None = None
        self.fault = nvml_errors.CANNOT_BE_READ
        self._fixed = known
        self._fixed_for: MigMode | None = None
        self._complete = False
        self._total_bytes: int | None = None
        self._remap_failed = False
        self._ecc_errors: int | None = None
        self._sampler = Sampler()

    def forget(self, fault: str) -> None:
        """Drop the handle; all values are read again when the GPU returns."""
        self.handle = None
        self.fault = fault
        self._complete = False
        self._fixed_for = None

    def read(self, nvml: Nvml) -> DeviceReading:
        """The GPU now; one that fails while it is read is reported with its fault."""
        if self.handle is not None:
            try:
                return self._read(nvml, self.handle)
            except nvml_errors.DeviceLost as lost:
                self.forget(str(lost))
            except nvml_errors.NotThere:
                self.forget(nvml_errors.CANNOT_BE_READ)
        # Only a reset ends either state.
        waits = True if self.fault in (nvml_errors.GPU_IS_LOST, nvml_errors.RESET_REQUIRED) else None
        return replace(self.last_known(), faults=(self.fault,), reset_pending=waits)

    def last_known(self) -> DeviceReading:
        """The last known GPU without the values that change from moment to moment."""
        instances = tuple(replace(instance, processes=None) for instance in self._fixed.instances)
        return replace(self._fixed, index=self.index, instances=instances)

    def _read(self, nvml: Nvml, handle: Handle) -> DeviceReading:
        # Instances do not change while the call fails, because pods hold them.
        mode = nvml.mig_mode(handle) or self._fixed_for
        memory = nvml.memory(handle)
        if memory is not None:
            self._total_bytes = memory[0]
        if not self._complete or mode is not self._fixed_for:
            self._read_fixed(nvml, handle, mode)
        enabled = mode is MigMode.ON
        if self._total_bytes is not None:
            total_mib = self._total_bytes >> 20
        else:
            # About 1 % too low: the memory of the largest profile, where a GPU's memory may not be read.
            total_mib = max((profile.memory_mib or 0 for profile in self._fixed.profiles), default=0)
        instances = read_instances(nvml, handle, self._total_bytes) if enabled else ()
        self._fixed = replace(self._fixed, total_mib=total_mib, instances=instances)
        failures = nvml.passing_failures
        action = nvml.recovery_action(handle)
        fault, pending = self._memory_state(nvml, handle)
        if not (action or pending) and nvml.passing_failures != failures:
            pending = None
        samples = self._sampler.read(nvml, handle, mig=enabled)
        # Under MIG all processes run on instances.
        processes = () if enabled else nvml.processes(handle)
        # Last, because errors count once: no call may fail after it.
        before, count = self._ecc_errors, nvml.uncorrected_ecc_errors(handle)
        self._ecc_errors = before if count is None else count
        _, used_mib, reserved_mib = memory or (0, self._fixed.used_mib, self._fixed.reserved_mib)
        return replace(
            self._fixed,
            index=self.index,
            used_mib=used_mib,
            reserved_mib=reserved_mib,
            samples=samples,
            processes=processes,
            faults=() if fault is None else (fault,),
            # A reset sets the count back to 0; the errors of the first reading may be old.
            ecc_errors=0 if count is None or before is None else max(0, count - before),
            recovery_action=action,
            reset_pending=True if action else pending,
        )

    def _memory_state(self, nvml: Nvml, handle: Handle) -> tuple[str | None, bool | None]:
        """A memory fault, and whether rows or pages wait for a reset; None if the GPU does not say."""
        rows = nvml.get("nvmlDeviceGetRemappedRows", handle)
        pending: bool | None
        if rows is not None:
            _, _, waiting, failed = rows
            pending, self._remap_failed = bool(waiting), bool(failed)
        else:
            # Older GPUs retire pages. A GPU with MIG instances does not answer either question; a failed
            # remapping does not heal meanwhile.
            pages = nvml.get("nvmlDeviceGetRetiredPagesPendingStatus", handle)
            if pages:
                return nvml_errors.PAGE_RETIREMENT_PENDING, True
            pending = None if pages is None and self._fixed.instances else False
        return (nvml_errors.ROW_REMAPPING_FAILED if self._remap_failed else None), pending

    def _read_fixed(self, nvml: Nvml, handle: Handle, mode: MigMode | None) -> None:
        failures = nvml.passing_failures
        capable = mode is not None and mode is not MigMode.UNSUPPORTED
        profiles = read_profiles(nvml, handle, self._total_bytes) if capable else ()
        self._fixed = DeviceReading(
            uuid=self.uuid,
            index=self.index,
            total_mib=self._fixed.total_mib,
            minor=nvml.get("nvmlDeviceGetMinorNumber", handle),
            product=nvml.get("nvmlDeviceGetName", handle),
            architecture=_ARCHITECTURES.get(nvml.get("nvmlDeviceGetArchitecture", handle) or 0),
            compute_capability=nvml.get("nvmlDeviceGetCudaComputeCapability", handle),
            numa_node=nvml.numa_node(handle),
            pci_bus_id=nvml.pci_bus_id(handle),
            mig_enabled=None if mode is None else mode is MigMode.ON,
            grid_size=grid_size(profiles),
            profiles=profiles,
            # The last known instances, in case they cannot be read now.
            instances=self._fixed.instances,
        )
        self._fixed_for = mode
        self._complete = nvml.passing_failures == failures
