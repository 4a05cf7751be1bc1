"""NVML as typed values and own exceptions; the only file that uses pynvml, and handles its traps.

pynvml keeps the library and its function pointers per process: one Nvml at a time, on one thread. A GPU's
handle does not expire, so a call that rejects its arguments says nothing about the GPU.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from scheduler_ext.agent.node_reading import Process
from scheduler_ext.agent.nvml_calls import Calls
from scheduler_ext.agent.nvml_errors import (
    CANNOT_BE_READ,
    NOT_COUNTED,
    NOT_LOADABLE,
    NOT_STARTING,
    DeviceLost,
    DriverGone,
    NotReadable,
    NotThere,
    NvmlError,
)
from scheduler_ext.agent.nvml_values import (
    ARCHITECTURES,
    Attributes,
    EventSet,
    Handle,
    MemoryInfo,
    MigMode,
    ProfileInfo,
    RemappedRows,
    merged,
    mib,
)

log = logging.getLogger(__name__)

_NODE_MASK_WORDS = 16


class Nvml(Calls):
    """NVML's calls. An unreadable value is None, unless the docstring says that the call raises NotReadable.

    Every call may raise DriverGone; calls on a GPU DeviceLost, calls on a MIG device NotThere once the device
    is gone.
    """

    def __init__(self, library: Path | None = None, beat: Callable[[], None] = lambda: None) -> None:
        """``beat`` is called before each call, which distinguishes one hanging call from many that return."""
        super().__init__()
        self._beat = beat
        self._library = library
        self._open = False

    def open(self) -> None:
        """Load the library, by its own name unless a path was given, and initialise it; raises DriverGone."""
        # Otherwise pointers into a library loaded before would be called.
        pynvml._nvmlGetFunctionPointer_cache.clear()
        if self._library is not None:
            try:
                pynvml.nvmlLib = ctypes.CDLL(str(self._library))
            except OSError as error:
                raise DriverGone(f"{NOT_LOADABLE}{error}") from error
        try:
            self._ask("nvmlInit")
        except DriverGone:
            raise
        except NvmlError as error:
            raise DriverGone(f"{NOT_STARTING}{error}") from error
        self._open = True

    def close(self) -> None:
        """Shut NVML down; a failure has no consequences and is only logged."""
        if not self._open:
            return
        self._open = False
        try:
            self._ask("nvmlShutdown")
        except NvmlError as error:
            log.debug("NVML did not shut down: %s", error)

    def driver_version(self) -> str | None:
        value: str | None = self._of_node("nvmlSystemGetDriverVersion")
        return value

    def cuda_version(self) -> str | None:
        """The CUDA version of the driver, such as "12.8"."""
        version = self._of_node("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}" if version else None

    def device_count(self) -> int:
        try:
            return int(self._ask("nvmlDeviceGetCount"))
        except (NotReadable, NotThere, DeviceLost) as error:
            raise DriverGone(f"{NOT_COUNTED}{error}") from error

    def device(self, index: int) -> Handle:
        """Raises NotReadable and NotThere."""
        return Handle(self._ask("nvmlDeviceGetHandleByIndex", index))

    def address(self, handle: Handle) -> int:
        """The identity of a handle: NVML returns the same one for a GPU each time."""
        return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]

    def uuid(self, handle: Handle) -> str:
        """The UUID of a GPU or a MIG device; raises NotReadable."""
        return str(self._ask("nvmlDeviceGetUUID", handle))

    def name(self, gpu: Handle) -> str | None:
        value: str | None = self._of_gpu("nvmlDeviceGetName", gpu)
        return value

    def mig_name(self, mig_device: Handle) -> str | None:
        value: str | None = self._optional("nvmlDeviceGetName", mig_device)
        return value

    def minor_number(self, gpu: Handle) -> int | None:
        value: int | None = self._of_gpu("nvmlDeviceGetMinorNumber", gpu)
        return value

    def pci_bus_id(self, gpu: Handle) -> str | None:
        """In Linux's spelling, 0000:3b:00.0; NVML has eight digits before the first colon, and capitals."""
        info = self._of_gpu("nvmlDeviceGetPciInfo", gpu)
        text = None if info is None else self._text("nvmlDeviceGetPciInfo", info, "busId")
        domain, _, rest = (text or "").lower().partition(":")
        try:
            return f"{int(domain, 16):04x}:{rest}"
        except ValueError:
            return None

    def architecture(self, gpu: Handle) -> str | None:
        return ARCHITECTURES.get(self._of_gpu("nvmlDeviceGetArchitecture", gpu))

    def compute_capability(self, gpu: Handle) -> tuple[int, int] | None:
        value: tuple[int, int] | None = self._of_gpu("nvmlDeviceGetCudaComputeCapability", gpu)
        return value

    def numa_node(self, gpu: Handle) -> int | None:
        """The nearest NUMA node; None if several are nearest."""
        scope = pynvml.NVML_AFFINITY_SCOPE_NODE
        words = self._of_gpu("nvmlDeviceGetMemoryAffinity", gpu, _NODE_MASK_WORDS, scope)
        nodes: int = sum(word << 64 * i for i, word in enumerate(words or ()))
        return nodes.bit_length() - 1 if nodes.bit_count() == 1 else None

    def memory(self, gpu: Handle) -> MemoryInfo | None:
        """None if not supported or not permitted; any other failure makes the GPU unusable."""
        info = self._of_gpu("nvmlDeviceGetMemoryInfo", gpu, pynvml.nvmlMemory_v2)
        if info is not None:
            return MemoryInfo(info.total, mib(info.used), mib(info.reserved))
        try:
            info = self._ask("nvmlDeviceGetMemoryInfo", gpu)
        except NotReadable as error:
            if error.absent or error.denied:
                return None
            raise DeviceLost(CANNOT_BE_READ) from error
        return MemoryInfo(info.total, mib(info.used), None)

    def utilization_percent(self, gpu: Handle) -> int | None:
        rates = self._of_gpu("nvmlDeviceGetUtilizationRates", gpu)
        return None if rates is None else min(int(rates.gpu), 100)

    def remapped_rows(self, gpu: Handle) -> RemappedRows | None:
        rows = self._of_gpu("nvmlDeviceGetRemappedRows", gpu)
        return None if rows is None else RemappedRows(pending=bool(rows[2]), failed=bool(rows[3]))

    def recovery_action(self, gpu: Handle) -> int | None:
        """The action that the driver asks for, from nvmlDeviceGpuRecoveryAction_t; None before R565."""
        function = "nvmlDeviceGetFieldValues"
        values = self._of_gpu(function, gpu, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if values is None:
            return None
        code = values[0].nvmlReturn
        if code == pynvml.NVML_SUCCESS:
            return int(values[0].value.uiVal)
        error = self._ours(function, code, str(pynvml.NVMLError(code)))
        if isinstance(error, DeviceLost | DriverGone):
            raise error
        return None

    def page_retirement_pending(self, gpu: Handle) -> bool | None:
        """For GPUs older than row remapping."""
        pending = self._of_gpu("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
        return None if pending is None else bool(pending)

    def uncorrected_ecc_errors(self, gpu: Handle) -> int | None:
        """The number of errors since the driver was loaded or the GPU was reset."""
        kinds = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        count: int | None = self._of_gpu("nvmlDeviceGetTotalEccErrors", gpu, *kinds)
        return count

    def processes(self, gpu: Handle) -> tuple[Process, ...] | None:
        """Compute, graphics and MPS processes, by PID."""
        return self._processes(self._of_gpu, gpu)

    def mig_processes(self, mig_device: Handle) -> tuple[Process, ...] | None:
        return self._processes(self._optional, mig_device)

    def _processes(self, ask: Callable[..., Any], handle: Handle) -> tuple[Process, ...] | None:
        kinds = ("Compute", "Graphics", "MPSCompute")
        lists = [ask(f"nvmlDeviceGet{kind}RunningProcesses", handle) for kind in kinds]
        if lists[0] is None:
            return None
        return merged((entry.pid, entry.usedGpuMemory) for entries in lists for entry in entries or ())

    def mig_mode(self, gpu: Handle) -> MigMode | None:
        try:
            current, _ = self._ask("nvmlDeviceGetMigMode", gpu)
        except NotReadable as error:
            return MigMode.UNSUPPORTED if error.absent else None
        except NotThere:
            return None
        return MigMode.ON if current == pynvml.NVML_DEVICE_MIG_ENABLE else MigMode.OFF

    def profile(self, gpu: Handle, index: int) -> ProfileInfo | None:
        """None if the GPU has no such profile; raises NotThere past the last index."""
        function, name = "nvmlDeviceGetGpuInstanceProfileInfo", None
        info = self._optional(function, gpu, index)
        if info is not None:
            name = (self._text(function, info, "name") or "").removeprefix("MIG ") or None
        else:
            # With an older library, or with MIG mode off, the first version of the structure answers, without
            # a name.
            info = self._optional(function, gpu, index, 1)
        if info is None:
            return None
        return ProfileInfo(index, info.id, name, info.sliceCount, info.instanceCount, info.memorySizeMB)

    def placements(self, gpu: Handle, profile_number: int) -> tuple[tuple[int, int], ...] | None:
        """The possible places of a profile's instances, each (start, size); privileged."""
        function, count = "nvmlDeviceGetGpuInstancePossiblePlacements", ctypes.c_uint()
        if self._of_gpu(function, gpu, profile_number, None, ctypes.byref(count)) is None:
            return None
        places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        if self._of_gpu(function, gpu, profile_number, places, ctypes.byref(count)) is None:
            return None
        return tuple((place.start, place.size) for place in places[: count.value])

    def max_mig_devices(self, gpu: Handle) -> int:
        return self._of_gpu("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0

    def mig_device(self, gpu: Handle, index: int) -> Handle | None:
        """None if there is no device at this index; more may follow."""
        handle = self._of_gpu("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        return None if handle is None else Handle(handle)

    def gpu_instance_id(self, mig_device: Handle) -> int | None:
        value: int | None = self._optional("nvmlDeviceGetGpuInstanceId", mig_device)
        return value

    def attributes(self, mig_device: Handle) -> Attributes | None:
        info = self._optional("nvmlDeviceGetAttributes_v2", mig_device)
        if info is None:
            return None
        return Attributes(info.gpuInstanceSliceCount, info.computeInstanceSliceCount, info.memorySizeMB)

    def placement(self, gpu: Handle, gpu_instance_id: int) -> tuple[int, int] | None:
        """(start, size) of a GPU instance; privileged."""
        instance = self._of_gpu("nvmlDeviceGetGpuInstanceById", gpu, gpu_instance_id)
        info = None if instance is None else self._of_gpu("nvmlGpuInstanceGetInfo", instance)
        return None if info is None else (info.placement.start, info.placement.size)

    def event_set(self) -> EventSet:
        """Raises NotReadable."""
        return EventSet(self._ask("nvmlEventSetCreate"))

    def free_event_set(self, events: EventSet) -> None:
        self._optional("nvmlEventSetFree", events)

    def register_xids(self, gpu: Handle, events: EventSet) -> None:
        """From now on; a GPU without such events stays silent."""
        types = self._of_gpu("nvmlDeviceGetSupportedEventTypes", gpu) or 0
        if types & pynvml.nvmlEventTypeXidCriticalError:
            self._of_gpu("nvmlDeviceRegisterEvents", gpu, pynvml.nvmlEventTypeXidCriticalError, events)

    def next_xid(self, events: EventSet) -> tuple[Handle, int] | None:
        """The oldest unread event, its GPU and XID, without waiting; raises NotReadable."""
        try:
            event = self._ask("nvmlEventSetWait_v2", events, 0)
        except NotReadable as error:
            if error.timeout:
                return None
            raise
        return Handle(event.device), int(event.eventData)

    def _ask(self, function: str, *arguments: object) -> Any:
        self._beat()
        try:
            return getattr(pynvml, function)(*arguments)
        # Not an NVMLError: pynvml raises this for FUNCTION_NOT_FOUND in calls whose names have no version.
        except pynvml.NVMLLibraryMismatchError:
            raise self._ours(function, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found") from None
        except pynvml.NVMLError as error:
            raise self._ours(function, error.value, str(error)) from None
        except UnicodeDecodeError:
            raise self._garbled(function) from None
