"""What DRA can still hand out of a node's GPUs, and which GPUs it and the device plugin could hand out
twice."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from scheduler_ext.core.dra.consumable import taken_amounts
from scheduler_ext.core.dra.device import DraDevice, amounts, memory_mib
from scheduler_ext.core.dra.device_taints import CORDONED, UNHEALTHY
from scheduler_ext.core.dra.published import ClaimedDevice, DeviceRequirements
from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.share_memory import DeviceHoldings, ShareMemory
from scheduler_ext.core.intree.affinity import first_untolerated
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import UNKNOWN_FREE, UNLIMITED, NodeInfo, Slot, Unit
from scheduler_ext.core.node.node_labels import Way
from scheduler_ext.core.request.request import UnitRequest
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX

# Of one device: the sum over a node's devices has to fit a 32-bit column.
_MOST_COPIES = 2**20


class OneWay(NamedTuple):
    """Of a node whose GPUs a device plugin and DRA could hand out twice: the resources that are `closed`
    therefore, and how pods hold its GPUs now."""

    closed: tuple[str, ...] = ()
    in_use: tuple[Way, ...] = ()


class Claimable:
    """The devices of one node that claims can get, after these holdings. A device that pods hold through the
    device plugin is not free, though no claim holds it."""

    def __init__(self, info: NodeInfo, held: Holdings) -> None:
        assert info.dra is not None
        self._dra = info.dra
        self._held = held
        self.served = frozenset(name for name in info.dra.asks if info.by_claim(name))
        self._info = info
        # By the unit without a name.
        self._units: dict[Unit, dict[str, Unit]] = {}
        self._first: dict[str, str | None] = {}
        # Whether pods hold something of the published GPUs through claims, and without.
        self._held_by_claims = self._held_by_plugin = False
        self._on: dict[str, list[DraDevice]] = {}
        for device in info.dra.devices:
            self._on.setdefault(device.on, []).append(device)
        left = dict(info.dra.counters)
        for device in info.dra.devices:
            # Claims that share a device share what it takes of counters.
            for _ in range(min(held.allocated[device.id], 1 if device.multiple else UNLIMITED)):
                _take_counters(device, left)
        self._left = left

    def added(self, slot: Slot, device: Device, here: DeviceHoldings) -> Slot:
        """The slot of a GPU with the units that claims can get; those of the device plugin stay for the
        names that DRA does not serve here."""
        self._held_by_claims |= here.claimed is not None
        self._held_by_plugin |= device.uuid in self._on and here.by_plugin.taken
        units = [unit for unit in slot.units if unit.resource not in self.served]
        parts = self._on.get(device.uuid, ())
        # Most names ask for the same parts of a GPU, on the same terms.
        alike: dict[Hashable, Unit] = {}
        for name in sorted({name for part in parts for name in part.resources if name in self.served}):
            ask = self._dra.asks[name]
            admitted = [part for part in parts if name in part.resources]
            key = (tuple(map(id, admitted)), ask.tolerations, ask.capacity)
            unit = alike.get(key)
            if unit is None:
                unit = alike[key] = self._unit(ask, admitted, slot, device, here)
            if unit.free and self._first_of(name) == device.uuid:
                unit = replace(unit, first=True)
            units.append(self._named(name, unit))
        # Only if claims ask parts: otherwise such a GPU is given whole.
        in_parts = any(part.multiple for part in parts) and any(unit.gpu_part < 1 for unit in units)
        return replace(slot, units=tuple(units), claimed_in_parts=in_parts)

    def allocate(self, asks: Iterable[UnitRequest]) -> tuple[ClaimedDevice, ...] | None:
        """Take the devices that kube-scheduler would give a pod for these asks, first fit; None if some are
        lacking."""
        taken: list[ClaimedDevice] = []
        for wanted in asks:
            ask = self._dra.asks[wanted.resource]
            parts = [part for part in self._dra.devices if wanted.resource in part.resources]
            # A request gets no device twice; of shared ones, another request may.
            once = chain.from_iterable(islice(self._take(part, ask), 1) for part in parts)
            again = chain.from_iterable(self._take(part, ask) for part in parts)
            devices = list(once if wanted.every else islice(chain(once, again), wanted.count))
            if len(devices) < wanted.least:
                return None
            taken += devices
        return tuple(taken)

    def _take(self, part: DraDevice, ask: DeviceRequirements) -> Iterator[ClaimedDevice]:
        """Take a device as often as it can be had."""
        consumed = (_taken(part, ask) or {}) if part.multiple else {}
        while self._available(part, ask) and self._consume(part, self._left):
            self._held.allocated[part.id] += 1
            self._held.consumed.setdefault(part.id, Counter()).update(consumed)
            yield ClaimedDevice(part.id, consumed)

    def _named(self, name: str, unit: Unit) -> Unit:
        """The unit under a name: one object for all GPUs where it is the same."""
        named = self._units.setdefault(unit, {})
        if name not in named:
            named[name] = replace(unit, resource=name)
        return named[name]

    def _first_of(self, name: str) -> str | None:
        """The GPU that gives the next device of a name; None if none does, or if the devices are whole GPUs.
        kube-scheduler's allocator takes the first that fits, in the order of pools, slices and devices
        (sortPoolsByID, sortSlicesByName)."""
        if name not in self._first:
            ask = self._dra.asks[name]
            admitted = [part for part in self._dra.devices if name in part.resources]
            in_parts = any(part.profile or _shared_mib(part, ask) for part in admitted)
            free = (
                part.on
                for part in admitted
                if in_parts and self._available(part, ask) and self._consume(part, dict(self._left))
            )
            self._first[name] = next(free, None)
        return self._first[name]

    def _unit(
        self,
        ask: DeviceRequirements,
        parts: Sequence[DraDevice],
        slot: Slot,
        device: Device,
        here: DeviceHoldings,
    ) -> Unit:
        """What a GPU has for an ask, without a name."""
        left, plugin = dict(self._left), here.by_plugin
        free: list[DraDevice] = []
        count = 0
        for part in parts:
            # Those of a sick GPU are not free, whether tainted or not; they would be if it were healthy.
            copies = self._available(part, ask) if slot.healthy else self._copies(part, ask)
            if copies and not _is_held(part, plugin) and self._consume(part, left):
                free.append(part)
                count += copies
        sizes = [_shared_mib(part, ask) or part.memory_mib for part in free or parts]
        smallest = min(sizes, default=0) or slot.total_mib
        whole = any(part.profile is None and not _shared_mib(part, ask) for part in free or parts)
        # Of a GPU of unknown memory, the part is unknown, too.
        of_all = whole or not slot.total_mib
        part_of_gpu = 1.0 if of_all else min(1.0, round(smallest / slot.total_mib, 9))
        # The memory of a partition is its own; of the GPU itself others may use some.
        free_mib = smallest
        if any(part.profile is None for part in free or parts):
            room = ShareMemory.of(device.memory, here).free
            free_mib = min(smallest, room) if device.memory.measured else UNKNOWN_FREE
        return Unit("", min(count, _MOST_COPIES), smallest, free_mib, slot.model, gpu_part=part_of_gpu)

    def within_reach(self, resource: str, closed: Collection[str], sick: Collection[str]) -> int:
        """How many different devices a request can get before kube-scheduler, which knows nothing of it,
        chooses one of a `sick` GPU (UUIDs), in its order of devices; 0 if it can choose one of a `closed` GPU
        at all. A claim that tolerates the taint of such a GPU asks for it on purpose."""
        ask, left, count, first_sick = self._dra.asks[resource], dict(self._left), 0, None
        for part in self._dra.devices:
            free = self._available(part, ask) if resource in part.resources else 0
            if free and self._consume(part, left):
                tolerated = {taint.key for taint in part.taints}
                if part.on in closed and CORDONED not in tolerated:
                    return 0
                if part.on in sick and UNHEALTHY not in tolerated and first_sick is None:
                    first_sick = count
                count += 1
        return UNLIMITED if first_sick is None else max(0, first_sick - self.expected(resource))

    def _consume(self, part: DraDevice, left: dict[tuple[str, str, str], int]) -> bool:
        """Take the counters of one more allocation of a device; False, and nothing is taken, if they are too
        few."""
        return bool(part.multiple and self._held.allocated[part.id]) or _take_counters(part, left)

    def _available(self, part: DraDevice, ask: DeviceRequirements) -> int:
        """How often kube-scheduler can allocate the device now."""
        if first_untolerated(part.taints, ask.tolerations) is not None:
            return 0
        return self._copies(part, ask)

    def _copies(self, part: DraDevice, ask: DeviceRequirements) -> int:
        """How often the device can be allocated beside what claims hold."""
        if not part.multiple:
            possible = not ask.capacity or _taken(part, ask) is not None
            return int(possible and not self._held.allocated[part.id])
        taken, consumed = _taken(part, ask), self._held.consumed.get(part.id, Counter())
        if taken is None:
            return 0
        left = ((max(0, part.capacity[name] - consumed[name]), each) for name, each in taken.items())
        return min((free // each for free, each in left if each), default=_MOST_COPIES)

    def expected(self, resource: str) -> int:
        """How many devices of a resource pods have whose claims are not known yet, under any name that a
        device shares with it."""
        return sum(
            count
            for name, count in self._held.claimed.items()
            if name == resource or any({name, resource} <= each.resources for each in self._dra.devices)
        )

    def one_way(self, slots: Iterable[tuple[Slot, str | None]], shares: str) -> OneWay:
        """Through which of device plugin and DRA the node hands out its GPUs. Where both offer some, what
        pods hold decides; then the node's label; then the device plugin, because DRA comes to nodes that have
        one. Who asks is of no concern, so that pods that ask both ways at once do not both get a GPU.
        `shares` is the resource of memory shares, which count as the device plugin's."""
        info, held = self._info, self._held
        by_plugin, by_claims = set[str](), set[str]()
        for slot, uuid in slots:
            here = {unit.resource for unit in slot.units}
            offered = {name for name in here if _offers(info, name)}
            if (
                slot.share_total_mib
                and (info.share_node or info.allocatable is not None)
                and _offers(info, shares)
            ):
                offered.add(shares)
            if uuid in self._on or held.lost:
                by_plugin |= offered
            if uuid in self._on:
                by_claims |= here & self.served
        # Those whose device is not known may have any.
        unseen = {name for name, count in held.unknown.items() if count}
        of_class = {name for name in unseen if name.startswith(DEVICE_CLASS_PREFIX)}
        claims = self._held_by_claims or bool(held.lost or held.claimed.total() or of_class)
        plugin = self._held_by_plugin or bool((unseen - of_class) & (by_plugin | by_claims))
        ways: tuple[tuple[Way, bool], ...] = (("claims", claims), ("device plugin", plugin))
        in_use = tuple(way for way, used in ways if used)
        closed = (by_plugin - self.served if claims else set()) | (by_claims if plugin else set())
        if not in_use and by_plugin and by_claims and info.allocatable is not None:
            closed = by_plugin - self.served if info.handed_out_by == "claims" else by_claims
        return OneWay(tuple(sorted(closed)), in_use)


def _offers(info: NodeInfo, resource: str) -> bool:
    """Whether a device plugin offers a resource on a node, or will when it is back: the kubelet keeps what a
    plugin had in capacity for five minutes, and sick devices always (ManagerImpl.GetCapacity of
    pkg/kubelet/cm/devicemanager)."""
    if info.allocatable is None:
        return not info.by_claim(resource)
    return any((amounts or {}).get(resource, 0) > 0 for amounts in (info.allocatable, info.capacity))


def _taken(part: DraDevice, ask: DeviceRequirements) -> dict[str, int] | None:
    """What an ask takes of each capacity of a device; None if the device can never give it."""
    return taken_amounts(part.capacity, part.policies, amounts(dict(ask.capacity)))


def _shared_mib(part: DraDevice, ask: DeviceRequirements) -> int:
    """The MiB that an ask takes of a device which claims share; 0 if it takes the device whole."""
    taken = (_taken(part, ask) if part.multiple else None) or {}
    return memory_mib(taken) if taken.get("memory", 0) < part.capacity.get("memory", 0) else 0


def _is_held(part: DraDevice, plugin: DeviceHoldings) -> bool:
    """Whether pods hold a device, or something of it, without a claim."""
    if part.profile is None or part.is_planned:
        return plugin.taken
    return bool(plugin.units or (part.uuid or "") in plugin.instances)


def _take_counters(part: DraDevice, left: dict[tuple[str, str, str], int]) -> bool:
    """Take a device's counters from those that are left; False, and nothing is taken, if they are too few."""
    needed = [((part.id.pool, each.counter_set, each.counter), each.amount) for each in part.consumes]
    if any(left.get(key, 0) < amount for key, amount in needed):
        return False
    for key, amount in needed:
        left[key] = left.get(key, 0) - amount
    return True
