"""The metrics about GPUs with a series for each model, node or GPU: names, meanings, and their text.

Tens of thousands of series: their text is built here, some fifty times as fast as from samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Literal, NamedTuple

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.server.metrics.families import visible
from scheduler_ext.views.node_usage import Amounts, Instances, NodeUsage

Detail = Literal["cluster", "node", "device"]
_BYTES_PER_MIB = 2**20


class GpuFamily(NamedTuple):
    """One gauge: a field of Amounts, in GPUs or MiB; ``by_device`` if each GPU may have a series, ``sparse``
    if there is none for 0.
    """

    name: str
    what: str
    value: Callable[[Amounts], int]
    scale: int = 1
    by_device: bool = False
    sparse: bool = False


class InstanceFamily(NamedTuple):
    """One gauge of MIG instances by profile."""

    name: str
    what: str
    value: Callable[[Instances], int]


def _memory(name: str, what: str) -> GpuFamily:
    value = attrgetter(f"{name}_mib")
    return GpuFamily(f"gpu_extender_device_memory_{name}_bytes", what, value, _BYTES_PER_MIB, True)


GPU_FAMILIES = (
    GpuFamily("gpu_extender_gpus", "GPUs.", attrgetter("gpus")),
    GpuFamily("gpu_extender_gpus_allocated", "GPUs of which a pod holds something.", attrgetter("allocated")),
    GpuFamily(
        "gpu_extender_gpus_unattributed",
        "GPUs of these that pods hold at least, without an agent having seen which.",
        attrgetter("unattributed"),
        sparse=True,
    ),
    GpuFamily("gpu_extender_gpus_unhealthy", "GPUs that cannot be used.", attrgetter("unhealthy")),
    GpuFamily(
        "gpu_extender_gpus_idle",
        "Allocated GPUs on which no process keeps memory; none with MIG.",
        attrgetter("idle"),
    ),
    _memory("total", "Memory of GPUs."),
    _memory("requested", "Memory of GPUs that is promised to pods."),
    _memory("used", "Memory of GPUs in use, without what the driver reserves."),
    _memory("unaccounted", "Memory of GPUs in use that no pod explains."),
    _memory("free", "Memory of GPUs that may still be promised."),
)
INSTANCE_FAMILIES = (
    InstanceFamily("gpu_extender_mig_instances", "MIG instances.", attrgetter("total")),
    InstanceFamily(
        "gpu_extender_mig_instances_free", "MIG instances that a pod may have.", attrgetter("free")
    ),
    InstanceFamily("gpu_extender_mig_slots", "Slots of GPUs that MIG instances are of.", attrgetter("slots")),
    InstanceFamily(
        "gpu_extender_mig_slots_free",
        "Slots of the MIG instances that a pod may have.",
        attrgetter("free_slots"),
    ),
)
FAMILIES: tuple[GpuFamily | InstanceFamily, ...] = (*GPU_FAMILIES, *INSTANCE_FAMILIES)


def labels_of(**labels: str) -> str:
    """Label names and values in the order given, between braces."""
    escaped = (
        f'{name}="' + value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'
        for name, value in labels.items()
    )
    return "{" + ",".join(escaped) + "}"


def headed(family: GpuFamily | InstanceFamily, lines: Iterable[bytes]) -> bytes:
    """A family's text: its header, and these lines."""
    head = f"# HELP {family.name} {family.what}\n# TYPE {family.name} gauge\n"
    return head.encode() + b"".join(lines)


def node_lines(node: str, usage: NodeUsage, detail: Detail) -> tuple[bytes, ...]:
    """One node's lines of each of FAMILIES."""
    by_model = {labels_of(hostname=node, modelName=model): each for model, each in usage.by_model.items()}
    by_device = (
        by_model if detail == "node" else {_device_labels(node, *each): each[1] for each in usage.devices}
    )
    instances = {
        labels_of(hostname=node, modelName=model, profile=profile): each
        for (model, profile), each in usage.instances.items()
    }
    return _lines(by_model, by_device, instances)


def cluster_lines(
    by_model: Mapping[str, Amounts], instances: Mapping[tuple[str, str], Instances]
) -> tuple[bytes, ...]:
    """All nodes' lines of each of FAMILIES."""
    labelled = {labels_of(modelName=model): each for model, each in sorted(by_model.items())}
    return _lines(
        labelled,
        labelled,
        {
            labels_of(modelName=model, profile=profile): each
            for (model, profile), each in sorted(instances.items())
        },
    )


def _device_labels(node: str, device: Device, _: Amounts) -> str:
    # The names and, where DCGM's exporter runs, the values of its labels.
    return labels_of(UUID=device.uuid, gpu=str(device.index), modelName=device.product, hostname=node)


def _lines(
    by_model: Mapping[str, Amounts], by_device: Mapping[str, Amounts], instances: Mapping[str, Instances]
) -> tuple[bytes, ...]:
    texts = []
    for family in GPU_FAMILIES:
        # The memory of a GPU that is known by labels only is unknown, which is not the same as 0.
        known = by_device if family.by_device else by_model
        texts += [
            "".join(
                f"{family.name}{labels} {family.value(amounts) * family.scale}\n"
                for labels, amounts in known.items()
                if (amounts.total_mib or not family.by_device)
                and (family.value(amounts) or not family.sparse)
            )
        ]
    for slots in INSTANCE_FAMILIES:
        texts += [
            "".join(f"{slots.name}{labels} {slots.value(each)}\n" for labels, each in instances.items())
        ]
    return tuple(visible(text.encode()) for text in texts)
