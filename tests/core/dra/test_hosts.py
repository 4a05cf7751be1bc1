"""How many claims with a constraint a node's devices serve: never fewer than a simple allocator places, and
without devices that several requests may get, exactly as many for matchAttribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.dra.hosts import CandidateDevice, CandidateDevices, DeviceCount, hosts_of
from scheduler_ext.core.dra.published import (
    Claim,
    Constraint,
    DeviceFacts,
    DeviceRequirements,
    PublishedDevice,
    RequestedDevices,
)

ROOT = "example.com/root"
NODE = "n"
# The PCIe roots of each device that a request may get, and how many it needs.
Kind = tuple[list[str], int]
KINDS = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(1, 2)),
    min_size=1,
    max_size=2,
)


def device(name: str, root: str) -> PublishedDevice:
    return PublishedDevice(name, DeviceFacts("example.com", {ROOT: root}, {}))


def served(constraint: Constraint, kinds: Sequence[Kind], *, same: bool) -> int:
    """How many claims the node serves; with `same`, all requests may get the devices of the first."""
    requests = [
        RequestedDevices(DeviceRequirements(f"class-{i}"), count, name=f"r{i}")
        for i, (_, count) in enumerate(kinds)
    ]
    devices = [
        [device(f"{i}-{j}", root) for j, root in enumerate(roots)] for i, (roots, _) in enumerate(kinds)
    ]

    def find(request: RequestedDevices) -> CandidateDevices:
        index = 0 if same else int(request.ask.device_class[-1])
        here = [CandidateDevice(each, DeviceCount(1, 1)) for each in devices[index]]
        return CandidateDevices(here, {NODE: here}, is_exact=True)

    claim = Claim("u", "ns", "c", tuple(requests), constraints=(constraint,))
    most = [2**31]
    for part in hosts_of(claim, find, lambda request: True, [NODE]):
        if not part.hosts.admit(NODE):
            return 0
        most += [count.free for each in part.supplies.values() if (count := each.on(NODE)) is not None]
    return min(most)


def choices(
    constraint: Constraint, left: Sequence[list[tuple[int, str]]], counts: Sequence[int]
) -> Iterator[set[int]]:
    """The sets of devices that a claim may get, by their numbers."""
    for picked in product(*(combinations(here, count) for here, count in zip(left, counts, strict=True))):
        flat = [each for part in picked for each in part]
        roots = [root for _, root in flat]
        if len({number for number, _ in flat}) == len(flat) and (
            len(set(roots)) == len(roots) if constraint.distinct else len(set(roots)) == 1
        ):
            yield {number for number, _ in flat}


def placed(constraint: Constraint, kinds: Sequence[Kind], *, same: bool) -> int:
    """How many claims get devices, each the first that it may have."""
    numbers = iter(range(1000))
    left = [[(next(numbers), root) for root in roots] for roots, _ in kinds]
    left = [left[0]] * len(kinds) if same else left
    for claims in range(1000):
        taken = next(choices(constraint, left, [count for _, count in kinds]), None)
        if taken is None:
            return claims
        left = [[each for each in here if each[0] not in taken] for here in left]
    raise AssertionError


def alone(kinds: Sequence[Kind], *, same: bool) -> int:
    """How many claims have enough devices for each request alone: as the other counts have it."""
    return min(len((kinds[0] if same else kind)[0]) // kind[1] for kind in kinds)


@given(kinds=KINDS, distinct=st.booleans(), same=st.booleans())
def test_no_claim_that_gets_devices_is_refused(kinds: list[Kind], distinct: bool, same: bool) -> None:
    constraint = Constraint(ROOT, distinct=distinct)
    most = min(served(constraint, kinds, same=same), alone(kinds, same=same))
    found = placed(constraint, kinds, same=same)
    assert found <= most
    if not (distinct or same):
        assert found == most
