"""Whether a device can be used: fatal errors and conditions make it unhealthy, quiet makes it healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler_ext.agent.reading import DeviceReading

# XID errors after which a GPU cannot be trusted, from NVIDIA's XID catalogue and what the device plugins of
# GKE and NVIDIA watch for. Errors of applications (13, 31, 43, 45, 68, 94, 109, ...) are none of the GPU's.
FATAL_XIDS: Mapping[int, str] = {
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping or page retirement",
    64: "row remapping or page retirement failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    95: "uncontained memory error",
    119: "GSP does not answer",
    120: "GSP error",
    140: "unrecovered ECC error",
}
# How long a device has to be quiet before it counts as healthy again.
RECOVER_AFTER_S = 300.0
_ECC = "uncorrectable ECC error"


@dataclass(slots=True)
class _Sickness:
    reason: str
    last_at: float


@dataclass(slots=True)
class Health:
    """What is known of each device by UUID. Time is an argument, in seconds of one clock."""

    recover_after_s: float = RECOVER_AFTER_S
    _sick: dict[str, _Sickness] = field(default_factory=dict)

    def remember(self, uuid: str, reason: str, now: float) -> None:
        """What an agent before this one knew: NVML tells an error once, to whoever listens then, and a fault
        that is over is quiet for as long as any other. What is still so confirms itself."""
        self._sick.setdefault(uuid, _Sickness(reason, now))

    def judge(self, device: DeviceReading, now: float) -> str | None:
        """Why the device cannot be used; None where it can."""
        reasons = [
            *device.faults,
            *(f"XID {xid}: {FATAL_XIDS[xid]}" for xid in device.xids if xid in FATAL_XIDS),
            *((_ECC,) if device.ecc_errors else ()),
        ]
        sickness = self._sick.get(device.uuid)
        if reasons:
            # The first one stays: what follows from it would only make the text change.
            reason = sickness.reason if sickness is not None else reasons[0]
            self._sick[device.uuid] = _Sickness(reason, now)
            return reason
        if sickness is None:
            return None
        if now - sickness.last_at >= self.recover_after_s:
            del self._sick[device.uuid]
            return None
        return sickness.reason
