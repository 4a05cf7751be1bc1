"""The exceptions of this package. An impossible request is an `InvalidRequest`, not an exception."""


class SchedulerExtError(Exception):
    """Base of every error this package raises on purpose; its text is one line for the user."""


class ConfigError(SchedulerExtError):
    """An invalid configuration; the text names the key and the fix."""


class InventoryError(SchedulerExtError):
    """An inventory that cannot be read; the text names the object and the field."""


class DocumentError(SchedulerExtError):
    """A text from outside that is neither YAML nor JSON, or exceeds a limit; the text names the line."""


class ImpossibleReportError(InventoryError):
    """A GPUNode report that contradicts itself; refused whole."""


class UnreadableFileError(InventoryError):
    """An inventory file that cannot be read; this may pass though the file stays the same."""


class ClusterError(SchedulerExtError):
    """An unreachable cluster, or one that refuses; the text has its answer."""


class OverAllocationError(SchedulerExtError):
    """A placement that exceeds the free amounts of a node; the text names the node and the problem."""


class PodError(SchedulerExtError):
    """A pod to explain whose fields cannot be read; the text names the field."""


class SimulationError(SchedulerExtError):
    """A simulation that cannot be run as asked; the text names the file, the option or the line."""


class SnapshotFileError(SchedulerExtError):
    """A file that is not a snapshot of decisions, or is from another release; the text says which."""


class RequestError(SchedulerExtError):
    """A caller's bytes that are not a valid request; `status` is the HTTP status of the reply."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
