"""Exceptions for NVML's return codes: they concern a value, a device or the whole node."""

CANNOT_BE_READ = "GPU cannot be read"
GPU_IS_LOST = "GPU is lost"
RESET_REQUIRED = "GPU requires a reset"
ROW_REMAPPING_FAILED = "row remapping failed"
PAGE_RETIREMENT_PENDING = "page retirement pending"
NO_LIBRARY = "the NVML library is not found; is the NVIDIA driver installed?"
# First words of node problems that continue with a message from elsewhere.
NOT_LOADABLE = "the NVML library cannot be loaded: "
NOT_STARTING = "NVML does not start: "
NOT_COUNTED = "NVML cannot count the GPUs: "
NO_UUID = "no GPU returns its UUID: "
_NOT_INITIALISED = "NVML is not initialised"

# nvmlReturn_t of nvml.h. The numbers are part of its ABI.
_UNINITIALIZED = 1
_NO_PERMISSION = 4
_TIMEOUT = 10
_VERSION_MISMATCH = 18
# Invalid argument, not found; pynvml raises even 0 where there is no process to sample.
_GONE = (2, 6, 0)
# Not supported, function not found, another version of the structure, deprecated.
_ABSENT = (3, 13, 25, 26)
_PROBLEMS = {
    9: "the NVIDIA driver is not loaded",
    12: NO_LIBRARY,
    _VERSION_MISMATCH: "the NVIDIA driver and the NVML library differ in version",
}
_OF_THE_NODE = (*_PROBLEMS.values(), _NOT_INITIALISED, NOT_LOADABLE, NOT_STARTING, NOT_COUNTED)
_FAULTS = {
    8: "external power is not connected",
    11: "interrupts do not arrive",
    15: GPU_IS_LOST,
    16: RESET_REQUIRED,
    28: GPU_IS_LOST,
}


class NvmlError(Exception):
    """A call that returned no value; its text is constant."""


class NotReadable(NvmlError):  # noqa: N818
    """This value cannot be read: not supported, not permitted, an older library, or the call failed.
    `absent`: this GPU or library never has the value. `denied`: no permission. `timeout`: none came in
    time."""

    absent = denied = timeout = False


class NotThere(NvmlError):  # noqa: N818
    """Nothing exists at this index, or the object of the handle is gone."""


class DeviceLost(NvmlError):  # noqa: N818
    """The GPU cannot be used; the text is a fault as in DeviceReading."""


class DriverGone(NvmlError):  # noqa: N818
    """No GPU of the node can be used; `must_restart` if only a new process can load the right library."""

    must_restart = False


class Uninitialized(DriverGone):
    """NVML lost its initialisation."""


def error_of(code: int, text: str) -> NvmlError:
    """The exception for a return code of NVML; `text` is NVML's own message."""
    if code == _UNINITIALIZED:
        return Uninitialized(_NOT_INITIALISED)
    if code in _PROBLEMS:
        gone = DriverGone(_PROBLEMS[code])
        gone.must_restart = code == _VERSION_MISMATCH
        return gone
    if code in _FAULTS:
        return DeviceLost(_FAULTS[code])
    if code in _GONE:
        return NotThere(text)
    error = NotReadable(text)
    error.absent = code in _ABSENT
    error.denied = code == _NO_PERMISSION
    error.timeout = code == _TIMEOUT
    return error


def is_of_the_node(reason: str) -> bool:
    """Whether a reason concerns the whole node and says nothing about single GPUs."""
    return reason.startswith(_OF_THE_NODE)
