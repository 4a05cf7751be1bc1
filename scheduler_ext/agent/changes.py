"""When a report is due: at once if it changes decisions, later if measurements drifted, otherwise to stay
fresh.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler_ext.wire.gpunode import DeviceStatus, HolderStatus, MemoryStatus, WrittenStatus

# Memory that moved by more than the larger of these is worth a report, but not more often than this.
NEWS_MIB, NEWS_PERCENT, NEWS_EVERY_S = 256, 2, 10.0
REFRESH_S, REFRESH_SPREAD = 60.0, 0.2
# Even urgent reports are not written more often.
LEAST_S = 1.0


@dataclass(slots=True)
class Schedule:
    """The last written status, and when the present one is due. Time is an argument, in seconds."""

    chance: Callable[[], float] = random.random
    _written: WrittenStatus | None = None
    _written_at: float = 0.0
    _refresh_s: float = field(default=REFRESH_S)

    def due(self, status: WrittenStatus, now: float) -> bool:
        """Whether this status is due now."""
        if self._written is None:
            return True
        age_s = now - self._written_at
        if age_s >= self._refresh_s:
            return True
        if age_s >= LEAST_S and _outline(status) != _outline(self._written):
            return True
        return age_s >= NEWS_EVERY_S and _is_news(self._written, status)

    def written(self, status: WrittenStatus, now: float) -> None:
        """Record that the status was written."""
        self._written, self._written_at = status, now
        self._refresh_s = REFRESH_S * (1 + REFRESH_SPREAD * (2 * self.chance() - 1))

    def forget(self) -> None:
        """Forget the written status, which was lost: the next one is due."""
        self._written = None


_NO_MEMORY = MemoryStatus(0)


def _outline(status: WrittenStatus) -> WrittenStatus:
    """The part that affects decisions: devices, health, MIG, driver; without measurements, holders and texts
    for people.
    """
    return status.but(
        devices=[_device_outline(device) for device in status.devices or ()],
        summary=None,
        reported_at=None,
        sequence=None,
    )


def _device_outline(device: DeviceStatus) -> DeviceStatus:
    mig = device.mig
    if mig is not None and mig.instances:
        bare = [instance.but(holder=None) for instance in mig.instances]
        mig = mig.but(instances=bare)
    memory = MemoryStatus(device.memory.total_mib)
    health = device.health.but(last_error_at=None) if device.health is not None else None
    return device.but(memory=memory, health=health, utilization_percent=None, holders=None, mig=mig)


def _is_news(before: WrittenStatus, after: WrittenStatus) -> bool:
    """Whether memory moved by much or a holder came or went; the devices are the same."""
    return any(
        _holders(old) != _holders(new) or _moved(old, new)
        for old, new in zip(before.devices or (), after.devices or (), strict=False)
    )


def _holders(device: DeviceStatus) -> list[tuple[str, HolderStatus]]:
    """All holders and the instance that each is on, without the memory they use."""
    instances = (device.mig.instances if device.mig is not None else None) or []
    held = [("", holder) for holder in device.holders or ()]
    held += [(instance.uuid, instance.holder) for instance in instances if instance.holder is not None]
    return [(where, holder.but(memory_mib=None)) for where, holder in held]


def _moved(before: DeviceStatus, after: DeviceStatus) -> bool:
    enough_mib = max(NEWS_MIB, after.memory.total_mib * NEWS_PERCENT / 100)
    pairs = [
        (before.memory.used_mib, after.memory.used_mib),
        (before.memory.reserved_mib, after.memory.reserved_mib),
        (before.memory.unaccounted_mib, after.memory.unaccounted_mib),
        *zip(
            (holder.memory_mib for holder in before.holders or ()),
            (holder.memory_mib for holder in after.holders or ()),
            strict=False,
        ),
    ]
    return any(
        (old is None) != (new is None) or abs((old or 0) - (new or 0)) > enough_mib for old, new in pairs
    )
