"""The nodes that may have what a claim asks, and how many such claims, as far as devices are not counted as
units: kube-scheduler allocates them, and refuses the other nodes (allocator_stable.go and constraint.go of
k8s.io/dynamic-resource-allocation)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from scheduler_ext.core.dra.consumable import MANY
from scheduler_ext.core.dra.published import Attribute, Claim, Constraint, PublishedDevice, Requested
from scheduler_ext.core.intree.resource_fit import DEVICE_CLASS_PREFIX
from scheduler_ext.core.intree.verdict import ClaimHosts


class DeviceCount(NamedTuple):
    """How many devices are free, or sets of devices, or claims that a device can still serve; and how many
    there are in all, after all that hold them have left."""

    free: int
    all: int


def total(counts: Iterable[DeviceCount]) -> DeviceCount:
    """The sum."""
    found = list(counts)
    return DeviceCount(sum(each.free for each in found), sum(each.all for each in found))


class Candidate(NamedTuple):
    """A device that a request may get, and how many claims it serves."""

    device: PublishedDevice
    serves: DeviceCount


class Candidates(NamedTuple):
    """The devices that a request may get, by node, and those within reach of several nodes. `is_exact`: there
    are none of these, and it can get each device."""

    by_node: Mapping[str, Sequence[Candidate]]
    anywhere: Sequence[Candidate]
    is_exact: bool


class Supply(NamedTuple):
    """How many times the devices for a part of a claim can be had, by node, and on each other node (None if
    that is not known). `in_all`: on all nodes together."""

    by_node: Mapping[str, DeviceCount]
    elsewhere: DeviceCount | None = None
    in_all: bool = False

    def on(self, node: str) -> DeviceCount | None:
        """The most on one node."""
        return self.by_node.get(node, self.elsewhere)


class Part(NamedTuple):
    """A part of a claim: the nodes that may have its devices, and how many times, by the name of a
    resource."""

    hosts: ClaimHosts
    supplies: Mapping[str, Supply]


# None for devices that are not known.
Find = Callable[[Requested], Candidates | None]


def hosts_of(claim: Claim, find: Find, is_counted: Callable[[Requested], bool]) -> Iterator[Part]:
    """The nodes for each request that is not counted otherwise, for the alternatives together, for requests
    that may get the same devices, and for each constraint. Each supply is an upper bound: kube-scheduler
    takes the first devices that fit."""
    for request in claim.requests:
        if not request.choice and not is_counted(request) and (found := find(request)) is not None:
            what = "its requests with adminAccess" if request.admin else request.ask.device_class
            yield _served(f"devices for {what}" if request.admin else f"devices of {what}", {request: found})
    choices = [each for each in claim.requests if each.choice]
    alternatives = _found(choices, find)
    if alternatives:
        yield _served("devices of one of its alternatives", alternatives)
    for constraint in (None, *claim.constraints):
        if (sets := _meeting(constraint, claim.requests, find)) is not None:
            yield sets


def _found(requests: Iterable[Requested], find: Find) -> dict[Requested, Candidates]:
    """The devices of each request; empty if those of some are not known."""
    found = {request: find(request) for request in requests}
    known = {request: candidates for request, candidates in found.items() if candidates is not None}
    return known if len(known) == len(found) else {}


def _named(needed: str, *parts: object) -> str:
    """The name of a resource that stands for the devices of a part of a claim, the same for equal parts."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
    return f"{DEVICE_CLASS_PREFIX}× {needed}?{digest}"


def _served(needed: str, found: Mapping[Requested, Candidates]) -> Part:
    """The nodes that have the devices for one of these requests."""

    def times(*nodes: str) -> DeviceCount:
        """With the devices of these nodes, and those that several nodes reach."""
        return total(
            _times(request, [*chain.from_iterable(each.by_node.get(n, ()) for n in nodes), *each.anywhere])
            for request, each in found.items()
        )

    by_node = {node: times(node) for each in found.values() for node in each.by_node}
    elsewhere, in_all = times(), times(*by_node)
    name = _named(needed, *(request._replace(name="") for request in found))
    near = {node: each for node, each in by_node.items() if each.free}
    supplies = {name: Supply(near, elsewhere if elsewhere.free else None)}
    several = any(device.serves.free for each in found.values() for device in each.anywhere)
    # Each node has its own of all devices.
    if several and in_all.free and not any(each.every for each in found):
        supplies[f"{name}&"] = Supply({}, in_all, in_all=True)
    hosts = ClaimHosts(
        needed,
        None if elsewhere.free else frozenset(near),
        None if elsewhere.all else frozenset(node for node, each in by_node.items() if each.all),
        resources=tuple(supplies),
    )
    return Part(hosts, supplies)


def _times(request: Requested, devices: Sequence[Candidate]) -> DeviceCount:
    """How many times a request gets what it asks of these devices."""

    def times(serves: list[int]) -> int:
        if request.admin:
            return MANY if sum(serves) >= max(1, request.devices) else 0
        if request.every:
            return min(serves, default=0)
        return sum(serves) // max(1, request.devices, request.choice)

    return DeviceCount(
        times([each.serves.free for each in devices]), times([each.serves.all for each in devices])
    )


def _meeting(constraint: Constraint | None, requests: Sequence[Requested], find: Find) -> Part | None:
    """The nodes that have enough devices for each request alone, and too few of one value of the attribute,
    or of different values; without a constraint, too few for all requests together. None if that is not
    known, or follows from the requests alone."""
    needed: Counter[Requested] = Counter()
    for each in requests:
        concerned = constraint is None or not constraint.requests or each.name in constraint.requests
        if concerned and not each.choice:
            needed[each._replace(name="", devices=0)] += max(1, each.devices)
    found = _found(needed, find) if constraint is not None or len(needed) > 1 else {}
    if not found or any(each.anywhere for each in found.values()):
        return None
    if constraint is None and not _share_devices(found.values()):
        return None
    text = "devices for all of its requests"
    if constraint is not None:
        values = "different values" if constraint.distinct else "one value"
        text = f"devices with {values} of {constraint.attribute}"
    lacking: tuple[set[str], set[str]] = set(), set()
    supply = {}
    for node in frozenset.intersection(*(frozenset(each.by_node) for each in found.values())):
        devices = {request: each.by_node[node] for request, each in found.items()}
        now, as_new = (_sets(constraint, needed, devices, later) for later in (0, 1))
        for sets, nodes in zip((now, as_new), lacking, strict=True):
            if sets == 0:
                nodes.add(node)
        if now and as_new:
            supply[node] = DeviceCount(now, as_new)
    name = _named(text, constraint, sorted(map(repr, needed.items())))
    hosts = ClaimHosts(text, frozenset(lacking[0]), frozenset(lacking[1]), lacking=True, resources=(name,))
    return Part(hosts, {name: Supply(supply)})


def _share_devices(found: Iterable[Candidates]) -> bool:
    """Whether several requests may get one device."""
    ids = [id(each.device) for candidates in found for here in candidates.by_node.values() for each in here]
    return len(set(ids)) < len(ids)


# By request, how many claims each device serves, by the identity of the device.
_Serves = Mapping[Requested, Mapping[int, int]]


def _sets(
    constraint: Constraint | None,
    needed: Mapping[Requested, int],
    devices: Mapping[Requested, Sequence[Candidate]],
    later: int,
) -> int | None:
    """How many sets of a node's devices meet a constraint at once; None if the requests have too few alone.
    `later` is 1 for a node that all pods have left."""
    serves: dict[Requested, dict[int, int]] = {request: {} for request in needed}
    alike: dict[Attribute, dict[Requested, dict[int, int]]] = {}
    for request, found in devices.items():
        for each in found:
            serves[request][id(each.device)] = each.serves[later]
            for value in each.device.values_of(constraint.attribute) if constraint is not None else ():
                alike.setdefault(value, {}).setdefault(request, {})[id(each.device)] = each.serves[later]
    if any(sum(serves[request].values()) < count for request, count in needed.items()):
        return None
    sets = _together(needed, serves)
    if constraint is not None and constraint.distinct:
        numbers = [sum(_union(each).values()) for each in alike.values()]
        size = sum(needed.values())
        # Each set has so many different values.
        sets = bisect_left(
            range(1, sets + 1), True, key=lambda n: sum(min(number, n) for number in numbers) < size * n
        )
    elif constraint is not None:
        sets = min(sets, sum(_together(needed, each) for each in alike.values()))
    # Admin access takes nothing.
    return MANY if sets and any(each.admin for each in needed) else sets


def _together(needed: Mapping[Requested, int], serves: _Serves) -> int:
    """How many times all requests get what they ask, no device twice."""
    alone = (sum(serves.get(request, {}).values()) // count for request, count in needed.items())
    return min(sum(_union(serves).values()) // sum(needed.values()), *alone)


def _union(serves: _Serves) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in serves.values():
        for device, number in each.items():
            found[device] = max(number, found.get(device, 0))
    return found
