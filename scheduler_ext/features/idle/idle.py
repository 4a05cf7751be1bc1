"""Idle pods: those whose GPUs computed nothing for a while, by utilisation and never by the memory that they
keep. A value that is unknown never makes a pod idle."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_ext.core.dra.device import GPU_DRIVERS, DraDevice, memory_mib
from scheduler_ext.core.dra.published import ClaimedDevice
from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, ShareMemory
from scheduler_ext.core.node.claimed import gpu_pods
from scheduler_ext.core.node.holdings import known_devices, seen_gpus, seen_instances, share_peaks
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.pod_facts import NO_FACTS, FactsOfPods


class GpuPart(NamedTuple):
    """A GPU, a MIG instance, or a share of a GPU, that a pod holds; `gpus` is its part of a whole GPU, 0 to
    1, of a fraction by the cloud too."""

    device: Device
    instance: MigInstance | None
    gpus: float

    @property
    def uuid(self) -> str:
        return self.device.uuid if self.instance is None else self.instance.uuid


class HeldPart(NamedTuple):
    """A part, and the time since the pod last computed on it; None if unknown."""

    part: GpuPart
    idle_s: int | None


@dataclass(frozen=True, slots=True)
class IdlePod:
    """A pod whose GPUs all computed nothing for `idle_s`, a time in which it ran."""

    pod: BoundPod
    parts: tuple[HeldPart, ...]
    idle_s: int

    @property
    def gpus(self) -> float:
        return sum(held.part.gpus for held in self.parts)

    def value_per_hour(self, info: NodeInfo, values: Mapping[str, float]) -> float:
        """The value of its GPUs, in the unit of core.gpu.value_table; `values` are those of the
        configuration."""
        # The value of a GPU of the node is that of the fraction.
        parts = ((held.part.gpus / info.gpu_part, held.part.device.model) for held in self.parts)
        return sum(part * info.gpu_value(model, values) for part, model in parts)


@dataclass(frozen=True, slots=True)
class Idleness:
    """The idle pods of one node. `gpus` are the UUIDs of GPUs that every pod on them leaves idle, `known` of
    those on which it is known when each pod last computed. `unknown` are the running pods of which that is
    not known."""

    pods: tuple[IdlePod, ...] = ()
    gpus: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    unknown: tuple[BoundPod, ...] = ()


NOT_IDLE = Idleness()


def idleness(
    info: NodeInfo,
    readings: Sequence[Readings],
    facts: FactsOfPods,
    now: float,
    after_s: float,
    headroom_percent: int = 0,
) -> Idleness:
    """The idle pods of a node at a wall time, by the readings of its last report, if that is fresh. A pod is
    idle after it has run and computed nothing for `after_s`. The headroom only matters to the size of shares,
    as a part of a GPU."""
    if info.report is None:
        running = (pod for pod in gpu_pods(info) if facts.get(pod.uid, NO_FACTS).running_since is not None)
        return Idleness(unknown=tuple(running))
    did = {each.uuid: each for each in readings}
    idle: list[IdlePod] = []
    unknown: list[BoundPod] = []
    # Of each GPU, by pod: whether the pod leaves it idle; None if unknown.
    leaves: dict[str, list[bool | None]] = {}
    for pod in gpu_pods(info):
        parts = _held_parts(pod, info, did, after_s, headroom_percent)
        since = facts.get(pod.uid, NO_FACTS).running_since
        ran_s = max(0.0, now - since) if since is not None else 0.0
        for held in parts or ():
            enough = None if held.idle_s is None else min(held.idle_s, ran_s) >= after_s
            leaves.setdefault(held.part.device.uuid, []).append(enough)
        times = [held.idle_s for held in parts or () if held.idle_s is not None]
        if parts is None or len(times) < len(parts):
            unknown += [pod] if since is not None else []
        elif (idle_s := min(*times, int(ran_s))) >= after_s and _stays(pod, info):
            idle.append(IdlePod(pod, parts, idle_s))
    known = frozenset(uuid for uuid, each in leaves.items() if None not in each)
    if info.freshness != "Fresh":
        return Idleness(known=known, unknown=(*unknown, *(each.pod for each in idle)))
    gpus = frozenset(uuid for uuid in known if all(leaves[uuid]))
    return Idleness(tuple(idle), gpus, known, tuple(unknown))


def _held_parts(
    pod: BoundPod,
    info: NodeInfo,
    readings: Mapping[str, Readings],
    after_s: float,
    headroom_percent: int,
) -> tuple[HeldPart, ...] | None:
    """All that a pod holds of a node's GPUs, with the idle times of `readings` by GPU; None if some GPU of it
    is unknown."""
    parts = parts_of(pod, info, headroom_percent)
    if not parts:
        return None
    return tuple(
        HeldPart(part, _idle_s(pod, part, readings.get(part.device.uuid), after_s)) for part in parts
    )


def parts_of(pod: BoundPod, info: NodeInfo, headroom_percent: int = 0) -> tuple[GpuPart, ...] | None:
    """All that a pod holds of a node's GPUs, each once; None if some GPU of it is unknown."""
    found: dict[str, GpuPart] = {}
    claimed = 0
    for each in _claimed_parts(pod, info):
        if each is None:
            return None
        found[each.uuid] = each
        claimed += 1
    for ask in pod.request.units:
        if ask.by_claim or (pod.extended_claim is not None and info.by_claim(ask.resource)):
            if claimed < ask.count:
                return None
            continue
        instances = seen_instances(pod, ask, info)
        gpus = seen_gpus(pod, ask, info)
        if len(instances) + sum(count for _, count in gpus) < ask.count:
            return None
        for device, instance in instances:
            found[instance.uuid] = GpuPart(device, instance, _part_of_instance(instance, device))
        for device, count in gpus:
            found[device.uuid] = GpuPart(device, None, count / _replicas(info))
    for part in _shared_parts(pod, info, headroom_percent):
        if part is None:
            return None
        found[part.uuid] = part
    return tuple(part._replace(gpus=part.gpus * info.gpu_part) for part in found.values())


def _stays(pod: BoundPod, info: NodeInfo) -> bool:
    """Whether it is bound and not on its way out."""
    return not (pod.terminating or pod.uid in info.assumed)


def _idle_s(pod: BoundPod, part: GpuPart, did: Readings | None, after_s: float) -> int | None:
    """By the pod's own processes, where the agent sees them; otherwise by all of the GPU or instance. A GPU
    that computed nothing for `after_s` left every instance idle; of one that did, it is unknown which."""
    if did is None:
        return None
    where = None if part.instance is None else part.instance.uuid
    own = [
        each.idle_s
        for each in did.holders
        if each.instance == where and each.idle_s is not None and pod.is_holder(each.holder)
    ]
    if own:
        return min(own)
    if where is None:
        return did.idle_s
    of_instance = next((each.idle_s for each in did.instances if each.uuid == where), None)
    if of_instance is None and did.idle_s is not None and did.idle_s >= after_s:
        return did.idle_s
    return of_instance


def _replicas(info: NodeInfo) -> int:
    return info.report.replicas_of() if info.report is not None else 1


def _part_of_instance(instance: MigInstance, device: Device) -> float:
    """As of all instances of the GPU."""
    return instance.size / max(1, sum(each.size for each in device.mig.instances))


def _shared_parts(pod: BoundPod, info: NodeInfo, headroom_percent: int) -> Iterator[GpuPart | None]:
    if pod.request.shares is None:
        return
    asking = [name for name, mib in pod.request.shares.by_container if mib]
    if not all(known_devices(pod, name, info.devices) for name in asking):
        yield None
        return
    peaks = share_peaks(pod, info.devices)
    for device in info.devices:
        if device.uuid in peaks:
            size = ShareMemory.of(device.memory, NOTHING_HELD, headroom_percent).share_total
            yield GpuPart(device, None, min(1.0, peaks[device.uuid] / max(1, size)))


def _claimed_parts(pod: BoundPod, info: NodeInfo) -> Iterator[GpuPart | None]:
    """By claims; None for a GPU that the report or the slices lack."""
    devices = {device.uuid: device for device in info.devices}
    published = {device.id: device for device in info.dra.devices} if info.dra is not None else {}
    for claim in info.claims:
        if pod.uid not in dict(claim.pods):
            continue
        for held in claim.devices or ():
            part = published.get(held.id)
            on = devices.get(part.on) if part is not None else None
            if part is not None and on is not None:
                whole = _claimed_part(part, on, held)
                # The pods of a claim have equal parts of what it holds.
                yield None if whole is None else whole._replace(gpus=whole.gpus / len(claim.pods))
            elif part is not None or held.id.driver in GPU_DRIVERS:
                yield None


def _claimed_part(part: DraDevice, on: Device, held: ClaimedDevice) -> GpuPart | None:
    instance = next((each for each in on.mig.instances if each.uuid == part.uuid), None)
    if instance is not None:
        return GpuPart(on, instance, _part_of_instance(instance, on))
    if part.multiple:
        mib = memory_mib(held.consumed) or on.memory.total_mib
        return GpuPart(on, None, min(1.0, mib / max(1, on.memory.total_mib)))
    return GpuPart(on, None, 1.0) if part.profile is None else None
