"""The room on one GPU: how much of its memory may still be promised. No other file has this arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.gpu.gpu import Memory


@dataclass(slots=True)
class DeviceHoldings:
    """What pods hold on one device: whole units, MIG instances by UUID, and MiB promised to shares.
    `foreign_mib` is used by pods that hold nothing there, `departed_mib` by pods that have left since the
    report; `pods` are the uids of those that hold something. `parts` is the held part of it, 0 to 1, in
    partitions that DRA makes of a GPU. `claimed` is what claims hold of all this."""

    units: int = 0
    instances: set[str] = field(default_factory=set)
    requested_mib: int = 0
    foreign_mib: int = 0
    departed_mib: int = 0
    pods: set[str] = field(default_factory=set)
    parts: float = 0.0
    claimed: DeviceHoldings | None = None

    @property
    def amounts(self) -> Hashable:
        """Everything that determines the device's state, whichever pods hold it."""
        claimed = self.claimed.amounts if self.claimed is not None else None
        amounts = self.requested_mib, self.foreign_mib, self.departed_mib, self.parts, claimed
        return self.units, frozenset(self.instances), *amounts

    @property
    def taken(self) -> bool:
        """Whether some pod holds the device or a part of it."""
        return bool(self.units or self.instances or self.requested_mib or self.parts)

    @property
    def by_plugin(self) -> DeviceHoldings:
        """What is held without a claim: through the device plugin, or as memory shares."""
        return self if self.claimed is None else self.less(self.claimed)

    def less(self, part: DeviceHoldings) -> DeviceHoldings:
        return DeviceHoldings(
            self.units - part.units,
            self.instances - part.instances,
            self.requested_mib - part.requested_mib,
            self.foreign_mib - part.foreign_mib,
            self.departed_mib - part.departed_mib,
            parts=max(0.0, round(self.parts - part.parts, 9)),
        )


class ShareMemory(NamedTuple):
    """One GPU's memory in MiB. `share_total` is the memory that shares can have in all, `unpromised` the
    rest of it after pods' requests and use that no request explains (`unaccounted` by no known pod, foreign
    by pods that hold nothing there), `unused` the rest after measured use. The smaller of the two is free,
    so that memory is promised twice neither for pods that use less than they asked nor for pods that use
    more. Both go below 0 if the GPU is overcommitted."""

    share_total: int
    unpromised: int
    unused: int
    unaccounted: int = 0

    @classmethod
    def of(cls, memory: Memory, held: DeviceHoldings, headroom_percent: int = 0) -> ShareMemory:
        """The room beside these holdings; the headroom, a part of the total, is rounded up."""
        headroom = -(-memory.total_mib * headroom_percent // 100)
        total = max(0, memory.total_mib - memory.reserved_mib - headroom)
        unaccounted = memory.unaccounted_mib or 0
        unpromised = total - unaccounted - held.foreign_mib - held.requested_mib
        return cls(total, unpromised, total - memory.used_mib + held.departed_mib, unaccounted)

    @property
    def free(self) -> int:
        return max(0, min(self.unpromised, self.unused))

    @property
    def idle(self) -> float:
        """The part of the share total that no pod holds, 0 to 1; all or nothing of an unknown total."""
        left = self.unpromised + self.unaccounted
        return round(max(0, left) / self.share_total, 9) if self.share_total else float(left >= 0)

    @property
    def excess(self) -> int:
        """By how much measured use by pods that hold something exceeds what they asked; negative below it."""
        return self.unpromised - self.unused

    def after(self, load_mib: int) -> ShareMemory:
        return ShareMemory(self.share_total, self.unpromised - load_mib, self.unused, self.unaccounted)

    def without(self, parts: Iterable[DeviceHoldings]) -> ShareMemory:
        unpromised, unused = self.unpromised, self.unused
        for part in parts:
            unpromised += part.requested_mib + part.foreign_mib
            unused -= part.departed_mib
        return ShareMemory(self.share_total, unpromised, unused, self.unaccounted)

    def copies(self, each_mib: int, least_free_mib: int = 0) -> int:
        """How many shares of one size fit one after the other, each where at least so much is free."""
        needed = max(each_mib, least_free_mib)
        return 0 if self.free < needed else (self.unpromised - needed) // each_mib + 1


# The holdings of a device that is free of pods.
NOTHING_HELD = DeviceHoldings()
