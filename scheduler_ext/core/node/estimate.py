"""The GPUs of a node by its labels: estimated where there is no report, otherwise a cap on the report. Labels
give model, count, total memory and sharing; never free memory, health or placement. A cloud's instance type
is the last source, because labels describe the machine as it is set up."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler_ext.core.gpu.gpu import Device, Memory, Mig, Report
from scheduler_ext.core.gpu.mig_geometry import slice_memory_mib
from scheduler_ext.core.gpu.model_table import InstanceTypeRow
from scheduler_ext.core.gpu.models import GpuModel, canonical_model, is_display
from scheduler_ext.core.node import node_labels
from scheduler_ext.core.node.node_labels import (
    COUNT_LABELS,
    GFD_COUNT,
    GFD_PRODUCT,
    GKE,
    MAX_REPORTED_REPLICAS,
    Labels,
    natural,
)
from scheduler_ext.core.request.resource_names import only_shared

_RESOURCES = {
    "nvidia": ("nvidia.com/gpu", "nvidia.com/gpu.shared"),
    "amd": ("amd.com/gpu",),
    "habana": ("habana.ai/gaudi",),
    "intel": ("gpu.intel.com/i915", "gpu.intel.com/xe"),
}
# A mistyped label must not make us build millions of devices; 16 GPUs of 7 slices are 112.
MAX_COUNT = 256
# One for each MiB, or nearly: sums over a node fit 32 bits.
_MOST_REPLICAS = 2**20
_MIG_COUNT_LABEL = re.compile(r"nvidia\.com/mig-\d.*\.count")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A node's GPUs as its labels describe them: `count` equal devices. `count` is the GPUs that are handed
    out whole, or the MIG devices under strategy single; `memory_mib` is the total of one such device (MiB),
    not divided by `replicas`, which is how many pods may share it (>= 1). `sharing_strategy` is none,
    time-slicing or mps; `mig_strategy` is none, single or mixed. `mig_invalid`: strategy single does not hand
    out its MIG layout, and how many GPUs there are is unknown."""

    vendor: str
    model: GpuModel
    count: int
    memory_mib: int | None = None
    compute_capability: tuple[int, int] | None = None
    cuda_version: tuple[int, ...] | None = None
    driver_version: str | None = None
    sharing_strategy: str = "none"
    replicas: int = 1
    mig_strategy: str = "none"
    mig_invalid: bool = False


def estimate_from_labels(labels: Labels, capacity: Mapping[str, int]) -> Estimate | None:
    """The GPUs that a Node's labels describe; None if no label describes a GPU. Never raises.
    `capacity` maps resource names to counts (status.capacity). It may be empty, as for a node that has not
    registered yet; in one that is not empty, an absent resource counts as 0."""
    machine = node_labels.instance_type(labels)
    model = _model(labels, machine)
    if model is None:
        return None
    is_nvidia = model.vendor == "nvidia"
    sharing_strategy, replicas = node_labels.sharing(labels) if is_nvidia else ("none", 1)
    mig_strategy = labels.get("nvidia.com/mig.strategy", "").lower() if is_nvidia else "none"
    if model.is_mig_slice or mig_strategy not in ("single", "mixed"):
        mig_strategy = "single" if model.is_mig_slice else "none"
    # Devices behind the vendor's whole-GPU resources.
    resources = sum(max(0, capacity.get(name, 0)) for name in _RESOURCES.get(model.vendor, ()))
    handed_out = min(resources // replicas, MAX_COUNT) if capacity else None
    mig_invalid = is_nvidia and node_labels.mig_is_invalid(labels)
    if mig_invalid:
        count = 0
    elif model.is_mig_slice or mig_strategy == "mixed":
        count = _count_in_mig_mode(labels, model, handed_out)
    else:
        count = _count(labels, model, handed_out, machine)
    return Estimate(
        vendor=model.vendor,
        model=model,
        count=count,
        memory_mib=_memory_mib(labels, model, count, machine),
        compute_capability=(node_labels.compute_capability(labels) if is_nvidia else None)
        or model.compute_capability,
        cuda_version=node_labels.cuda_version(labels) if is_nvidia else None,
        driver_version=node_labels.driver_version(labels) if is_nvidia else None,
        sharing_strategy=sharing_strategy,
        replicas=replicas,
        mig_strategy="single" if mig_invalid else mig_strategy,
        mig_invalid=mig_invalid,
    )


def shared_by_name(estimate: Estimate, capacity: Mapping[str, int]) -> Estimate:
    """The estimate as of shared GPUs, if only the names of resources say so. The number of GPUs is at least 1
    where no label states it."""
    if estimate.vendor != "nvidia" or estimate.sharing_strategy != "none" or not only_shared(capacity):
        return estimate
    slices = min(capacity.get("nvidia.com/gpu.shared", 0), MAX_COUNT)
    # Otherwise the number is that of the slices.
    gpus = estimate.count if estimate.count < slices else min(1, slices)
    replicas = -(-slices // gpus) if gpus else 1
    return replace(estimate, count=gpus, replicas=replicas, sharing_strategy="time-slicing")


def _model(labels: Labels, machine: InstanceTypeRow | None) -> GpuModel | None:
    named = node_labels.product(labels)
    if named is None and machine is not None:
        named = machine.model, "nvidia"
    if named is None:
        vendor = node_labels.vendor_only(labels)
        return canonical_model("", vendor=vendor) if vendor is not None else None
    product, vendor = named
    gke_partition = labels.get(f"{GKE}gpu-partition-size", "").strip()
    if gke_partition and vendor == "nvidia" and "-MIG-" not in product:
        product = f"{product}-MIG-{gke_partition}"
    if "-MIG-" in product:
        return canonical_model(product, vendor=vendor, memory_mib=_gfd_slice_memory_mib(labels))
    memory_mib = node_labels.memory_mib(labels, vendor) or node_labels.rounded_memory_mib(labels)
    model = canonical_model(product, vendor=vendor, memory_mib=memory_mib)
    of_machine = canonical_model(machine.model) if machine is not None else model
    if model.name == model.family == of_machine.family:
        # Azure and DigitalOcean name a family, in the size of the machine type.
        model = of_machine
    partition, _ = node_labels.amd_partitions(labels)
    if partition and model.vendor == "amd":
        name = f"{model.name}-{partition.upper().replace('_', '-')}"
        return replace(model, name=name, family=name)
    return model


def _count(labels: Labels, model: GpuModel, handed_out: int | None, machine: InstanceTypeRow | None) -> int:
    is_fraction = machine is not None and machine.fraction > 1
    # Where the label is that of a GPU for displays, the count includes it.
    of_all = model.vendor == "nvidia" and not is_display(labels.get(GFD_PRODUCT, ""))
    counts = [natural(labels.get(GFD_COUNT))] if of_all else []
    for label in COUNT_LABELS[model.vendor]:
        count = natural(labels.get(label))
        if count == 0:  # beside a named GPU this is EC2's way to write a fraction of one (g6f)
            is_fraction = True
        counts.append(count or None)
    known = next((count for count in counts if count is not None and count <= MAX_COUNT), handed_out)
    if known is not None:
        return known
    return 1 if is_fraction else 0


def _count_in_mig_mode(labels: Labels, model: GpuModel, handed_out: int | None) -> int:
    """GPUs handed out whole beside slices (mixed), or slices handed out as GPUs (single)."""
    counted = natural(labels.get(GFD_COUNT))
    counted = counted if counted is not None and counted <= MAX_COUNT else None
    if not model.is_mig_slice:
        # GFD's count includes GPUs in MIG mode, which are not handed out whole: the capacity knows better.
        has_slices = any(_MIG_COUNT_LABEL.fullmatch(label) for label in labels)
        if handed_out is not None:
            return handed_out
        return 0 if has_slices else counted or 0
    if counted is not None and _gfd_sees_slices(labels):
        return counted
    if handed_out is not None:
        return handed_out
    # The clouds count GPUs; every one is at least one slice.
    return min(natural(labels.get(f"{GKE}accelerator-count")) or 0, MAX_COUNT)


def _memory_mib(labels: Labels, model: GpuModel, count: int, machine: InstanceTypeRow | None) -> int | None:
    if model.is_mig_slice:
        return _gfd_slice_memory_mib(labels) or slice_memory_mib(model)
    memory_mib = node_labels.memory_mib(labels, model.vendor)
    if memory_mib is None and model.vendor == "intel" and count:
        node_bytes = natural(labels.get("gpu.intel.com/memory.max"), digits=15)
        memory_mib = node_labels.possible_mib(node_bytes // (1024 * 1024) // count) if node_bytes else None
    if memory_mib is None and model.memory_mib is not None:
        is_of_machine = machine is not None and canonical_model(machine.model).name == model.name
        memory_mib = model.memory_mib // (machine.fraction if machine and is_of_machine else 1)
    if memory_mib is not None and model.vendor == "amd":
        # At least this much: whether the label means the partition or the GPU depends on the driver.
        memory_mib //= node_labels.amd_partitions(labels)[1]
    return memory_mib


def _gfd_sees_slices(labels: Labels) -> bool:
    """Whether GFD's count and memory are of slices; beside GKE's own partitioning they are of GPUs."""
    return "-MIG-" in labels.get(GFD_PRODUCT, "")


def _gfd_slice_memory_mib(labels: Labels) -> int | None:
    return node_labels.gfd_memory_mib(labels) if _gfd_sees_slices(labels) else None


@dataclass(frozen=True, slots=True)
class Caps:
    """The labels' count of GPUs, their memory in MiB and their model; None if no label says. `replicas` is
    how many pods may share one GPU, and `own_replicas` the same by profile: no caps, but what a report cannot
    state. `stated_mib` is the memory of a GPU whose driver does not state it."""

    count: int | None = None
    memory_mib: int | None = None
    model: str | None = None
    replicas: int = 1
    stated_mib: int | None = None
    own_replicas: tuple[tuple[str, int], ...] = ()


NO_CAPS = Caps()


def caps_from_labels(labels: Labels) -> Caps:
    """What the labels cap; nothing under MIG strategy single, where they count and measure slices. Source:
    k8s-device-plugin, docs/gpu-feature-discovery."""
    product = labels.get(GFD_PRODUCT, "")
    replicas = min(_MOST_REPLICAS, node_labels.sharing(labels)[1])
    stated_mib = node_labels.stated_memory_mib(labels)
    if "-MIG-" in product:
        return Caps(replicas=replicas if replicas > MAX_REPORTED_REPLICAS else 1, stated_mib=stated_mib)
    memory_mib = node_labels.gfd_memory_mib(labels)
    named = product and not is_display(product)
    model = canonical_model(product, vendor="nvidia", memory_mib=memory_mib).name if named else None
    own = tuple(node_labels.own_replicas(labels))
    return Caps(natural(labels.get(GFD_COUNT)), memory_mib, model, replicas, stated_mib, own)


def capped(report: Report, caps: Caps) -> Report:
    """The report with no more GPUs, and none with more memory, than the labels speak of. Labels describe one
    model. On a node with several, its GPUs are capped and the others left alone. A GPU with too much memory
    is not the model that it was reported as, but the labels'. A GPU whose driver does not state its memory
    has what labels state. The most replicas that a report can state stand for as many as the labels state,
    such as one for each MiB, and those of a report for those of each resource by the labels."""
    if report.replicas == MAX_REPORTED_REPLICAS < caps.replicas:
        report = replace(report, replicas=caps.replicas)
    others = tuple(each for each in caps.own_replicas if each[1] != report.replicas)
    # Otherwise the labels are those of another configuration than the agent sees.
    if others and max(count for _, count in caps.own_replicas) == report.replicas:
        report = replace(report, own_replicas=others)
    if caps.count is None and caps.memory_mib is None and caps.stated_mib is None:
        return report
    nvidia = [device for device in report.devices if device.vendor == "nvidia"]
    meant = [device for device in nvidia if device.model.name == caps.model]
    if not meant or len({device.model.name for device in nvidia}) == 1:
        meant = nvidia
    too_many = sorted(meant, key=lambda device: device.index)[caps.count :] if caps.count is not None else []
    surplus = {device.uuid for device in too_many}
    described = {device.uuid for device in meant}
    devices = tuple(
        _as_labelled(device, caps, described=device.uuid in described)
        for device in report.devices
        if device.uuid not in surplus
    )
    return report if devices == report.devices else replace(report, devices=devices)


def _as_labelled(device: Device, caps: Caps, *, described: bool) -> Device:
    """A device with the memory of the labels, if that is less, or none is measured; `described`: they are
    about such GPUs."""
    measured_mib = device.memory.total_mib
    most_mib = caps.memory_mib if described else None
    if measured_mib and (most_mib is None or measured_mib <= most_mib):
        return device
    mib = most_mib or caps.stated_mib
    if mib is None:
        return device
    made = _with_memory(device, mib, caps.model if described else None)
    return made if measured_mib else replace(made, memory=replace(made.memory, stated=True))


def _with_memory(device: Device, total_mib: int, model_name: str | None) -> Device:
    memory = device.memory
    lower = Memory(
        total_mib,
        min(memory.reserved_mib, total_mib),
        min(memory.used_mib, total_mib),
        None if memory.unaccounted_mib is None else min(memory.unaccounted_mib, total_mib),
        memory.stated,
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
