"""One node's GPUs and their holdings, in numbers that may be summed over nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import DeviceHoldings
from scheduler_ext.core.node.attribution import attribute
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.holdings import Holdings, holdings_of, unknown_gpus
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.views.device_usage import device_usage, takes_new

# Less than a CUDA context takes on any GPU, and more than a driver uses on an unopened one.
IDLE_BELOW_MIB = 64
STATES = ("Assumed", "Confirmed", "Nominated")


class Amounts(NamedTuple):
    """GPUs and their memory in MiB. ``allocated`` are those that a pod holds wholly or in part,
    ``unattributed`` those of them that pods hold at least without the agent having seen which, ``idle`` those
    on which no process keeps any memory; ``free_mib`` is what may still be promised."""

    gpus: int = 0
    allocated: int = 0
    unattributed: int = 0
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


def node_usage(node: Node, resources: ResourceNames, headroom_percent: int) -> NodeUsage:
    """What a node's GPUs come to; nothing of a node whose agent is Missing, for it may be gone.

    Of a GPU known by labels only nothing is known of its memory. ``headroom_percent`` is what shares leave
    untouched, on nodes of shares.
    """
    info = node.info
    if info.freshness == "Missing":
        return NodeUsage()
    known = holdings_of(info, resources)
    if info.report is None:
        return _estimated(info.estimate, unknown_gpus(info, known)) if info.estimate else NodeUsage()
    held = attribute(info, known, resources, node).held
    devices = tuple(
        (
            device,
            _amounts(info, device, held.devices[device.uuid], known.devices[device.uuid], headroom_percent),
        )
        for device in info.report.devices
    )
    alike: dict[str, list[Amounts]] = {}
    for device, amounts in devices:
        alike.setdefault(device.product, []).append(amounts)
    by_model = {product: total(each) for product, each in alike.items()}
    return NodeUsage(devices, by_model, instances_of(info, held))


def _estimated(estimate: Estimate, units: int) -> NodeUsage:
    """Of labels: pods hold so many units; several of them may be parts of one GPU."""
    held = min(-(-units // estimate.replicas), estimate.count)
    counted = Amounts(gpus=estimate.count, allocated=held, unattributed=held)
    return NodeUsage(by_model={estimate.model.name: counted})


def _amounts(
    info: NodeInfo, device: Device, held: DeviceHoldings, known: DeviceHoldings, headroom_percent: int
) -> Amounts:
    """``held`` includes holdings on unknown devices, ``known`` does not."""
    usage = device_usage(info, device, held, headroom_percent)
    unaccounted = usage.unaccounted_mib or 0
    allocated, seen = _is_held(held), _is_held(known)
    # The use of each instance of a partitioned GPU is unknown, and instances take some memory by themselves.
    idle = seen and not device.mig.enabled and device.memory.used_mib - unaccounted < IDLE_BELOW_MIB
    return Amounts(
        gpus=1,
        allocated=int(allocated),
        unattributed=int(allocated and not seen),
        unhealthy=int(not device.healthy),
        idle=int(idle),
        total_mib=device.memory.total_mib,
        requested_mib=usage.requested_mib,
        used_mib=device.memory.used_mib,
        unaccounted_mib=unaccounted,
        free_mib=usage.free_mib,
    )


def _is_held(held: DeviceHoldings) -> bool:
    return bool(held.units or held.requested_mib or held.instances)


def instances_of(info: NodeInfo, held: Holdings) -> dict[tuple[str, str], Instances]:
    """MIG instances by what the driver calls their GPU, and profile; ``held`` as ``attribute`` has it."""
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
    return {
        key: Instances(count, free[key], count * size[key], free[key] * size[key])
        for key, count in there.items()
    }


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The requests of a node's pods: ``units`` by (namespace, resource), ``share_mib`` by namespace; and
    ``states``, how many pods are in each of STATES."""

    units: Counter[tuple[str, str]]
    share_mib: Counter[str]
    states: Counter[str]


def pod_usage(info: NodeInfo) -> PodUsage | None:
    """The usage of a node's pods that hold GPUs or are nominated to it; None where it has no pods."""
    if not info.pods and not info.nominated:
        return None
    waiting = sum(pod.request.asks_gpu for pod in info.nominated)
    usage = PodUsage(Counter(), Counter(), Counter(Nominated=waiting))
    # A pod that two extenders place differently is in the list twice.
    for pod in {pod.uid: pod for pod in info.pods if pod.holds and pod.request.asks_gpu}.values():
        usage.states["Assumed" if pod.uid in info.assumed else "Confirmed"] += 1
        for ask in pod.request.units:
            usage.units[pod.namespace, ask.resource] += ask.count
        if pod.request.shares is not None:
            usage.share_mib[pod.namespace] += pod.request.shares.total_mib
    return usage
