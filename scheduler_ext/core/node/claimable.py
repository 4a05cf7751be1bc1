"""What DRA can still hand out of a node's GPUs, and which GPUs it and the device plugin could hand out
twice."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from scheduler_ext.core.dra.consumable import taken_amounts
from scheduler_ext.core.dra.device import DraDevice, amounts, memory_mib
from scheduler_ext.core.dra.device_taints import CORDONED, UNHEALTHY
from scheduler_ext.core.dra.published import ClaimedDevice, DeviceAsk
from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import DeviceHoldings
from scheduler_ext.core.intree.affinity import first_untolerated
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import UNLIMITED, NodeInfo, Slot, Unit
from scheduler_ext.core.request.request import UnitAsk
from scheduler_ext.core.request.resource_names import vendor_of

_Limits = Sequence[tuple[str, int, int]]
# Of one device: the sum over a node's devices has to fit a 32-bit column.
_MOST_COPIES = 2**20


class Claimable:
    """The devices of one node that claims can get, after these holdings. A device that pods hold through the
    device plugin is not free, though no claim holds it."""

    def __init__(self, info: NodeInfo, held: Holdings) -> None:
        assert info.dra is not None
        self._dra = info.dra
        self._held = held
        self.served = frozenset(name for name in info.dra.asks if info.by_claim(name))
        # By resource: it is free to DRA, and a pod has it through the device plugin.
        self._held_by_plugin: set[str] = set()
        # By the unit without a name.
        self._units: dict[Unit, dict[str, Unit]] = {}
        self._first: dict[str, str | None] = {}
        # GPUs of which a claim has a part.
        self._claimed_gpus: set[str] = set()
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
        if here.claimed is not None:
            self._claimed_gpus.add(device.uuid)
        units = [unit for unit in slot.units if unit.resource not in self.served]
        parts = self._on.get(device.uuid, ())
        # Most names ask for the same parts of a GPU, on the same terms.
        alike: dict[Hashable, tuple[Unit, bool]] = {}
        for name in sorted({name for part in parts for name in part.resources if name in self.served}):
            ask = self._dra.asks[name]
            admitted = [part for part in parts if name in part.resources]
            key = (tuple(map(id, admitted)), ask.tolerations, ask.capacity)
            found = alike.get(key)
            if found is None:
                found = alike[key] = self._unit(ask, admitted, slot, here)
            unit, held_by_plugin = found
            if held_by_plugin:
                self._held_by_plugin.add(name)
            if unit.free and self._first_of(name) == device.uuid:
                unit = replace(unit, first=True)
            units.append(self._named(name, unit))
        # Only if claims ask parts: otherwise such a GPU is given whole.
        in_parts = any(part.multiple for part in parts) and any(unit.gpu_part < 1 for unit in units)
        return replace(slot, units=tuple(units), claimed_in_parts=in_parts)

    def allocate(self, asks: Iterable[UnitAsk]) -> tuple[ClaimedDevice, ...] | None:
        """Take the devices that kube-scheduler would give a pod for these asks, first fit; None if some are
        lacking."""
        taken: list[ClaimedDevice] = []
        for wanted in asks:
            ask = self._dra.asks[wanted.resource]
            parts = (part for part in self._dra.devices if wanted.resource in part.resources)
            every = (device for part in parts for device in self._take(part, ask))
            devices = list(islice(every, wanted.count))
            if len(devices) < wanted.count:
                return None
            taken += devices
        return tuple(taken)

    def _take(self, part: DraDevice, ask: DeviceAsk) -> Iterator[ClaimedDevice]:
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
        self, ask: DeviceAsk, parts: Sequence[DraDevice], slot: Slot, here: DeviceHoldings
    ) -> tuple[Unit, bool]:
        """What a GPU has for an ask, without a name, and whether pods hold some of it through the device
        plugin."""
        left, plugin = dict(self._left), here.by_plugin
        held_by_plugin = False
        free: list[DraDevice] = []
        count = 0
        for part in parts:
            # Those of a sick GPU are not free, whether tainted or not; they would be if it were healthy.
            copies = self._available(part, ask) if slot.healthy else self._copies(part, ask)
            if copies and _is_held(part, plugin):
                held_by_plugin = True
            elif copies and self._consume(part, left):
                free.append(part)
                count += copies
        sizes = [_shared_mib(part, ask) or part.memory_mib for part in free or parts]
        smallest = min(sizes, default=0) or slot.total_mib
        whole = any(part.profile is None and not _shared_mib(part, ask) for part in free or parts)
        part_of_gpu = 1.0 if whole else min(1.0, round(smallest / max(1, slot.total_mib), 9))
        unit = Unit("", min(count, _MOST_COPIES), smallest, smallest, slot.model, gpu_part=part_of_gpu)
        return unit, held_by_plugin

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

    def _available(self, part: DraDevice, ask: DeviceAsk) -> int:
        """How often kube-scheduler can allocate the device now."""
        if first_untolerated(part.taints, ask.tolerations) is not None:
            return 0
        return self._copies(part, ask)

    def _copies(self, part: DraDevice, ask: DeviceAsk) -> int:
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

    def twice(self, slots: Iterable[tuple[Slot, str | None]], limits: _Limits) -> tuple[str, ...]:
        """The resources through which a GPU could be handed out that is held already: the kubelet and
        kube-scheduler choose the device, and neither knows what the other has handed out."""
        found = set(self._held_by_plugin)
        published = {device.on for device in self._dra.devices}
        vendors: set[str | None] = {device.vendor for device in self._dra.devices}
        # A pod of the device plugin whose GPU is not known yet may have any that claims can get.
        unseen = {
            vendor_of(name) for name, count in self._held.unknown.items() if count and name not in self.served
        }
        for slot, uuid in slots:
            for unit in slot.units:
                if unit.resource in self.served:
                    if unit.free and uuid in published and unseen & vendors:
                        found.add(unit.resource)
                elif self._held.lost or uuid in self._claimed_gpus:
                    found.add(unit.resource)
        offered = {name for name, _, limit in limits if limit > 0}
        return tuple(sorted(found & offered))


def _taken(part: DraDevice, ask: DeviceAsk) -> dict[str, int] | None:
    """What an ask takes of each capacity of a device; None if the device can never give it."""
    return taken_amounts(part.capacity, part.policies, amounts(dict(ask.capacity)))


def _shared_mib(part: DraDevice, ask: DeviceAsk) -> int:
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
