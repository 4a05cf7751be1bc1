"""The sets of pods that could make way for a request, the cheapest first. Two pods are of one kind when they
free the same on the same devices, or on devices that are alike and that no other pod shares with them. Pods
of one kind under the same budgets are of one class, and the least important go first. So the search tries
numbers of pods per class instead of all sets. The least amount that a set must free is a sum over its pods (a
`Need`), and sets that cannot reach it are skipped."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from math import lcm
from typing import NamedTuple, Protocol

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.share_memory import DeviceHoldings, ShareMemory
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Slot
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, most_important_first, over_budget
from scheduler_ext.core.preemption.dry_run import DryRun, Gone

NO_PRIORITY = -(2**31)
_ZERO = Fraction(0)

# (kind, pod), in the order in which classes are filled.
Kinds = list[tuple[Hashable, int]]


class Cost(NamedTuple):
    """The cost of evicting some pods; less is better, and one pod more is always worse. `total_priority`
    only counts values above zero, otherwise a pod more could make a set cheaper; for equal numbers of pods,
    `sum_of_priorities` has all values. kube-scheduler, which compares nodes in this order, adds 2**31 to
    each priority in its total, so that there fewer pods come before a lower sum. `busy` counts the pods that
    are not known to be idle, where that matters. `age` is the earliest start of those of the highest
    priority, negated: the latest starter goes first."""

    violations: int
    highest_priority: int
    total_priority: int
    pods: int
    sum_of_priorities: int
    busy: int
    age: float


class Prices(Protocol):
    """What sets of pods cost."""

    def cost(self, gone: Gone, /) -> tuple[float, ...]:
        """The cost of a set; less is better, and one pod more is always worse."""

    def kind(self, i: int, /) -> Hashable:
        """Differs between pods that do not stand for each other, whatever they free."""


class Pricing:
    """What sets of these pods cost; the pods have the most important first. Pods whose uid is in `idle` cost
    less than others that are equal."""

    def __init__(
        self, pods: Sequence[BoundPod], budgets: Sequence[Budget], idle: Collection[str] = ()
    ) -> None:
        self._pods = pods
        self._busy = [bool(idle) and pod.uid not in idle for pod in pods]
        # The places of the pods in kube-scheduler's order, if that is another one.
        order = {id(pod): at for at, pod in enumerate(most_important_first(pods))} if idle else {}
        self._rank = [order[id(pod)] for pod in pods] if idle else []
        self._allowed = [budget.allowed for budget in budgets]
        self._counted = budgets_of(pods, budgets)
        self._any_counted = any(self._counted)
        # If a pod has several budgets, the order of departures matters for the count.
        self._overlapping = any(len(places) > 1 for places in self._counted)

    def over(self, gone: Gone) -> list[bool]:
        """Which of these violate a budget when all of them go in kube-scheduler's order; returned in the
        order of `gone`, which has the most important first."""
        if not self._rank:
            return over_budget((self._counted[i] for i in gone), self._allowed)
        order = sorted(gone, key=self._rank.__getitem__)
        over = dict(zip(order, over_budget((self._counted[i] for i in order), self._allowed), strict=True))
        return [over[i] for i in gone]

    def cost(self, gone: Gone) -> Cost:
        if not gone:
            return Cost(0, NO_PRIORITY, 0, 0, 0, 0, -float("inf"))
        priorities = [self._pods[i].priority for i in gone]
        # The first is one of the most important.
        starts = (self._pods[i].started_at for i in gone if self._pods[i].priority == priorities[0])
        return Cost(
            violations=sum(self.over(gone)) if self._any_counted else 0,
            highest_priority=priorities[0],
            total_priority=sum(priority for priority in priorities if priority > 0),
            pods=len(gone),
            sum_of_priorities=sum(priorities),
            busy=sum(self._busy[i] for i in gone),
            age=-min(float("inf") if start is None else start for start in starts),
        )

    def kind(self, i: int) -> Hashable:
        """Without priority, idleness and age: among otherwise equal pods, the least important always leave
        first."""
        return i if self._overlapping else self._counted[i]


@dataclass(frozen=True, slots=True)
class Need:
    """A need of the evicted pods together: at least `much`, where the i-th frees `gains[i]`."""

    much: int
    gains: Sequence[int]

    def met_by(self, gone: Gone) -> bool:
        return sum(self.gains[i] for i in gone) >= self.much


class _Class(NamedTuple):
    """Pods of one kind, the last to be spared first; what each frees, and all from this class on do."""

    pods: Gone
    gains: tuple[int, ...]
    rest: tuple[int, ...]


def cheapest_first(
    kinds: Kinds,
    needs: Sequence[Need],
    pricing: Prices,
    below: tuple[float, ...] | None,
    steps: list[int],
) -> Iterator[tuple[tuple[float, ...], Gone]]:
    """Every number of every class that meets all needs, in the order of cost, while that is `below`.
    `steps[0]` sets may still be begun, over several searches; below 0, a search ended early."""
    classes = _classes(kinds, needs)
    much = tuple(need.much for need in needs)
    order = count()
    begun: list[tuple[tuple[float, ...], int, Gone, int, int, tuple[int, ...]]] = []
    heappush(begun, (pricing.cost(()), next(order), (), 0, 0, (0,) * len(needs)))
    while begun:
        cost, _, gone, at, taken, have = heappop(begun)
        if all(map(int.__ge__, have, much)):
            yield cost, gone
        for j in range(at, len(classes)):
            one = classes[j]
            used = taken if j == at else 0
            if not _reaches(have, one, used, much):
                # Nor does what begins with a later class, which has less to add.
                break
            if used == len(one.pods):
                continue
            steps[0] -= 1
            if steps[0] < 0:
                return
            more = tuple(sorted((*gone, one.pods[used])))
            price = pricing.cost(more)
            if below is None or price < below:
                got = tuple(map(int.__add__, have, one.gains))
                heappush(begun, (price, next(order), more, j, used + 1, got))


def _reaches(have: tuple[int, ...], one: _Class, used: int, much: tuple[int, ...]) -> bool:
    return all(
        had + rest - used * gain >= need
        for had, rest, gain, need in zip(have, one.rest, one.gains, much, strict=True)
    )


def _classes(kinds: Kinds, needs: Sequence[Need]) -> list[_Class]:
    members: dict[tuple[Hashable, tuple[int, ...]], list[int]] = {}
    for kind, pod in kinds:
        gains = tuple(need.gains[pod] for need in needs)
        members.setdefault((kind, gains), []).append(pod)
    rest = (0,) * len(needs)
    classes: list[_Class] = []
    for (_, gains), pods in reversed(members.items()):
        rest = tuple(left + gain * len(pods) for left, gain in zip(rest, gains, strict=True))
        # The most important have the lowest places, and are spared longest.
        classes.append(_Class(tuple(sorted(pods, reverse=True)), gains, rest))
    return classes[::-1]


def gpu_needs(dry_run: DryRun) -> Iterator[Need]:
    """What must be freed of a node's GPU resources as kube-scheduler counts them."""
    shares, resources = dry_run.request.shares, dry_run.sizing.resources
    asked = {ask.resource: ask.count for ask in dry_run.request.units}
    if shares is not None:
        asked[resources.share] = shares.total_mib
        unplaced = [int(relief.unplaced) for relief in dry_run.reliefs]
        yield Need(len(dry_run.held.unplaced), unplaced)
    for name, amount in asked.items():
        if (limit := dry_run.info.limit(name)) != UNLIMITED:
            free = limit - dry_run.held.requested[name]
            yield Need(amount - free, [relief.requested.get(name, 0) for relief in dry_run.reliefs])


def other_needs(
    asked: Mapping[str, Fraction], free: Mapping[str, Fraction], pods: Sequence[Mapping[str, Fraction]]
) -> Iterator[Need]:
    """What must be freed of other resources, beside what is `free`; `pods` are the requests of each pod."""
    for name, amount in asked.items():
        much = amount - free.get(name, _ZERO)
        gains = [max(_ZERO, each.get(name, _ZERO)) for each in pods]
        scale = lcm(much.denominator, *(gain.denominator for gain in gains))
        yield Need(int(much * scale), [int(gain * scale) for gain in gains])


def focuses(dry_run: DryRun, pricing: Prices, needs: Sequence[Need]) -> Iterator[tuple[Kinds, list[Need]]]:
    """The searches that together find every set worth looking at: pods with kinds, and additional needs."""
    shares, report = dry_run.request.shares, dry_run.info.report
    single = shares is not None and len(shares.by_container) == 1 and not dry_run.request.units
    if shares is not None and single and report is not None and not any(dry_run.held.unknown.values()):
        for device in report.devices:
            # On a device that takes no share, departures do not help.
            if device.healthy and not device.cordoned and not device.mig.enabled:
                yield _device_focus(device, dry_run, pricing, needs, shares.largest_mib)
        return
    kinds: Kinds = []
    for i, (relief, parts) in enumerate(zip(dry_run.reliefs, _parts(dry_run), strict=True)):
        unknown = frozenset(relief.unknown.items())
        if parts or unknown or any(need.much > 0 and need.gains[i] for need in needs):
            kinds.append(((pricing.kind(i), unknown, parts), i))
    yield kinds, []


def _device_focus(
    device: Device, dry_run: DryRun, pricing: Prices, needs: Sequence[Need], mib: int
) -> tuple[Kinds, list[Need]]:
    """A single share needs one device: pods elsewhere matter only for the needs of the whole node."""
    parts = [relief.devices.get(device.uuid) for relief in dry_run.reliefs]
    here = [((pricing.kind(i), _part(part)), i) for i, part in enumerate(parts) if part is not None]
    elsewhere = [
        ((pricing.kind(i), None), i)
        for i, part in enumerate(parts)
        if part is None and any(need.much > 0 and need.gains[i] for need in needs)
    ]
    held = dry_run.held.devices[device.uuid]
    room = ShareMemory.of(device.memory, held, dry_run.sizing.headroom_percent)
    freed = [room.without((part,)) if part else room for part in parts]
    return [*here, *elsewhere], [
        # The smaller of the two is free; each must become enough.
        Need(mib - room.unpromised, [each.unpromised - room.unpromised for each in freed]),
        Need(mib - room.unused, [each.unused - room.unused for each in freed]),
        Need(held.units, [part.units if part else 0 for part in parts]),
    ]


def _part(part: DeviceHoldings) -> tuple[Hashable, ...]:
    return part.units, part.requested_mib, part.foreign_mib, part.departed_mib


def _parts(dry_run: DryRun) -> Iterator[frozenset[tuple[Hashable, int]]]:
    """What each pod frees on devices; on a device of its own, as the change of what a decision sees."""
    users = Counter(uuid for relief in dry_run.reliefs for uuid in relief.devices)
    devices = dry_run.info.devices
    profiles = {each.uuid: each.offered_as for device in devices for each in device.mig.instances}
    cordoned = {device.uuid for device in devices if device.cordoned}
    # Where shares are placed, every device has a room of its own, and few are alike.
    alone = dry_run.request.shares is None
    before = _slots(dry_run, (), [uuid for uuid in users if users[uuid] == 1]) if alone else {}
    for i, relief in enumerate(dry_run.reliefs):
        exclusive = {uuid for uuid in relief.devices if alone and users[uuid] == 1}
        after = _slots(dry_run, (i,), exclusive) if exclusive else {}
        counted: Counter[Hashable] = Counter()
        for uuid, part in relief.devices.items():
            if uuid in exclusive:
                units = dry_run.held.devices[uuid].units
                counted[(units, part.units, before[uuid], after[uuid], uuid in cordoned)] += 1
            else:
                instances = Counter(profiles[instance] for instance in part.instances)
                counted[(uuid, *_part(part), frozenset(instances.items()))] += 1
        yield frozenset(counted.items())


def _slots(dry_run: DryRun, gone: Gone, uuids: Collection[str]) -> dict[str | None, Slot]:
    """The slot of each of these devices, reduced to the fields that this request compares."""
    measured = dry_run.request.min_free_mib > 0
    slots = {}
    for uuid, slot in dry_run.node_without(gone).gpus:
        if uuid not in uuids:
            continue
        units = tuple(
            replace(unit, mig_placements=None, free_mib=unit.free_mib if measured else 0)
            for unit in slot.units
        )
        slots[uuid] = replace(slot, share_free_mib=-1, idle=0.0, units=units)
    return slots
