"""What NVML's calls raise, in our terms: for a value, a device or the whole node."""

from __future__ import annotations

CANNOT_BE_READ = "GPU cannot be read"
GPU_IS_LOST = "GPU is lost"
RESET_REQUIRED = "GPU requires a reset"
ROW_REMAPPING_FAILED = "row remapping failed"
PAGE_RETIREMENT_PENDING = "page retirement pending"
NO_LIBRARY = "the NVML library is not found; is the NVIDIA driver installed?"
# How problems of the node begin that go on in the words of somebody else.
NOT_LOADABLE = "the NVML library cannot be loaded: "
NOT_STARTING = "NVML does not start: "
NOT_COUNTED = "NVML cannot count the GPUs: "
NO_UUID = "no GPU tells its UUID: "
_NOT_INITIALISED = "NVML is not initialised"

# nvmlReturn_t of nvml.h. The numbers are part of its ABI.
_UNINITIALIZED = 1
_INVALID_ARGUMENT = 2
_NO_PERMISSION = 4
_NOT_FOUND = 6
_TIMEOUT = 10
_VERSION_MISMATCH = 18
# Not supported, function not found, another version of the structure, deprecated.
_ABSENT = (3, 13, 25, 26)
_PROBLEMS = {
    9: "the NVIDIA driver is not loaded",
    12: NO_LIBRARY,
    _VERSION_MISMATCH: "the NVIDIA driver and the NVML library differ in version",
}
_OF_THE_NODE = (
    *_PROBLEMS.values(),
    _NOT_INITIALISED,
    NOT_LOADABLE,
    NOT_STARTING,
    NOT_COUNTED,
)
_FAULTS = {
    8: "external power is not connected",
    11: "interrupts do not arrive",
    15: GPU_IS_LOST,
    16: RESET_REQUIRED,
    28: GPU_IS_LOST,
}


class NvmlError(Exception):
    """A call that gave no value; its text does not vary."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NotReadable(NvmlError):  # noqa: N818
    """This value cannot be had: not supported, not permitted, an older library, or the call failed.

    ``absent`` where this GPU or library never has it, ``denied`` where we may not see it, ``timeout`` where
    there was none in time.
    """

    absent = denied = timeout = False


class NotThere(NvmlError):  # noqa: N818
    """Nothing at this index, or what the handle stood for is gone."""


class DeviceLost(NvmlError):  # noqa: N818
    """The GPU cannot be used; the text is a fault as in DeviceReading."""


class DriverGone(NvmlError):  # noqa: N818
    """No GPU of the node can be used; ``must_restart`` when only a new process can load the right library."""

    def __init__(self, text: str, *, must_restart: bool = False) -> None:
        super().__init__(text)
        self.must_restart = must_restart


class Uninitialized(DriverGone):
    """NVML lost its initialisation."""


def error_of(code: int, text: str) -> NvmlError:
    """The error that stands for a return code of NVML; ``text`` is NVML's own word for it."""
    if code == _UNINITIALIZED:
        return Uninitialized(_NOT_INITIALISED)
    if code in _PROBLEMS:
        return DriverGone(_PROBLEMS[code], must_restart=code == _VERSION_MISMATCH)
    if code in _FAULTS:
        return DeviceLost(_FAULTS[code])
    if code in (_NOT_FOUND, _INVALID_ARGUMENT):
        return NotThere(text)
    error = NotReadable(text)
    error.absent = code in _ABSENT
    error.denied = code == _NO_PERMISSION
    error.timeout = code == _TIMEOUT
    return error


def is_of_the_node(reason: str) -> bool:
    """Whether a reason why GPUs cannot be used is one of the whole node, and says nothing of the GPUs."""
    return reason.startswith(_OF_THE_NODE)
