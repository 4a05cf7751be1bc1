"""Whether a GPU can be used, and what ends an error: time, a reset of the GPU, or a reboot of its node."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from scheduler_ext.agent import nvml_errors
from scheduler_ext.agent.node_reading import DeviceReading
from scheduler_ext.wire.gpunode import HealthStatus
from scheduler_ext.wire.times import seconds, time_text

log = logging.getLogger(__name__)

REPAIRED_ANNOTATION = "gpu.scheduler-ext.io/repaired"
"""Comma-separated `UUID@TIME`, set by an operator: the agent drops all errors of that GPU up to that time,
also those that need a reset or a reboot (docs/reference/health.md#repaired-by-an-operator)."""
# Allowance for clock differences. A time further in the future would also end errors that have not happened
# yet.
_AHEAD_S = 60.0
Cure = Literal["Quiet", "GPUReset", "Reboot"]
"""The event that ends an error: some minutes without another, a reset of the GPU, or a reboot of its node."""

# XID errors that make a GPU unusable, from NVIDIA's XID catalogue, column "Resolution Bucket (Immediate
# Action)": https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. An XID that is not listed
# here changes nothing by itself: most are caused by applications, and for the others drivers since R565
# report the recovery action that the GPU needs.
XIDS: Mapping[int, tuple[str, Cure]] = {
    46: ("GPU stopped processing", "GPUReset"),
    # The catalogue's WORKFLOW_XID_48: "A GPU reset or node reboot is needed to clear this error."
    48: ("double-bit ECC error", "GPUReset"),
    62: ("internal micro-controller halt", "GPUReset"),
    # IGNORE: the row or page is out of use already, or will be after the next reset, and does no harm until
    # then.
    63: ("row remapping or page retirement", "Quiet"),
    64: ("row remapping or page retirement failed", "GPUReset"),
    # WORKFLOW_NVLINK_ERR: "A GPU reset or node reboot is needed to clear this error."
    74: ("NVLink error", "GPUReset"),
    # RESTART_BM: the driver cannot reach the GPU to reset it.
    79: ("GPU has fallen off the bus", "Reboot"),
    95: ("uncontained memory error", "GPUReset"),
    110: ("security fault", "GPUReset"),
    119: ("GSP does not answer", "GPUReset"),
    120: ("GSP error", "GPUReset"),
    136: ("NVLink training failed", "GPUReset"),
    140: ("unrecovered ECC error", "GPUReset"),
    143: ("GPU initialization error", "GPUReset"),
    # RESTART_VM, for GPUs in confidential computing.
    151: ("key rotation error", "Reboot"),
    158: ("fatal timeout of the GPU", "GPUReset"),
}
_NEEDS: Mapping[Cure, str] = {
    "Quiet": "",
    "GPUReset": "; needs a GPU reset",
    "Reboot": "; needs a reboot of the node",
}
# How long a GPU must be free of errors to count as healthy again, if time is the remedy.
RECOVER_AFTER_S = 300.0
_XID = re.compile(r"XID ([0-9]+): ")
# Conditions that NVML reports now, and the remedy of each.
_FAULTS: Mapping[str, tuple[str, Cure]] = {
    nvml_errors.GPU_IS_LOST: ("; needs a reset or a reboot of the node", "GPUReset"),
    nvml_errors.RESET_REQUIRED: ("", "GPUReset"),
    nvml_errors.PAGE_RETIREMENT_PENDING: ("; needs a GPU reset", "GPUReset"),
    nvml_errors.ROW_REMAPPING_FAILED: ("; the GPU has to be replaced", "Quiet"),
}
# nvmlDeviceGpuRecoveryAction_t: the action that the driver asks for. 0 is none.
_ASKS = "the driver asks "
_ACTIONS: Mapping[int, tuple[str, Cure]] = {
    1: ("for a GPU reset", "GPUReset"),
    2: ("for a reboot of the node", "Reboot"),
    3: ("to drain peer-to-peer traffic", "Quiet"),
    4: ("to drain peer-to-peer traffic and reset the GPU", "GPUReset"),
    5: ("to recover the IMEX domain", "Quiet"),
    6: ("for a reset of the GPU's PCIe bus", "GPUReset"),
    7: ("for a reboot of the system", "Reboot"),
}


@dataclass(slots=True)
class _GpuErrors:
    # By remedy. The first error of each kind stays, because its consequences would only change the text.
    lasting: dict[Cure, str] = field(default_factory=dict)
    quiet: tuple[str, Cure] | None = None
    quiet_since: float = 0.0
    asked: tuple[str, Cure] | None = None
    error_at: float = 0.0
    reset_pending: bool = False

    def worst(self) -> tuple[str, Cure] | None:
        worst: tuple[Cure, ...] = ("Reboot", "GPUReset")
        lasting = [(self.lasting[cure], cure) for cure in worst if cure in self.lasting]
        return lasting[0] if lasting else self.asked or self.quiet


@dataclass(slots=True)
class GpuHealth:
    """The known errors of each GPU by UUID. Time is an argument: `now` in seconds of one clock, `wall` in
    seconds since 1970, which a later agent can compare."""

    recover_after_s: float = RECOVER_AFTER_S
    _records: dict[str, _GpuErrors] = field(default_factory=dict)
    _ignored: set[tuple[str, int]] = field(default_factory=set)

    def remember(self, uuid: str, known: HealthStatus, now: float, reported_at: float = 0.0) -> None:
        """Take over what an earlier agent reported in the same boot. NVML reports an error once, to the
        listener of that moment. Conditions that still hold are read again."""
        record = self._records.setdefault(uuid, _GpuErrors())
        record.reset_pending |= bool(known.reset_pending)
        reason = known.reason or nvml_errors.CANNOT_BE_READ
        if known.state != "Unhealthy" or nvml_errors.is_of_the_node(reason) or reason.startswith(_ASKS):
            return
        record.error_at = max(record.error_at, seconds(known.last_error_at) or reported_at)
        xid = int(found[1]) if (found := _XID.match(reason)) else 0
        cure = known.recovery or (XIDS[xid][1] if xid in XIDS else "Quiet")
        if xid and cure != "Quiet":
            record.lasting.setdefault(cure, _xid_reason(xid) if xid in XIDS else reason)
        elif record.quiet is None:
            record.quiet, record.quiet_since = (reason, cure), now

    def judge(
        self, device: DeviceReading, now: float, wall: float = 0.0, repaired_at: float | None = None
    ) -> HealthStatus:
        """The health of a GPU that an operator repaired at `repaired_at`, in seconds since 1970."""
        record = self._records.setdefault(device.uuid, _GpuErrors())
        if repaired_at is not None and record.error_at <= repaired_at:
            worst = record.worst()
            if worst is not None and worst != record.asked:
                log.info("%s: an operator repaired it, forgetting: %s", device.uuid, worst[0])
            record.lasting.clear()
            record.quiet = None
        self._look_for_a_reset(device, record)
        for reason, cure, lasts in self._errors(device):
            record.error_at = wall
            if lasts:
                record.lasting.setdefault(cure, reason)
            else:
                # Here too, the first error stays.
                record.quiet, record.quiet_since = record.quiet or (reason, cure), now
        if record.quiet is not None and now - record.quiet_since >= self.recover_after_s:
            record.quiet = None
        pending = record.reset_pending or None
        worst = record.worst()
        if worst is None:
            return HealthStatus("Healthy", reset_pending=pending)
        # An action that the driver asks for without a recorded error has no time.
        at = time_text(record.error_at) if record.error_at else None
        return HealthStatus("Unhealthy", *worst, at, pending)

    def lasts(self, uuid: str) -> bool:
        """Whether a GPU has an error that only a reset, a reboot or an operator ends."""
        return uuid in self._records and bool(self._records[uuid].lasting)

    def _look_for_a_reset(self, device: DeviceReading, record: _GpuErrors) -> None:
        """A GPU that waited for a reset and no longer does was reset: nothing less ends the wait."""
        if device.reset_pending is None:
            return
        if record.reset_pending and not device.reset_pending:
            ended = record.lasting.pop("GPUReset", None)
            if ended is not None:
                log.info("%s: it was reset, which ends: %s", device.uuid, ended)
        record.reset_pending = device.reset_pending
        action = device.recovery_action or 0
        text, cure = _ACTIONS.get(action, (f"for recovery action {action}", "Quiet"))
        record.asked = (f"{_ASKS}{text}", cure) if action else None

    def _errors(self, device: DeviceReading) -> Iterator[tuple[str, Cure, bool]]:
        """The reason, its remedy, and whether the error lasts until then; present conditions come first."""
        for fault in device.faults:
            needs, cure = _FAULTS.get(fault, ("", "Quiet"))
            yield f"{fault}{needs}", cure, False
        for xid in device.xids:
            if xid in XIDS:
                cure = XIDS[xid][1]
                yield _xid_reason(xid), cure, cure != "Quiet"
            elif (device.uuid, xid) not in self._ignored:
                self._ignored.add((device.uuid, xid))
                log.warning("%s: XID %d changes nothing by itself; it is logged once", device.uuid, xid)
        if device.ecc_errors:
            yield "uncorrectable ECC error", "Quiet", False


def repairs(annotation: str | None, wall: float) -> Mapping[str, float]:
    """When each GPU was repaired, by UUID, in seconds since 1970; an unreadable part is logged."""
    found = {}
    for part in (annotation or "").split(","):
        uuid, _, time = part.strip().rpartition("@")
        at = seconds(time)
        if uuid and at is not None and at <= wall + _AHEAD_S:
            found[uuid] = at
        elif part.strip():
            wrong = "is in the future of this node's clock" if uuid and at is not None else "is not UUID@TIME"
            fix = "and changes nothing; write it like GPU-1@2026-11-21T07:13:08Z"
            log_once(log, logging.ERROR, f"annotation {REPAIRED_ANNOTATION}: {part.strip()!r} {wrong}, {fix}")
    return found


@lru_cache(maxsize=128)
def log_once(to: logging.Logger, level: int, text: str) -> None:
    """Log a text that is found again with each reading, every few seconds."""
    to.log(level, "%s", text)


def _xid_reason(xid: int) -> str:
    text, cure = XIDS[xid]
    return f"XID {xid}: {text}{_NEEDS[cure]}"
