"""The nodes that may have what a claim asks, as far as devices are not counted as units: kube-scheduler
allocates them, and refuses the other nodes (allocator_stable.go and constraint.go of
k8s.io/dynamic-resource-allocation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler_ext.core.dra.published import Attribute, Claim, Constraint, PublishedDevice, Requested
from scheduler_ext.core.intree.verdict import ClaimHosts

_MANY: Final = 2**31


class Candidate(NamedTuple):
    """A device that a request may get; `is_free` says whether now."""

    device: PublishedDevice
    is_free: bool


class Candidates(NamedTuple):
    """The devices that a request may get, by node. `is_exact`: it can get each of them, and each once."""

    by_node: Mapping[str, Sequence[Candidate]]
    is_exact: bool

    def having(self, count: int, *, as_new: bool) -> frozenset[str]:
        """The nodes that may have so many; `as_new`: after all that hold them have left."""
        return frozenset(
            node for node, found in self.by_node.items() if _count(_usable(found, as_new)) >= max(1, count)
        )


# None for devices that are not known, or within reach of several nodes.
Find = Callable[[Requested], Candidates | None]


def hosts_of(claim: Claim, find: Find, is_counted: Callable[[Requested], bool]) -> Iterator[ClaimHosts]:
    """The nodes for each request that is not counted otherwise, for the alternatives together, and for each
    constraint."""
    for request in claim.requests:
        if not request.choice and not is_counted(request) and (found := find(request)) is not None:
            what = "its requests with adminAccess" if request.admin else request.ask.device_class
            yield ClaimHosts(
                f"devices for {what}" if request.admin else f"devices of {what}",
                found.having(request.devices, as_new=False),
                found.having(request.devices, as_new=True),
            )
    choices = [each for each in claim.requests if each.choice]
    if not all(map(is_counted, choices)):
        yield from _any_of(choices, find)
    for constraint in claim.constraints:
        yield from _meeting(constraint, claim.requests, find)


def _any_of(choices: Sequence[Requested], find: Find) -> Iterator[ClaimHosts]:
    now, as_new = set[str](), set[str]()
    for each in choices:
        if (found := find(each)) is None:
            return
        now |= found.having(each.choice, as_new=False)
        as_new |= found.having(each.choice, as_new=True)
    yield ClaimHosts("devices of one of its alternatives", frozenset(now), frozenset(as_new))


def _meeting(constraint: Constraint, requests: Sequence[Requested], find: Find) -> Iterator[ClaimHosts]:
    """The nodes that have enough devices for each request alone, and too few of one value of the attribute,
    or of different values."""
    needed: Counter[Requested] = Counter()
    for each in requests:
        if not each.choice and (not constraint.requests or each.name in constraint.requests):
            needed[each._replace(name="", devices=0)] += max(1, each.devices)
    found = {each: find(each) for each in needed}
    known = {each: candidates for each, candidates in found.items() if candidates is not None}
    if len(known) < len(found) or not known:
        return
    now, as_new = (
        frozenset(
            node
            for node in frozenset.intersection(
                *(known[each].having(count, as_new=later) for each, count in needed.items())
            )
            if not _meets(constraint, needed, known, node, as_new=later)
        )
        for later in (False, True)
    )
    kind = "different values" if constraint.distinct else "one value"
    yield ClaimHosts(f"devices with {kind} of {constraint.attribute}", now, as_new, lacking=True)


def _meets(
    constraint: Constraint,
    needed: Mapping[Requested, int],
    known: Mapping[Requested, Candidates],
    node: str,
    *,
    as_new: bool,
) -> bool:
    by_value: dict[Attribute, dict[Requested, list[PublishedDevice]]] = {}
    for request, candidates in known.items():
        for device in _usable(candidates.by_node[node], as_new):
            for value in device.values_of(constraint.attribute):
                by_value.setdefault(value, {}).setdefault(request, []).append(device)
    if constraint.distinct:
        return len(by_value) >= sum(needed.values())
    return any(
        all(_count(alike.get(request, ())) >= count for request, count in needed.items())
        for alike in by_value.values()
    )


def _usable(found: Sequence[Candidate], as_new: bool) -> list[PublishedDevice]:
    return [each.device for each in found if as_new or each.is_free]


def _count(devices: Sequence[PublishedDevice]) -> int:
    """How many allocations devices may serve: a shared one serves many."""
    return _MANY if any(each.facts.allow_multiple_allocations for each in devices) else len(devices)
