"""What GPU Feature Discovery's labels say a node has at most: a report can lower that, never raise it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler_ext.core.gpu.gpu import Device, Memory, Mig, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node_labels import GFD_COUNT, GFD_PRODUCT, Labels, gfd_memory_mib, natural


@dataclass(frozen=True, slots=True)
class Caps:
    """The labels' count of GPUs, their memory in MiB and their model; None where no label says."""

    count: int | None = None
    memory_mib: int | None = None
    model: str | None = None


NO_CAPS = Caps()


def caps_from_labels(labels: Labels) -> Caps:
    """What the labels cap; nothing under MIG strategy single, where they count and measure slices. Source:
    k8s-device-plugin, docs/gpu-feature-discovery."""
    product = labels.get(GFD_PRODUCT, "")
    if "-MIG-" in product:
        return NO_CAPS
    memory_mib = gfd_memory_mib(labels)
    model = canonical_model(product, vendor="nvidia", memory_mib=memory_mib).name if product else None
    return Caps(natural(labels.get(GFD_COUNT)), memory_mib, model)


def capped(report: Report, caps: Caps) -> Report:
    """The report with no more GPUs, and none with more memory, than the labels speak of. Labels describe one
    model. On a node with several, its GPUs are capped and the others left alone. A GPU with too much memory
    is not the model that it was reported as, but the labels'."""
    if caps.count is None and caps.memory_mib is None:
        return report
    nvidia = [device for device in report.devices if device.vendor == "nvidia"]
    meant = [device for device in nvidia if device.model.name == caps.model]
    if not meant or len({device.model.name for device in nvidia}) == 1:
        meant = nvidia
    too_many = sorted(meant, key=lambda device: device.index)[caps.count :] if caps.count is not None else []
    surplus = {device.uuid for device in too_many}
    large = {device.uuid for device in meant if device.memory.total_mib > (caps.memory_mib or 2**31)}
    if not surplus and not large:
        return report
    devices = tuple(
        _with_less(device, caps.memory_mib, caps.model)
        if device.uuid in large and caps.memory_mib
        else device
        for device in report.devices
        if device.uuid not in surplus
    )
    return replace(report, devices=devices)


def _with_less(device: Device, total_mib: int, model_name: str | None) -> Device:
    memory = device.memory
    lower = Memory(
        total_mib,
        min(memory.reserved_mib, total_mib),
        min(memory.used_mib, total_mib),
        None if memory.unaccounted_mib is None else min(memory.unaccounted_mib, total_mib),
    )
    if model_name in (None, device.model.name):
        return replace(device, memory=lower)
    model = canonical_model(model_name or "", vendor="nvidia", memory_mib=total_mib)
    return replace(
        device,
        memory=lower,
        model=model,
        compute_capability=model.compute_capability or device.compute_capability,
        mig=device.mig if model.mig_table is not None else Mig(),
    )
