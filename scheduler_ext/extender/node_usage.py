"""What one node's GPUs are and what is held of them, in numbers that may be summed over nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.gpu import Device
from scheduler_ext.core.holdings import DeviceHoldings, Holdings, holdings_of, unknown_gpus
from scheduler_ext.core.mig import resource_from_profile
from scheduler_ext.core.node import NodeInfo
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.extender.device_usage import device_usage, takes_new

# Less than a CUDA context takes on any GPU, and more than a driver leaves on one that nobody has opened.
IDLE_BELOW_MIB = 64


class Amounts(NamedTuple):
    """GPUs and their memory in MiB. ``allocated`` are those of which somebody holds something, ``idle`` those
    of them on which no process keeps any memory; ``free_mib`` is what may still be promised."""

    gpus: int = 0
    allocated: int = 0
    unhealthy: int = 0
    idle: int = 0
    total_mib: int = 0
    requested_mib: int = 0
    used_mib: int = 0
    unaccounted_mib: int = 0
    free_mib: int = 0


class Instances(NamedTuple):
    """MIG instances of one profile that there are, and those that a pod may still have; and of how many
    slots of their GPUs these are."""

    total: int = 0
    free: int = 0
    slots: int = 0
    free_slots: int = 0


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """``devices`` are the GPUs of a report; ``by_model`` all GPUs, by what the driver calls them, those known
    by labels alone among them; ``instances`` by what the driver calls the GPU, and profile."""

    devices: tuple[tuple[Device, Amounts], ...] = ()
    by_model: Mapping[str, Amounts] = field(default_factory=dict)
    instances: Mapping[tuple[str, str], Instances] = field(default_factory=dict)


def total(amounts: Iterable[Amounts]) -> Amounts:
    """All of these together."""
    return Amounts(*map(sum, zip(Amounts(), *amounts, strict=True)))


def node_usage(info: NodeInfo, resources: ResourceNames, headroom_percent: int) -> NodeUsage:
    """What a node's GPUs come to; nothing of a node whose agent is Missing, for it may be gone.

    Of a GPU known by labels only nothing is known of its memory. ``headroom_percent`` is what shares leave
    untouched, on nodes of shares.
    """
    if info.freshness == "Missing":
        return NodeUsage()
    held = holdings_of(info, resources)
    unlocated = unknown_gpus(info, held)
    if info.report is None:
        estimate = info.estimate
        if estimate is None:
            return NodeUsage()
        counted = Amounts(gpus=estimate.count, allocated=min(unlocated, estimate.count))
        return NodeUsage(by_model={estimate.model.name: counted})
    devices = tuple(
        (device, _amounts(info, device, held.devices[device.uuid], headroom_percent))
        for device in info.report.devices
    )
    alike: dict[str, list[Amounts]] = {}
    for device, amounts in devices:
        alike.setdefault(device.product, []).append(amounts)
    by_model = {product: total(each) for product, each in alike.items()}
    return NodeUsage(devices, _with_unlocated(by_model, unlocated), instances_of(info, held))


def _amounts(info: NodeInfo, device: Device, held: DeviceHoldings, headroom_percent: int) -> Amounts:
    usage = device_usage(info, device, held, headroom_percent)
    unaccounted = usage.unaccounted_mib or 0
    allocated = bool(held.units or held.requested_mib or held.instances)
    # Of a partitioned GPU nobody tells which instance uses how much, and instances take some by themselves.
    idle = allocated and not device.mig.enabled and device.memory.used_mib - unaccounted < IDLE_BELOW_MIB
    return Amounts(
        gpus=1,
        allocated=int(allocated),
        unhealthy=int(not device.healthy),
        idle=int(idle),
        total_mib=device.memory.total_mib,
        requested_mib=usage.requested_mib,
        used_mib=device.memory.used_mib,
        unaccounted_mib=unaccounted,
        free_mib=usage.free_mib,
    )


def _with_unlocated(by_model: dict[str, Amounts], unlocated: int) -> dict[str, Amounts]:
    """GPUs that pods hold without anybody having told which: the first ones that could be meant."""
    for name, amounts in by_model.items() if unlocated else ():
        here = min(unlocated, amounts.gpus - amounts.allocated)
        by_model[name] = amounts._replace(allocated=amounts.allocated + here)
        unlocated -= here
    return by_model


def instances_of(info: NodeInfo, held: Holdings) -> dict[tuple[str, str], Instances]:
    """MIG instances by what the driver calls their GPU, and profile."""
    there: Counter[tuple[str, str]] = Counter()
    size: dict[tuple[str, str], int] = {}
    free: Counter[tuple[str, str]] = Counter()
    for device in info.report.devices if info.report is not None else ():
        usable = takes_new(info, device)
        taken = held.devices[device.uuid].instances
        for instance in device.mig.instances:
            key = device.product, instance.profile
            there[key] += 1
            size[key] = instance.size
            free[key] += usable and instance.uuid not in taken
    for key in there:
        unlocated = held.unknown[resource_from_profile(key[1])]
        free[key] = max(0, free[key] - unlocated)
    return {
        key: Instances(count, free[key], count * size[key], free[key] * size[key])
        for key, count in there.items()
    }
