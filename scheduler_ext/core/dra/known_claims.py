"""The requests of a cluster's claims at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler_ext.core.request.pod_kinds import TaskClass, task_class
from scheduler_ext.core.request.request import GpuRequest, ShareAsk, UnitAsk


class Asked(NamedTuple):
    """The GPUs that a pod asks through claims, and what of these claims is not modelled."""

    units: tuple[UnitAsk, ...] = ()
    not_modelled: tuple[str, ...] = ()


class ClaimDemand(NamedTuple):
    """The GPUs that claims ask: whole ones, and the MiB of parts."""

    gpus: int
    parts_mib: tuple[int, ...]

    def task_class(self, request: GpuRequest, cpu_milli: int) -> TaskClass | None:
        """The kind of a pod with these claims and this request beside them."""
        units = (UnitAsk("", self.gpus, by_claim=True),) if self.gpus else ()
        shares = ShareAsk(tuple(("", mib) for mib in self.parts_mib)) if self.parts_mib else None
        return task_class(replace(request, units=units, shares=shares), cpu_milli, request.models)


def together(parts: Iterable[Asked]) -> Asked:
    """The requests of several claims as one; each resource once, by name."""
    counts: dict[str, int] = {}
    features: dict[str, None] = {}
    for units, not_modelled in parts:
        for unit in units:
            counts[unit.resource] = counts.get(unit.resource, 0) + unit.count
        features |= dict.fromkeys(not_modelled)
    asked = tuple(UnitAsk(name, count, by_claim=True) for name, count in sorted(counts.items()))
    return Asked(asked, tuple(features))


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """The requests of each claim, by NAMESPACE/NAME; `unknown` stands for a claim that is not among them."""

    by_key: Mapping[str, Asked] = field(default_factory=dict)
    unknown: Asked = field(default_factory=Asked)

    def asked(self, namespace: str, names: Iterable[str]) -> Asked:
        """As DeviceIndex.asked."""
        return together(self.by_key.get(f"{namespace}/{name}", self.unknown) for name in names)
