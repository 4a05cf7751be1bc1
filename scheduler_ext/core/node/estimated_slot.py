"""The slot of a node without a fresh report: its GPUs by labels and allocatable."""

from collections.abc import Iterator
from dataclasses import replace

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, least_memory_mib
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import UNLIMITED, NodeInfo, Slot, Unit, version_number
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of


def without_free_memory(slot: Slot) -> Slot:
    """The device of an old report: whatever use it states may have changed."""
    return replace(slot, units=tuple(replace(unit, free_mib=0) for unit in slot.units))


def estimated_slot(info: NodeInfo, estimate: Estimate, resources: ResourceNames) -> Slot:
    """A node known by its labels: one slot that stands for all its devices, for whole GPUs only; for MIG
    instances too where its allocatable decides. No label states free memory."""
    model = estimate.model
    shared = estimate.sharing_strategy != "none"
    memory_mib = estimate.memory_mib or model.memory_mib or 0
    if estimate.sharing_strategy == "mps":
        memory_mib //= estimate.replicas
    capability = estimate.compute_capability or model.compute_capability
    # Labels are typed by people: a mistyped number of replicas must not overflow a column.
    free = min(UNLIMITED, estimate.count * estimate.replicas)
    units = tuple(
        Unit(name, free, memory_mib, 0, model, gpu_part=1 / estimate.replicas)
        for name in whole_names(resources, estimate.vendor, shared)
    )
    if info.by_allocatable:
        units += tuple(_counted_instances(info, model))
    return Slot(model, True, version_number(capability), memory_mib, 0, -1, 1.0, units)


def _counted_instances(info: NodeInfo, model: GpuModel) -> Iterator[Unit]:
    """The MIG instances that the node hands out, with the memory that their profiles state at least. How
    much of a GPU each is, and which GPU has it, is unknown."""
    for name, count in sorted((info.allocatable or {}).items()):
        if name.startswith(MIG_PREFIX) and count > 0:
            memory_mib = least_memory_mib(name) or 0
            yield Unit(name, min(UNLIMITED, count), memory_mib, 0, model, gpu_part=0.0)


def whole_names(resources: ResourceNames, vendor: str, shared: bool) -> list[str]:
    """The resources through which a vendor's device plugin may hand out whole GPUs."""
    return [
        name
        for name in resources.whole
        if vendor_of(name) in (None, vendor) and (shared or not name.endswith(".shared"))
    ]
