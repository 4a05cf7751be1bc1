"""The activity of a node's GPUs in its last report. Decisions do not depend on it: a report in which nothing
else is new changes no node of a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from scheduler_ext.core.gpu.gpu import Holder

# The throttle reasons of this release's agents.
THROTTLE_REASONS: Final = frozenset(
    {
        "PowerCap",
        "HardwareSlowdown",
        "SyncBoost",
        "ThermalSlowdown",
        "HardwareThermalSlowdown",
        "PowerBrake",
    }
)


@dataclass(frozen=True, slots=True)
class HolderReadings:
    """A holder of a GPU, or of one of its MIG instances: the time since its processes last computed, and the
    most memory that they used. None if unknown."""

    holder: Holder
    instance: str | None
    idle_s: int | None
    peak_mib: int | None


@dataclass(frozen=True, slots=True)
class InstanceReadings:
    """A MIG instance by its UUID, as Readings."""

    uuid: str
    utilization_percent: int | None
    idle_s: int | None


@dataclass(frozen=True, slots=True)
class Readings:
    """One GPU: percentages and power are means of about a minute, `idle_s` is the time since anything last
    computed on it, `xids` the number of errors by their number. None, or nothing, if unknown."""

    uuid: str
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    power_watts: int | None = None
    temperature_celsius: int | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    idle_s: int | None = None
    xids: tuple[tuple[int, int], ...] = ()
    instances: tuple[InstanceReadings, ...] = ()
    holders: tuple[HolderReadings, ...] = ()

    @property
    def idle_times_s(self) -> list[int]:
        """The known idle times of the GPU, its instances and its holders."""
        times = [self.idle_s, *(each.idle_s for each in self.instances)]
        times += [each.idle_s for each in self.holders]
        return [idle_s for idle_s in times if idle_s is not None]


NodeReadings: TypeAlias = Mapping[str, tuple[Readings, ...]]
"""The readings of all GPUs of each node."""
NO_READINGS: NodeReadings = MappingProxyType({})
