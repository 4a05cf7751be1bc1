"""The value of one node's GPUs, with the pods that hold them. Prices are those of core.gpu.value_table, times
a factor; a part of a GPU has its part of the price."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import part_of_gpu
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.claimed import ClaimedGpu, claimed_gpus
from scheduler_ext.core.node.columns import loose_gpus
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.holdings import Holdings, holdings_of, pod_of, share_peaks
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.views.node_usage import takes_new
from scheduler_ext.views.placed_pods import claimed_part
from scheduler_ext.views.value_account import NO_VALUE, GpuKind, HeldValue, NodeValue

# The namespace of holders without a known one. No namespace has this name.
UNKNOWN = "_unknown"


class Who(NamedTuple):
    """A pod by its namespace and its uid, None if that is unknown."""

    namespace: str
    uid: str | None


def gpu_price(info: NodeInfo, model: GpuModel, sizing: Sizing, factor: float) -> float:
    """The price of one GPU of a node, per hour."""
    return factor * info.gpu_value(model, sizing.policy.values)


def node_value(node: Node, sizing: Sizing, factor: float) -> NodeValue:
    """The value of a node's GPUs per hour; nothing if they may be gone."""
    info = node.info
    if info.is_out:
        return NO_VALUE
    known = holdings_of(info, sizing.resources)
    if info.report is None:
        return _estimated(node, info.estimate, sizing, factor) if info.estimate is not None else NO_VALUE
    attribution = attribute(info, known, sizing.resources, node)
    # What is known by its number alone counts on some of the GPUs that it may be, so that sums are right.
    if attribution.held is not known:
        node = resolve_held(info, attribution.held, sizing.resources, sizing.headroom_percent)
    tally = _Tally(node, attribution, known)
    for device in info.devices:
        tally.add(device, gpu_price(info, device.model, sizing, factor))
    return tally.done()


def pod_values(node: Node, sizing: Sizing, factor: float) -> dict[str, float]:
    """The value per hour of what each pod holds of a node, by its uid."""
    values: dict[str, float] = {}
    for part in node_value(node, sizing, factor).held:
        if part.uid is not None:
            values[part.uid] = values.get(part.uid, 0.0) + part.value
    return values


def _estimated(node: Node, estimate: Estimate, sizing: Sizing, factor: float) -> NodeValue:
    """Of labels: pods hold a number of GPUs, or of their replicas."""
    price = gpu_price(node.info, estimate.model, sizing, factor) * part_of_gpu(estimate.model)
    kind = GpuKind(estimate.model.name, estimate.model.name)
    held = min(float(estimate.count), node.state.adrift)
    usable = 0.0 if node.info.changing else min(estimate.count - held, loose_gpus(node.state))
    part = HeldValue(UNKNOWN, kind, held * price)
    return NodeValue(
        gpus={kind: node.info.gpu_count},
        held=tuple(_split(part, _unseen(node.info, Counter()))) if held else (),
        unheld={kind: usable * price},
        unavailable={kind: (estimate.count - held - usable) * price},
    )


class _Tally:
    """Adds up the GPUs of a node with a report, after the attributed holdings; `known` are those whose GPU is
    known."""

    def __init__(self, node: Node, attribution: Attribution, known: Holdings) -> None:
        info, report = node.info, node.info.report
        self._info = info
        self._known = known
        self._slots = dict(node.gpus)
        self._held_by = attribution.held.devices
        self._taken = attribution.taken.held.devices
        self._takes_shares = node.state.takes_shares and not node.state.in_parts
        self._replicas = report.replicas_of() if report is not None else 1
        self._peaks = {pod.uid: share_peaks(pod, info.devices) for pod in info.pods if pod.holds}
        self._claimed = list(claimed_gpus(info))
        # Whole GPUs, replicas and instances that each pod was seen on.
        self._seen: Counter[str] = Counter()
        self._gpus: dict[GpuKind, float] = {}
        self._held: list[HeldValue] = []
        self._unheld: dict[GpuKind, float] = {}
        self._unavailable: dict[GpuKind, float] = {}

    def add(self, device: Device, price: float) -> None:
        """Take one GPU."""
        kind, slot = GpuKind(device.model.name, device.product), self._slots[device.uuid]
        self._gpus[kind] = self._gpus.get(kind, 0.0) + self._info.gpu_part
        before, taken = self._held_by[device.uuid], self._taken[device.uuid]
        report = self._info.report
        if report is not None and report.hands_out_instances(device):
            held = sum(self._add_instances(device, kind, price, before.instances))
            # Without instances, no pod can have anything of it.
            usable = _part(device, {each.uuid for each in device.mig.instances} - taken.instances)
        else:
            held = 1 - slot.idle
            if held > 0:
                part = HeldValue(UNKNOWN, kind, held * price, device.uuid)
                self._held += _split(part, self._holders(device))
            usable = slot.idle if slot.is_whole or self._has_parts(device) else 0.0
            if self._takes_shares and slot.share_total_mib:
                # Memory in use by no known pod is neither held nor free.
                usable = min(slot.idle, max(0, slot.share_free_mib) / slot.share_total_mib)
            # Less what is not offered.
            usable = max(0.0, usable - (taken.units - before.units) / self._replicas)
        usable = usable if takes_new(self._info, device) else 0.0
        self._unheld[kind] = self._unheld.get(kind, 0.0) + usable * price
        self._unavailable[kind] = self._unavailable.get(kind, 0.0) + (1 - held - usable) * price

    def _has_parts(self, device: Device) -> bool:
        """Whether claims that share the GPU have left some of each of its capacities."""
        dra, nothing = self._info.dra, Counter[str]()
        shared = (each for each in dra.devices if each.multiple) if dra is not None else ()
        return any(
            all(amount > self._known.consumed.get(each.id, nothing)[name] for name, amount in capacity)
            for each in shared
            if each.on == device.uuid and (capacity := each.capacity.items())
        )

    def done(self) -> NodeValue:
        unseen = _unseen(self._info, self._seen)
        held = [
            each
            for part in self._held
            for each in (_split(part, unseen) if part.namespace == UNKNOWN and part.uid is None else [part])
        ]
        return NodeValue(self._gpus, tuple(held), self._unheld, self._unavailable)

    def _add_instances(
        self, device: Device, kind: GpuKind, price: float, instances: set[str]
    ) -> Iterator[float]:
        """The parts of the GPU that are held instances."""
        for instance in device.mig.instances:
            if instance.uuid not in instances:
                continue
            size = _part(device, {instance.uuid})
            part = HeldValue(UNKNOWN, kind, size * price, device.uuid, instance.uuid)
            claims = [each for each in self._claimed if each.device.uuid == instance.uuid]
            who: dict[Who, float] = {}
            if claims:
                who = _claimants(claims[0])
            elif instance.holder is not None:
                who = {self._holder(instance.holder): 1.0}
                self._seen.update(each.uid for each in who if each.uid is not None)
            self._held += _split(part, who)
            yield size

    def _holders(self, device: Device) -> dict[Who, float]:
        """The pods that hold parts of a GPU without MIG, with the size of each part."""
        who: dict[Who, float] = {}
        here = self._known.devices[device.uuid]
        by_claim: set[str] = set()
        for each in self._claimed:
            if each.device.on == device.uuid:
                for one, part in _claimants(each).items():
                    who[one] = who.get(one, 0.0) + part * claimed_part(each, self._info)[0]
                by_claim.update(uid for uid, _ in each.claim.pods)
        size = max(1, device.memory.total_mib - device.memory.reserved_mib)
        for pod in self._info.pods:
            share_mib = self._peaks.get(pod.uid, {}).get(device.uuid, 0)
            if share_mib:
                who[Who(pod.namespace, pod.uid)] = share_mib / size
            elif pod.holds and pod.uid in here.pods and pod.uid not in by_claim:
                units = self._units(device, pod)
                self._seen[pod.uid] += units
                who[Who(pod.namespace, pod.uid)] = units / self._replicas
        for holder in device.holders:
            other = pod_of(holder, self._info.pods)
            if holder.memory_mib is None and other is None:
                who[self._holder(holder)] = 1 / self._replicas
            elif holder.memory_mib and not here.units and (other is None or other.uid not in here.pods):
                # Use by pods that hold nothing here keeps memory from others.
                stranger = self._holder(holder)
                who[stranger] = who.get(stranger, 0.0) + holder.memory_mib / size
        return who

    def _units(self, device: Device, pod: BoundPod) -> int:
        given = sum(uuids.count(device.uuid) for uuids in pod.devices.values())
        seen = sum(holder.memory_mib is None and pod.is_holder(holder) for holder in device.holders)
        return max(1, given, seen)

    def _holder(self, holder: Holder) -> Who:
        pod = pod_of(holder, self._info.pods)
        if pod is not None:
            return Who(pod.namespace, pod.uid)
        return Who(holder.namespace or UNKNOWN, holder.uid)


def _part(device: Device, instances: Collection[str]) -> float:
    """The part of a GPU that these of its instances have, as of all of them."""
    sizes = {each.uuid: each.size for each in device.mig.instances}
    return sum(sizes[uuid] for uuid in instances) / max(1, sum(sizes.values()))


def _claimants(each: ClaimedGpu) -> dict[Who, float]:
    """The pods of a claim, all in its namespace, with equal parts of what it holds."""
    uids: Sequence[str | None] = [uid for uid, _ in each.claim.pods] or [None]
    return {Who(each.claim.namespace, uid): 1 / len(uids) for uid in uids}


def _unseen(info: NodeInfo, seen: Mapping[str, int]) -> dict[Who, float]:
    """The pods whose GPUs are not all known, with the number of those that are missing."""
    missing: dict[Who, float] = {}
    for pod in info.pods:
        if pod.holds:
            asked = sum(ask.count for ask in pod.request.units if not ask.by_claim)
            if asked > seen[pod.uid]:
                missing[Who(pod.namespace, pod.uid)] = asked - seen[pod.uid]
    return missing


def _split(part: HeldValue, who: Mapping[Who, float]) -> list[HeldValue]:
    """The part in pieces, in proportion to what each pod holds; whole if nothing is known of the pods."""
    total = sum(who.values())
    if total <= 0:
        return [part]
    return [
        part._replace(namespace=each.namespace, uid=each.uid, value=part.value * weight / total)
        for each, weight in who.items()
    ]
