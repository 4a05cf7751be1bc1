"""Promised, unexplained and free memory of GPUs, and the GPUs of nodes in numbers that may be summed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, DeviceHoldings, ShareMemory
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.claimed import claim_only_pods, claimed_gpus
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.holdings import Holdings, holdings_of, unknown_gpus
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.offered_instances import withheld_by_layout
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot

T = TypeVar("T")
# Less than a CUDA context takes on any GPU, and more than a driver uses on an unopened one.
UNOPENED_BELOW_MIB = 64
STATES = ("Assumed", "Confirmed", "Nominated")


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Memory of one GPU in MiB. `unaccounted_mib`: use that no holder of the GPU explains, None if unknown.
    `free_mib`: memory that may still be promised, 0 if the GPU takes no new pod, has no free replica, or is
    not offered."""

    requested_mib: int
    unaccounted_mib: int | None
    free_mib: int


def takes_new(info: NodeInfo, device: Device) -> bool:
    """Whether a pod may be sent to this GPU, now or after the node's next report: never to a sick or a
    cordoned one, nor to one that may be gone or is being changed, or that its MIG layout withholds."""
    if info.is_out or info.changing:
        return False
    return device.healthy and not device.cordoned and device.uuid not in withheld_by_layout(info)


def promises_memory(info: NodeInfo, device: Device) -> bool:
    """Whether it is known how much memory of a GPU may still be promised: where its use is not measured, only
    of memory shares, and of GPUs whose parts claims hold."""
    published = info.dra.devices if info.dra is not None else ()
    parts = (each for each in published if each.on == device.uuid and (each.multiple or each.profile))
    in_parts = info.share_node or any(parts)
    return device.memory.measured or (device.memory.stated and in_parts)


def device_usage(
    info: NodeInfo, device: Device, held: DeviceHoldings, taken: DeviceHoldings, headroom_percent: int
) -> DeviceUsage:
    """The memory of one GPU of a node with a report. `taken` is what pods hold and what is not offered;
    `headroom_percent` is what shares leave untouched, on nodes of shares."""
    memory, report = device.memory, info.report
    percent = headroom_percent if info.share_node else 0
    replicas = report.replicas_of() if report is not None else 1
    shared = replicas > 1
    # No pod can get a part of a GPU that is shared by time or MPS where pods hold every replica.
    replica_left = not shared or taken.units < replicas
    beside_shares = _requested_mib(device, taken, shared=shared) - taken.requested_mib
    known = memory.unaccounted_mib
    return DeviceUsage(
        requested_mib=_requested_mib(device, held, shared=shared),
        unaccounted_mib=held.foreign_mib or None if known is None else known + held.foreign_mib,
        free_mib=ShareMemory.of(memory, taken, percent).after(beside_shares).free
        if takes_new(info, device) and replica_left and info.freshness != "Missing"
        else 0,
    )


def _requested_mib(device: Device, held: DeviceHoldings, *, shared: bool) -> int:
    """The memory that holdings take of a GPU; `shared` by time or MPS."""
    requested = held.requested_mib
    # Where GPUs are shared, several pods may have units that are called one GPU.
    if held.units and not shared:
        # A whole GPU is promised with all it has.
        requested = max(requested, ShareMemory.of(device.memory, NOTHING_HELD).share_total)
    for instance in device.mig.instances:
        if instance.uuid in held.instances:
            requested += device.instance_memory_mib(instance)
    # Partitions that claims created.
    total_mib = device.memory.total_mib
    return requested + min(round(held.parts * total_mib), max(0, total_mib - requested))


class Amounts(NamedTuple):
    """GPUs and their memory in MiB. `allocated` are those that a pod holds wholly or in part, `claimed` those
    of them that a ResourceClaim holds, `unattributed` those of them that pods hold at least without the agent
    having seen which, `unopened` those on which no process keeps any memory; `free` are those that no pod
    holds, and that are offered and take new pods; `free_mib` is what may still be promised. `measured_mib` is
    the total memory of those whose use is known: `unopened`, `used_mib` and `unaccounted_mib` count these
    alone."""

    gpus: int = 0
    allocated: int = 0
    free: int = 0
    claimed: int = 0
    unattributed: int = 0
    unhealthy: int = 0
    unopened: int = 0
    total_mib: int = 0
    requested_mib: int = 0
    used_mib: int = 0
    unaccounted_mib: int = 0
    free_mib: int = 0
    measured_mib: int = 0


class Instances(NamedTuple):
    """Existing and free MIG instances of one profile, and the slots of their GPUs that these have."""

    total: int = 0
    free: int = 0
    slots: int = 0
    free_slots: int = 0


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """`devices` are the GPUs of a report. `by_model`: all GPUs by product name, including GPUs known by
    labels only. `instances`: by product name and profile."""

    devices: tuple[tuple[Device, Amounts], ...] = ()
    by_model: Mapping[str, Amounts] = field(default_factory=dict)
    instances: Mapping[tuple[str, str], Instances] = field(default_factory=dict)


def total(amounts: Iterable[Amounts]) -> Amounts:
    """All of these together."""
    return Amounts(*map(sum, zip(Amounts(), *amounts, strict=True)))


def node_usage(node: Node, resources: ResourceNames, headroom_percent: int) -> NodeUsage:
    """Usage of a node's GPUs. Empty if they may be gone, because the agent is Missing. GPUs known by labels
    only have no memory figures. `headroom_percent`: the part that shares leave free."""
    info = node.info
    if info.is_out:
        return NodeUsage()
    known = holdings_of(info, resources)
    if info.report is None:
        return (
            _estimated(info.estimate, unknown_gpus(info, known), node.free_gpus)
            if info.estimate
            else NodeUsage()
        )
    attribution = attribute(info, known, resources, node)
    devices = tuple(
        (device, _amounts(info, device, attribution, known.devices[device.uuid], headroom_percent))
        for device in info.devices
    )
    alike: dict[str, list[Amounts]] = {}
    for device, amounts in devices:
        alike.setdefault(device.product, []).append(amounts)
    by_model = {product: total(each) for product, each in alike.items()}
    return NodeUsage(devices, by_model, instances_of(info, attribution.taken.held))


def _estimated(estimate: Estimate, units: int, free: int) -> NodeUsage:
    """Of labels: pods hold so many units; several of them may be parts of one GPU."""
    held = min(-(-units // estimate.replicas), estimate.count)
    counted = Amounts(
        gpus=estimate.count, allocated=held, free=min(free, estimate.count - held), unattributed=held
    )
    return NodeUsage(by_model={estimate.model.name: counted})


def _amounts(
    info: NodeInfo, device: Device, attribution: Attribution, known: DeviceHoldings, headroom_percent: int
) -> Amounts:
    """`known` are the holdings that are known to be on the device."""
    held, taken = attribution.held.devices[device.uuid], attribution.taken.held.devices[device.uuid]
    usage = device_usage(info, device, held, taken, headroom_percent)
    unaccounted = usage.unaccounted_mib or 0
    # Processes may have come and gone since an overdue report.
    measured = not info.takes_unreported and device.memory.measured
    # Otherwise it is unknown what may still be promised of it.
    promised = promises_memory(info, device)
    allocated, seen = _is_held(held), _is_held(known)
    offered = not _is_held(taken)
    if device.mig.enabled and info.report is not None and info.report.mig_strategy == "mixed":
        # It is not handed out as one GPU.
        offered = any(attribution.offers(each.uuid) is not False for each in device.mig.instances)
    # The use of each instance of a partitioned GPU is unknown, and instances take some memory by themselves.
    used_mib = device.memory.used_mib - unaccounted
    unopened = seen and not device.mig.enabled and used_mib < UNOPENED_BELOW_MIB
    return Amounts(
        gpus=1,
        allocated=int(allocated),
        free=int(takes_new(info, device) and not allocated and offered),
        claimed=int(known.claimed is not None),
        unattributed=int(allocated and not seen),
        unhealthy=int(not device.healthy),
        unopened=int(unopened and measured),
        total_mib=device.memory.total_mib if promised else 0,
        requested_mib=usage.requested_mib if promised else 0,
        used_mib=device.memory.used_mib if measured else 0,
        unaccounted_mib=unaccounted if measured else 0,
        free_mib=usage.free_mib if promised else 0,
        measured_mib=device.memory.total_mib if measured else 0,
    )


def _is_held(held: DeviceHoldings) -> bool:
    return bool(held.units or held.requested_mib or held.instances or held.parts)


def instances_of(info: NodeInfo, taken: Holdings) -> dict[tuple[str, str], Instances]:
    """MIG instances by what the driver calls their GPU, and profile; `taken` as `attribute` has it."""
    found: dict[tuple[str, str], Instances] = {}
    for device in info.devices:
        # The instances of a GPU that pods get undivided are not handed out.
        divided = info.report is not None and info.report.hands_out_instances(device)
        usable = divided and takes_new(info, device)
        here = taken.devices[device.uuid].instances
        for instance in device.mig.instances:
            key, size = (device.product, instance.profile), instance.size
            free = usable and instance.uuid not in here
            before = found.get(key, Instances())
            found[key] = Instances(*map(sum, zip(before, (1, free, size, free * size), strict=True)))
    return found


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The requests of a node's pods: `units` by (namespace, resource), `share_mib` by namespace; and
    `states`, how many pods are in each of STATES."""

    units: Counter[tuple[str, str]]
    share_mib: Counter[str]
    states: Counter[str]


def pod_usage(info: NodeInfo) -> PodUsage | None:
    """The usage of a node's pods that hold GPUs or are nominated to it; None if it has no pods."""
    if not (info.pods or info.nominated or info.planned or info.claims):
        return None
    waiting = sum(pod.request.asks_gpu for pod in (*info.nominated, *info.planned))
    usage = PodUsage(Counter(), Counter(), Counter(Nominated=waiting))
    # A pod that two extenders place differently is in the list twice.
    for pod in {pod.uid: pod for pod in info.pods if pod.holds and pod.request.asks_gpu}.values():
        usage.states["Assumed" if pod.uid in info.assumed else "Confirmed"] += 1
        for ask in pod.request.units:
            usage.units[pod.namespace, ask.resource] += ask.count
        if pod.request.shares is not None:
            usage.share_mib[pod.namespace] += pod.request.shares.total_mib
    for pod in claim_only_pods(info):
        usage.states["Assumed" if pod.uid in info.assumed else "Confirmed"] += 1
    for each in claimed_gpus(info):
        # The units of the others are in their containers.
        if not each.claim.extended:
            usage.units[each.claim.namespace, each.resource] += 1
    return usage


class PerNode(Generic[T]):
    """The value of each node of a snapshot; for one thread at a time."""

    def __init__(self, compute: Callable[[Node], T]) -> None:
        self._compute = compute
        self._known: dict[str, tuple[NodeInfo, T]] = {}

    def of(self, snapshot: Snapshot | None) -> dict[str, T]:
        """By the node's name, in the order of the snapshot."""
        known = {}
        for name, node in snapshot.nodes.items() if snapshot is not None else ():
            before = self._known.get(name)
            same = before is not None and before[0] is node.info
            known[name] = before if before is not None and same else (node.info, self._compute(node))
        self._known = known
        return {name: value for name, (_, value) in known.items()}
