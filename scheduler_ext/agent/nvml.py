"""Calls of NVML with own exceptions; the only file that uses pynvml, and handles its traps. pynvml keeps the
library and its function pointers per process: one Nvml at a time, on one thread. A GPU's handle does not
expire, so a call that rejects its arguments says nothing about the GPU."""

import ctypes
import enum
import logging
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NewType

import pynvml

from scheduler_ext.agent import nvml_errors
from scheduler_ext.agent.node_reading import Process

log = logging.getLogger(__name__)

Handle = NewType("Handle", object)
"""A pointer to a GPU, a MIG device or a set of events."""
MigMode = enum.Enum("MigMode", "UNSUPPORTED OFF ON")
"""A GPU's present MIG mode."""

# The errors that mean "no value" for a value of the node, a GPU or a MIG device: whatever NVML returns for
# the node, no GPU is at fault; a MIG device that is gone is NotThere.
OF_NODE = (nvml_errors.NotReadable, nvml_errors.NotThere, nvml_errors.DeviceLost)
OF_GPU = (nvml_errors.NotReadable, nvml_errors.NotThere)
OF_MIG_DEVICE = (nvml_errors.NotReadable,)

_NODE_MASK_WORDS = 16
_THROTTLE_REASONS = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "PowerCap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "HardwareSlowdown",
    pynvml.nvmlClocksEventReasonSyncBoost: "SyncBoost",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "ThermalSlowdown",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "HardwareThermalSlowdown",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "PowerBrake",
}


class Nvml:
    """NVML's calls by their names in pynvml, and methods for those that need its constants or structures.
    Every call may raise DriverGone; calls on a GPU DeviceLost, calls on a MIG device NotThere once the device
    is gone. An unreadable value is None."""

    def __init__(self, library: Path | None = None, beat: Callable[[], None] = lambda: None) -> None:
        """`beat` is called before each call, which distinguishes one hanging call from many that return."""
        self._beat = beat
        self._library = library
        self.is_open = False
        self._logged: set[tuple[str, str]] = set()
        # Failures that may be transient. Values read while this number grew are not kept.
        self.passing_failures = 0

    def open(self) -> None:
        """Load the library, by its own name unless a path was given, and initialise it; raises DriverGone."""
        # Otherwise pointers into a library loaded before would be called.
        pynvml._nvmlGetFunctionPointer_cache.clear()
        if self._library is not None:
            try:
                pynvml.nvmlLib = ctypes.CDLL(str(self._library))
            except OSError as error:
                raise nvml_errors.DriverGone(f"{nvml_errors.NOT_LOADABLE}{error}") from error
        try:
            self.ask("nvmlInit")
        except OF_NODE as error:
            raise nvml_errors.DriverGone(f"{nvml_errors.NOT_STARTING}{error}") from error
        self.is_open = True

    def close(self) -> None:
        """Shut NVML down; a failure has no consequences and is only logged."""
        if self.is_open:
            self.is_open = False
            try:
                self.ask("nvmlShutdown")
            except nvml_errors.NvmlError as error:
                log.debug("NVML did not shut down: %s", error)

    def ask(self, function: str, *arguments: object) -> Any:
        """The value of a call; raises NvmlError."""
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

    def get(
        self, function: str, *arguments: object, absent: tuple[type[nvml_errors.NvmlError], ...] = OF_GPU
    ) -> Any | None:
        """The value of a call; None for an error of these kinds."""
        try:
            return self.ask(function, *arguments)
        except absent:
            return None

    def pci_bus_id(self, gpu: Handle) -> str | None:
        """In Linux's spelling, 0000:3b:00.0; NVML has eight digits before the first colon, and capitals."""
        info = self.get("nvmlDeviceGetPciInfo", gpu)
        text = None if info is None else self._text("nvmlDeviceGetPciInfo", info, "busId")
        domain, _, rest = (text or "").lower().partition(":")
        try:
            return f"{int(domain, 16):04x}:{rest}"
        except ValueError:
            return None

    def numa_node(self, gpu: Handle) -> int | None:
        """The nearest NUMA node; None if several are nearest."""
        scope = pynvml.NVML_AFFINITY_SCOPE_NODE
        words = self.get("nvmlDeviceGetMemoryAffinity", gpu, _NODE_MASK_WORDS, scope)
        nodes: int = sum(word << 64 * i for i, word in enumerate(words or ()))
        return nodes.bit_length() - 1 if nodes.bit_count() == 1 else None

    def memory(self, gpu: Handle) -> tuple[int, int, int | None] | None:
        """Total bytes, used MiB and reserved MiB; without the last, used memory includes it. None if not
        supported or not permitted; any other failure makes the GPU unusable."""
        info = self.get("nvmlDeviceGetMemoryInfo", gpu, pynvml.nvmlMemory_v2)
        if info is not None:
            return info.total, _mib(info.used), _mib(info.reserved)
        try:
            info = self.ask("nvmlDeviceGetMemoryInfo", gpu)
        except nvml_errors.NotReadable as error:
            if error.absent or error.denied:
                return None
            raise nvml_errors.DeviceLost(nvml_errors.CANNOT_BE_READ) from error
        return info.total, _mib(info.used), None

    def recovery_action(self, gpu: Handle) -> int | None:
        """The action that the driver asks for, from nvmlDeviceGpuRecoveryAction_t; None before R565."""
        function = "nvmlDeviceGetFieldValues"
        values = self.get(function, gpu, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if values is None:
            return None
        code = values[0].nvmlReturn
        if code == pynvml.NVML_SUCCESS:
            return int(values[0].value.uiVal)
        error = self._ours(function, code, str(pynvml.NVMLError(code)))
        if isinstance(error, nvml_errors.DeviceLost | nvml_errors.DriverGone):
            raise error
        return None

    def uncorrected_ecc_errors(self, gpu: Handle) -> int | None:
        """The number of errors since the driver was loaded or the GPU was reset."""
        kinds = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        return self.get("nvmlDeviceGetTotalEccErrors", gpu, *kinds)

    def processes(
        self, handle: Handle, absent: tuple[type[nvml_errors.NvmlError], ...] = OF_GPU
    ) -> tuple[Process, ...] | None:
        """Compute, graphics and MPS processes by PID, each with its largest memory in any of these lists."""
        kinds = ("Compute", "Graphics", "MPSCompute")
        lists = [self.get(f"nvmlDeviceGet{kind}RunningProcesses", handle, absent=absent) for kind in kinds]
        if lists[0] is None:
            return None
        used: dict[int, int | None] = {}
        for entry in chain.from_iterable(entries or () for entries in lists):
            sizes = (used.get(entry.pid), entry.usedGpuMemory)
            used[entry.pid] = max((size for size in sizes if size is not None), default=None)
        clients = {entry.pid for entry in lists[2] or ()}
        return tuple(
            Process(pid, None if size is None else _mib(size), pid in clients)
            for pid, size in sorted(used.items())
        )

    def busy_processes(self, gpu: Handle, since_us: int) -> tuple[frozenset[int], int] | None:
        """The PIDs that used any engine in samples after this time, and the time of the newest sample, in
        microseconds of NVML's clock. None if not supported."""
        try:
            samples = self.ask("nvmlDeviceGetProcessUtilization", gpu, since_us)
        except nvml_errors.NotThere:
            # No sample since then.
            return frozenset(), since_us
        except nvml_errors.NotReadable:
            return None
        busy = (each.pid for each in samples if each.smUtil or each.encUtil or each.decUtil)
        return frozenset(busy), max((each.timeStamp for each in samples), default=since_us)

    def temperature_celsius(self, gpu: Handle) -> int | None:
        return self.get("nvmlDeviceGetTemperature", gpu, pynvml.NVML_TEMPERATURE_GPU)

    def sm_clock_mhz(self, gpu: Handle) -> int | None:
        return self.get("nvmlDeviceGetClockInfo", gpu, pynvml.NVML_CLOCK_SM)

    def throttle_reasons(self, gpu: Handle) -> tuple[str, ...] | None:
        """Why the clocks are lower than they could be, in the words of a GPUNode; an idle GPU and configured
        clocks are no reasons."""
        bits = self.get("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if bits is None:
            # The name before R535.
            bits = self.get("nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        return None if bits is None else throttle_words(bits)

    def mig_mode(self, gpu: Handle) -> MigMode | None:
        try:
            current, _ = self.ask("nvmlDeviceGetMigMode", gpu)
        except nvml_errors.NotReadable as error:
            return MigMode.UNSUPPORTED if error.absent else None
        except nvml_errors.NotThere:
            return None
        return MigMode.ON if current == pynvml.NVML_DEVICE_MIG_ENABLE else MigMode.OFF

    def profile(self, gpu: Handle, index: int) -> tuple[Any, str | None]:
        """NVML's structure and the name of a profile, or None; raises NotThere past the last index."""
        function = "nvmlDeviceGetGpuInstanceProfileInfo"
        info = self.get(function, gpu, index, absent=OF_MIG_DEVICE)
        if info is not None:
            return info, (self._text(function, info, "name") or "").removeprefix("MIG ") or None
        # With an older library, or with MIG mode off, the first version of the structure answers, without a
        # name.
        return self.get(function, gpu, index, 1, absent=OF_MIG_DEVICE), None

    def placements(self, gpu: Handle, profile_number: int) -> tuple[tuple[int, int], ...] | None:
        """The possible places of a profile's instances, each (start, size); privileged."""
        function, count = "nvmlDeviceGetGpuInstancePossiblePlacements", ctypes.c_uint()
        if self.get(function, gpu, profile_number, None, ctypes.byref(count)) is None:
            return None
        places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        if self.get(function, gpu, profile_number, places, ctypes.byref(count)) is None:
            return None
        return tuple((place.start, place.size) for place in places[: count.value])

    def register_xids(self, gpu: Handle, events: Handle) -> None:
        """From now on; a GPU without such events stays silent. The reading of a lost GPU reports the loss."""
        xids = pynvml.nvmlEventTypeXidCriticalError
        if (self.get("nvmlDeviceGetSupportedEventTypes", gpu, absent=OF_NODE) or 0) & xids:
            self.get("nvmlDeviceRegisterEvents", gpu, xids, events, absent=OF_NODE)

    def _text(self, function: str, info: Any, field: str) -> str | None:
        """A text inside a structure, which pynvml decodes only on access."""
        try:
            return str(getattr(info, field))
        except UnicodeDecodeError:
            self._garbled(function)
            return None

    def _garbled(self, function: str) -> nvml_errors.NotReadable:
        error = nvml_errors.NotReadable("its text is not UTF-8")
        error.absent = True
        self._log_once(function, error)
        return error

    def _ours(self, function: str, code: int, text: str) -> nvml_errors.NvmlError:
        error = nvml_errors.error_of(code, text)
        if isinstance(error, nvml_errors.NotReadable) and not error.absent and not error.timeout:
            self.passing_failures += not error.denied
            self._log_once(function, error)
        return error

    def _log_once(self, function: str, error: nvml_errors.NotReadable) -> None:
        """Log once per function, because the agent reads every few seconds."""
        if (function, str(error)) not in self._logged:
            self._logged.add((function, str(error)))
            fix = "; the agent needs CAP_SYS_ADMIN to report it" if error.denied else ""
            log.warning("%s: %s%s", function, error, fix)


def throttle_words(bits: int) -> tuple[str, ...]:
    """The words of a GPUNode for nvmlClocksEventReasons."""
    return tuple(word for bit, word in _THROTTLE_REASONS.items() if bits & bit)


def address(handle: Handle) -> int:
    """The identity of a handle: NVML returns the same one for a GPU each time."""
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]


def _mib(size: int) -> int:
    """MiB from bytes, rounded up, so that no used memory looks free."""
    return -(-size >> 20)
