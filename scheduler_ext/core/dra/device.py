"""The GPUs of a node that DRA drivers hand out: whole GPUs, MIG instances and partitions to come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.published import (
    Attribute,
    Consumption,
    DeviceId,
    DeviceRequirements,
    PublishedDevice,
)
from scheduler_ext.core.dra.semantic_version import SemanticVersion
from scheduler_ext.core.gpu.mig_profile import parse_profile
from scheduler_ext.core.intree.affinity import Taint
from scheduler_ext.core.request.quantity import BYTES_PER_MIB, QuantityError, parse_quantity

# The drivers whose devices are GPUs, and the vendor.
GPU_DRIVERS: Final[Mapping[str, str]] = {
    "gpu.nvidia.com": "nvidia",
    "gpu.amd.com": "amd",
    "gpu.intel.com": "intel",
    "gaudi.intel.com": "habana",
    "hami-core-gpu.project-hami.io": "nvidia",
}
_MAX_MIB = 2**24
_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DraDevice:
    """A device that claims may hold. `gpu` identifies its physical GPU within the node: the UUID, else the
    PCI bus ID, else its own name. `uuid` is that of the GPU or of the MIG instance; a partition that does not
    exist yet has none. `profile` is None for a whole GPU. `resources` are the names under which pods may get
    it, by selectors alone; `capacity` is in thousandths, `on` the GPU of the node's report
    that it belongs to."""

    id: DeviceId
    vendor: str
    gpu: str
    uuid: str | None
    pci_bus_id: str | None
    product: str
    memory_mib: int
    profile: str | None = None
    compute_capability: tuple[int, int] | None = None
    multiple: bool = False
    capacity: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, RequestPolicy] = field(default_factory=dict)
    consumes: tuple[Consumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    resources: frozenset[str] = frozenset()
    on: str = ""

    @property
    def is_planned(self) -> bool:
        """Whether it is a partition that is created when a claim takes it."""
        return self.profile is not None and bool(self.consumes)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node, from complete pools. `asks` are the requirements behind each name of a
    resource, `served` those names that a node without a device plugin serves. `open` are names whose devices
    this product cannot count there. `counters` are (pool, counter set, counter) and the shared amount."""

    devices: tuple[DraDevice, ...] = ()
    asks: Mapping[str, DeviceRequirements] = field(default_factory=dict)
    served: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    counters: tuple[tuple[tuple[str, str, str], int], ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, ...] | None = None


def gpu_device(published: PublishedDevice, pool: str, resources: frozenset[str]) -> DraDevice:
    """A published device as a GPU or a part of one; attributes of other names or types count as absent."""
    facts = published.facts
    id = DeviceId(facts.driver, pool, published.name)
    read = _Attributes(facts.attributes)
    uuid, parent = read.text("uuid"), read.text("parentUUID")
    pci = read.text("pciBusID") or read.text("pcieBusID")
    pci = pci.lower() if pci is not None and _PCI.fullmatch(pci) else None
    kind = read.text("type")
    # A partition names its parent; the UUID of an instance is its own.
    physical = parent or (uuid if kind != "mig" else None)
    capacity = amounts(facts.capacity)
    return DraDevice(
        id=id,
        vendor=GPU_DRIVERS.get(facts.driver, "nvidia"),
        gpu=physical or pci or str(id),
        uuid=uuid,
        pci_bus_id=pci,
        product=read.text("productName") or read.text("model") or "unknown",
        memory_mib=memory_mib(capacity),
        profile=_profile(read.text("profile")) if kind in ("mig", None) else None,
        compute_capability=read.capability(),
        multiple=facts.allow_multiple_allocations,
        capacity=capacity,
        policies=published.policies,
        consumes=published.consumes,
        taints=published.taints,
        resources=resources,
    )


class _Attributes:
    """Attributes by the part of their names after the domain; the driver's own come first."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        self._found: dict[str, Attribute] = {}
        for name, value in attributes.items():
            self._found.setdefault(name.rpartition("/")[2], value)

    def text(self, name: str) -> str | None:
        value = self._found.get(name)
        return value if isinstance(value, str) and value else None

    def version(self, name: str) -> SemanticVersion | None:
        value = self._found.get(name)
        return value if isinstance(value, SemanticVersion) else None

    def capability(self) -> tuple[int, int] | None:
        version = self.version("cudaComputeCapability")
        return (version.major, version.minor) if version is not None else None


def driver_versions(published: PublishedDevice) -> tuple[str | None, tuple[int, ...] | None]:
    """The driver's version, and the CUDA version that it supports."""
    read = _Attributes(published.facts.attributes)
    driver, cuda = read.version("driverVersion"), read.version("cudaDriverVersion")
    return (
        str(driver) if driver is not None else read.text("driverVersion"),
        (cuda.major, cuda.minor) if cuda is not None else None,
    )


def amounts(capacity: Mapping[str, str]) -> dict[str, int]:
    """Capacities in thousandths, by the part of their names after the domain; unreadable ones are left
    out."""
    read = {}
    for name, text in capacity.items():
        with suppress(QuantityError):
            read[name.rpartition("/")[2]] = int(parse_quantity(text) * 1000)
    return read


def memory_mib(capacity: Mapping[str, int]) -> int:
    """The memory among `amounts`, in MiB; 0 if there is none."""
    return max(0, min(capacity.get("memory", 0) // (1000 * BYTES_PER_MIB), _MAX_MIB))


def _profile(text: str | None) -> str | None:
    try:
        return parse_profile(text) if text is not None else None
    except ValueError:
        return None
