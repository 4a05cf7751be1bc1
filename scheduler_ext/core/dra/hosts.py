"""The nodes that may have what the claims of a pod ask, and how many such pods, as far as devices are not
counted as units: kube-scheduler allocates them, and refuses the other nodes (allocator_stable.go and
constraint.go of k8s.io/dynamic-resource-allocation)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product
from typing import Final, NamedTuple

from scheduler_ext.core.dra.consumable import MANY
from scheduler_ext.core.dra.published import Attribute, Claim, Constraint, PublishedDevice, RequestedDevices
from scheduler_ext.core.intree.resource_fit import DEVICE_CLASS_PREFIX
from scheduler_ext.core.intree.verdict import ClaimHosts

# So many combinations of alternatives are compared; of more, nothing is known.
_MOST_CHOICES: Final = 64
# Of more requests, only each and all are compared with the devices.
_MOST_TOGETHER: Final = 5


class DeviceCount(NamedTuple):
    """How many devices are free, or sets of devices, or claims that a device can still serve; and how many
    there are in all, after all that hold them have left."""

    free: int
    all: int


def total(counts: Iterable[DeviceCount]) -> DeviceCount:
    """The sum."""
    found = list(counts)
    return DeviceCount(sum(each.free for each in found), sum(each.all for each in found))


class CandidateDevice(NamedTuple):
    """A device that a request may get, and how many claims it serves."""

    device: PublishedDevice
    serves: DeviceCount


class CandidateDevices(NamedTuple):
    """The devices that a request may get: `all`, and those within reach of each node. `is_exact`: each is
    on one node, and the request can get it."""

    all: Sequence[CandidateDevice]
    by_node: Mapping[str, Sequence[CandidateDevice]]
    is_exact: bool
    several: bool = False
    """Whether several nodes reach some."""


class Supply(NamedTuple):
    """How many times the devices for a part of a claim can be had, by node, or on all nodes together."""

    by_node: Mapping[str, DeviceCount]
    in_all: DeviceCount | None = None

    def on(self, node: str) -> DeviceCount | None:
        """The most on one node; None if that is not known."""
        return self.in_all or self.by_node.get(node)


class ClaimPart(NamedTuple):
    """A part of what claims ask: the nodes that may have its devices, and how many times, by the name of a
    resource."""

    hosts: ClaimHosts
    supplies: Mapping[str, Supply]


# None for devices that are not known.
Find = Callable[[RequestedDevices], CandidateDevices | None]
# Whether the devices of a request are counted as units of a node.
IsCounted = Callable[[RequestedDevices], bool]
# Requests without their names, and the devices that each needs: no device twice, and of several requests only
# devices that claims share.
_Needed = Sequence[tuple[RequestedDevices, int]]
# The identity of a device, and whether claims share it.
_Device = tuple[int, bool]
# By request, how many claims each device serves.
_Serves = Mapping[RequestedDevices, Mapping[_Device, int]]


def hosts_of(claim: Claim, find: Find, is_counted: IsCounted, nodes: Collection[str]) -> Iterator[ClaimPart]:
    """The nodes among these for each request that is not counted otherwise, for the alternatives of one, for
    each constraint, and for requests that may get the same devices. Each supply is an upper bound:
    kube-scheduler takes the first devices that fit."""
    options_of = _options(claim.requests)
    for options in options_of:
        counted = _all_counted(options, is_counted)
        if not counted or _is_shared(options[0], find):
            alone = [_needed([each]) for each in options]
            yield from _part(_text(options[0]), alone, find, nodes, is_counted=counted)
    picks, counted = _picks(options_of), _all_counted(claim.requests, is_counted)
    for constraint in claim.constraints:
        values = "different values" if constraint.distinct else "one value"
        concerned = [_needed(each for each in pick if constraint.is_about(each.name)) for pick in picks]
        text = f"devices with {values} of {constraint.attribute}"
        yield from _part(text, concerned, find, nodes, constraint, is_counted=counted)
    if any(len(pick) > 1 for pick in picks):
        needed = [_needed(pick) for pick in picks]
        yield from _part("devices for all of its requests", needed, find, nodes, is_counted=counted)


def hosts_together(
    claims: Iterable[Claim], find: Find, is_counted: IsCounted, nodes: Collection[str]
) -> Iterator[ClaimPart]:
    """The nodes among these for the requests of all claims of a pod that may get the same devices. With admin
    access, a claim gets what another one gets, too."""
    requests = [[each for each in claim.requests if not each.admin] for claim in claims]
    needed = [_needed(pick) for pick in _picks(chain.from_iterable(map(_options, requests)))]
    counted = _all_counted(chain.from_iterable(requests), is_counted)
    return _part("devices for all of its claims", needed, find, nodes, is_counted=counted)


def _all_counted(requests: Iterable[RequestedDevices], is_counted: IsCounted) -> bool:
    """Whether the sum of equal requests is counted otherwise; of alternatives, it is not."""
    return all(not each.choice and is_counted(each) for each in requests)


def _text(request: RequestedDevices) -> str:
    if request.choice:
        return "devices of one of its alternatives"
    different = f"{request.devices:,} different " if request.devices > 1 else ""
    of = "its requests with adminAccess" if request.admin else request.ask.device_class
    return f"{different}devices {'for' if request.admin else 'of'} {of}"


def _is_shared(request: RequestedDevices, find: Find) -> bool:
    """Whether it asks several devices that claims share: none of them twice."""
    found = find(request) if request.devices > 1 else None
    return found is not None and any(each.serves.all > 1 for each in found.all)


def _options(requests: Iterable[RequestedDevices]) -> list[list[RequestedDevices]]:
    """Each request, or its alternatives."""
    options: dict[object, list[RequestedDevices]] = {}
    for i, each in enumerate(requests):
        options.setdefault(each.name.partition("/")[0] if each.choice else i, []).append(each)
    return list(options.values())


def _picks(options: Iterable[Sequence[RequestedDevices]]) -> list[Sequence[RequestedDevices]]:
    """One of the alternatives of each request, in every combination; none if there are too many."""
    picks = list(islice(product(*options), _MOST_CHOICES + 1))
    return list(picks) if len(picks) <= _MOST_CHOICES else []


def _needed(requests: Iterable[RequestedDevices]) -> _Needed:
    return [
        (each._replace(name="", devices=0, choice=0), max(1, each.devices, each.choice)) for each in requests
    ]


def _part(
    text: str,
    options: Sequence[_Needed],
    find: Find,
    nodes: Collection[str],
    constraint: Constraint | None = None,
    *,
    is_counted: bool,
) -> Iterator[ClaimPart]:
    """The nodes that have the devices for one of these options; where each request `is_counted`, too, only
    those lack them that have enough devices for each alone. Nothing if that is not known, or follows from
    the requests alone."""
    different = {tuple(sorted(map(repr, needed))): needed for needed in options}
    options = list(different.values())
    asked = dict.fromkeys(request for needed in options for request, _ in needed)
    found = {request: here for request in asked if (here := find(request)) is not None}
    is_alone = constraint is None and all(len(needed) == 1 for needed in options)
    if not found or len(found) < len(asked):
        return
    if constraint is None and not is_alone and not any(_share_devices(each, found) for each in options):
        return
    counts: dict[str, DeviceCount] = {}
    lacking: tuple[set[str], set[str]] = set(), set()
    for node in nodes:
        devices = {request: each.by_node.get(node, ()) for request, each in found.items()}
        sets = [_sets_of(options, devices, constraint, later, is_counted) for later in (0, 1)]
        for number, without in zip(sets, lacking, strict=True):
            if number == 0:
                without.add(node)
        if sets[0] and sets[1]:
            counts[node] = DeviceCount(sets[0], sets[1])
    name = _named(text, constraint, *different)
    supplies = {name: Supply(counts)}
    if is_alone and any(each.several for each in found.values()) and not any(r.every for r in found):
        devices = {request: each.all for request, each in found.items()}
        free, new = (_sets_of(options, devices, None, later, is_counted) or 0 for later in (0, 1))
        if free:
            supplies[f"{name}&"] = Supply({}, DeviceCount(free, new))
    hosts = ClaimHosts(text, frozenset(lacking[0]), frozenset(lacking[1]), tuple(supplies))
    yield ClaimPart(hosts, supplies)


def _named(needed: str, *parts: object) -> str:
    """The name of a resource that stands for the devices of a part of a claim, the same for equal parts."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
    return f"{DEVICE_CLASS_PREFIX}× {needed}?{digest}"


def _share_devices(needed: _Needed, found: Mapping[RequestedDevices, CandidateDevices]) -> bool:
    """Whether several requests may get one device."""
    ids = [id(each.device) for request, _ in needed for each in found[request].all]
    return len(set(ids)) < len(ids)


def _sets_of(
    options: Sequence[_Needed],
    devices: Mapping[RequestedDevices, Sequence[CandidateDevice]],
    constraint: Constraint | None,
    later: int,
    is_counted: bool,
) -> int | None:
    """How many times devices are there for one of the options; None if in each of them some request that
    `is_counted` has too few. `later` is 1 for a node that all pods have left."""
    serves = {
        request: {_device(each): each.serves[later] for each in here} for request, here in devices.items()
    }
    able = [
        needed
        for needed in options
        if not is_counted or all(sum(serves[each].values()) >= count for each, count in _sums(needed))
    ]
    if not able:
        return None
    if constraint is None:
        return min(MANY, sum(_most(needed, serves) for needed in able))
    alike: dict[Attribute, dict[RequestedDevices, dict[_Device, int]]] = {}
    for request, here in devices.items():
        for each in here:
            for value in each.device.values_of(constraint.attribute):
                alike.setdefault(value, {}).setdefault(request, {})[_device(each)] = each.serves[later]
    values = list(alike.values())
    if constraint.distinct:
        return min(MANY, sum(_most(needed, serves, values) for needed in able))
    # A device of several values counts once.
    sums = (min(_most(needed, serves), sum(_most(needed, of) for of in values)) for needed in able)
    return min(MANY, sum(sums))


def _device(candidate: CandidateDevice) -> _Device:
    return id(candidate.device), candidate.device.facts.allow_multiple_allocations


def _sums(needed: _Needed) -> Iterable[tuple[RequestedDevices, int]]:
    """As the requests are counted: those for equal devices together."""
    sums: Counter[RequestedDevices] = Counter()
    for request, count in needed:
        sums[request] += count
    return sums.items()


def _most(needed: _Needed, serves: _Serves, values: Sequence[_Serves] | None = None) -> int:
    """How many times all requests get what they ask, of each of the `values` at most one device each time:
    enough devices serve so many for each request, for some together, and for all (Hall's condition)."""
    sizes = [
        (request, max(1, len(serves.get(request, ()))) if request.every else count)
        for request, count in needed
    ]
    lengths = range(1, len(sizes) + 1) if len(sizes) <= _MOST_TOGETHER else {1, len(sizes)}
    some = [
        (_union(each, serves), sum(count for _, count in each))
        for length in lengths
        for each in combinations(sizes, length)
    ]
    size = sum(count for _, count in sizes)
    groups = [_union(sizes, each) for each in values or ()]

    def suffices(times: int) -> bool:
        return all(_times(here, times) >= count * times for here, count in some) and (
            values is None or sum(min(times, _times(each, times)) for each in groups) >= size * times
        )

    if not suffices(1):
        return 0
    limit = min((sum(serves for serves, _ in here) // count for here, count in some), default=MANY)
    return bisect_left(range(1, min(limit, MANY) + 1), True, key=lambda times: not suffices(times))


def _times(devices: Iterable[tuple[int, int]], times: int) -> int:
    """How many devices so many claims get: of each as many as it serves, and at most so many per claim."""
    return sum(min(serves, most * times) for serves, most in devices)


def _union(needed: _Needed, serves: _Serves) -> list[tuple[int, int]]:
    """How many claims each device serves, and how many of the requests of one claim."""
    found: dict[_Device, tuple[int, int]] = {}
    for request, _ in needed:
        for device, number in serves.get(request, {}).items():
            most, requests = found.get(device, (0, 0))
            found[device] = max(number, most), requests + 1 if device[1] else 1
    return list(found.values())
