"""The decision in plain Python: one node at a time, one loop per rule, slow and easy to check by eye.

`FILTERS` has one function per filter of the product, by its name, in the order in which they ask. Placement
is found by trying everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.node import NodeState, Slot, Unit, version_number
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest


class Gpu(NamedTuple):
    """The values that a wish about one device compares, for a whole GPU, an instance or a GPU for shares."""

    model: GpuModel
    compute_capability: int
    total_mib: int
    free_mib: int


# In the order in which the filters ask: each sees only the share GPUs that met the wishes before it.
WISHES: dict[str, Callable[[GpuRequest, Gpu], bool]] = {
    "model": lambda request, gpu: not request.models or request.model_rank(gpu.model) is not None,
    "compute-capability": lambda request, gpu: (
        gpu.compute_capability >= version_number(request.min_compute_capability)
    ),
    "known-memory": lambda request, gpu: (
        (not (request.min_memory_mib or request.min_free_mib or request.shares) or gpu.total_mib > 0)
        and (not request.min_free_mib or gpu.free_mib >= 0)
    ),
    "total-memory": lambda request, gpu: gpu.total_mib >= request.min_memory_mib,
    # Unknown free memory is below 0, and refuses no pod that asks none.
    "free-memory": lambda request, gpu: not request.min_free_mib or gpu.free_mib >= request.min_free_mib,
}


def share_gpus(state: NodeState, request: GpuRequest, wishes: Iterable[str]) -> list[Slot]:
    """The GPUs of a node that take shares, sick ones included, and meet those wishes."""
    return [
        slot
        for slot in state.slots
        if slot.share_free_mib >= 0 and all(WISHES[wish](request, _as_share(slot)) for wish in wishes)
    ]


def _as_share(slot: Slot) -> Gpu:
    return Gpu(slot.model, slot.compute_capability, slot.total_mib, slot.share_free_mib)


def _units(state: NodeState, resource: str) -> list[tuple[Slot, Unit]]:
    return [(slot, unit) for slot in state.slots for unit in slot.units if unit.resource == resource]


def free_units(state: NodeState, resource: str) -> list[tuple[Slot, Unit]]:
    return [(slot, unit) for slot, unit in _units(state, resource) if slot.healthy and unit.free > 0]


def _as_unit_meets(slot: Slot, unit: Unit, request: GpuRequest, wish: str) -> bool:
    return WISHES[wish](request, Gpu(unit.model, slot.compute_capability, unit.memory_mib, unit.free_mib))


def _before(wish: str) -> list[str]:
    names = list(WISHES)
    return names[: names.index(wish)]


def _wish_holds(state: NodeState, request: GpuRequest, wish: str) -> bool:
    """All free units meet it, and where none is free, any one does; of the share GPUs some one does."""

    def met(slot: Slot, unit: Unit) -> bool:
        return _as_unit_meets(slot, unit, request, wish)

    for ask in request.units:
        offered = _units(state, ask.resource)
        if offered and not any(met(slot, unit) for slot, unit in offered):
            return False
        if not all(met(slot, unit) for slot, unit in free_units(state, ask.resource)):
            return False
    if request.shares is not None:
        gpus = share_gpus(state, request, _before(wish))
        return not gpus or any(WISHES[wish](request, _as_share(slot)) for slot in gpus)
    return True


def available(state: NodeState, resource: str) -> int:
    """Units a pod can still get; below zero where more is held than there is."""
    free = sum(unit.free for _, unit in free_units(state, resource))
    for name, unknown, limit in state.limits:
        if name == resource:
            return min(free - unknown, limit)
    return free


def fresh_inventory(state: NodeState, request: GpuRequest) -> bool:
    if request.units and request.shares is None:
        from_slices = (*state.by_claim, *state.open)
        if all(ask.resource in from_slices and _is_offered(state, ask) for ask in request.units):
            return True
    if any(_awaits_report(state, request)):
        return False
    by_labels_only = state.estimated and len(state.slots) > 0
    if request.shares is not None:
        return state.fresh and not by_labels_only and not state.by_allocatable
    if any(ask.profile for ask in request.units) and by_labels_only and not state.by_allocatable:
        return False
    return state.fresh


def _awaits_report(state: NodeState, request: GpuRequest) -> Iterator[bool]:
    """Whether each wish is about a value that is unknown before an agent reports."""
    if request.shares is not None or not (state.estimated or state.by_allocatable):
        return
    for ask in request.units:
        for slot, unit in _units(state, ask.resource):
            yield bool(request.models) and unit.model.name == "UNKNOWN"
            yield request.min_memory_mib > 0 and not unit.memory_mib
            yield request.min_free_mib > 0 and slot.healthy and unit.free > 0 and not unit.free_mib
            if unit.model.vendor == "nvidia":
                yield request.min_compute_capability is not None and not slot.compute_capability
                yield request.min_cuda is not None and not state.cuda


def _is_offered(state: NodeState, ask: UnitRequest) -> bool:
    return ask.resource in state.open or any(
        unit.resource == ask.resource for slot in state.slots for unit in slot.units
    )


def total_memory(state: NodeState, request: GpuRequest) -> bool:
    if not _wish_holds(state, request, "total-memory"):
        return False
    if request.shares is None:
        return True
    gpus = share_gpus(state, request, list(WISHES)[:4])
    return not gpus or any(slot.total_mib >= request.shares.largest_mib for slot in gpus)


def sharing(state: NodeState, request: GpuRequest) -> bool:
    several = any(
        ask.count > 1 for ask in request.units if ask.profile is None and "shared" not in ask.resource
    )
    exclusive = request.sharing == "exclusive" or (request.sharing is None and several)
    if exclusive and (state.shared or state.sliced):
        return False
    wants_shared = any(ask.resource.endswith(".shared") for ask in request.units)
    return state.shared or not wants_shared or not state.slots


def replicas(state: NodeState, request: GpuRequest) -> bool:
    most = [each.in_one or each.count for each in request.units if not each.by_claim]
    return not state.one_replica or max(most, default=0) <= 1


def health(state: NodeState, request: GpuRequest) -> bool:
    for ask in request.units:
        have = available(state, ask.resource)
        sick = sum(
            unit.free
            for slot, unit in _units(state, ask.resource)
            if not slot.healthy
            and all(_as_unit_meets(slot, unit, request, wish) for wish in list(WISHES)[:4])
        )
        if have < ask.count <= have + sick:
            return False
    if request.shares is not None:
        gpus = share_gpus(state, request, list(WISHES)[:4])
        roomy = [slot for slot in gpus if slot.share_free_mib >= request.shares.largest_mib]
        return not roomy or any(slot.healthy for slot in roomy)
    return True


def _are_enough(state: NodeState, request: GpuRequest, *, instances: bool) -> bool:
    return all(_is_enough(state, ask) for ask in request.units if (ask.profile is not None) == instances)


def _is_enough(state: NodeState, ask: UnitRequest) -> bool:
    if ask.resource in state.open:
        return True
    if ask.by_claim:
        return all(limit > 0 for name, _, limit in state.limits if name == ask.resource)
    return available(state, ask.resource) >= ask.count


def free_memory(state: NodeState, request: GpuRequest) -> bool:
    if not _wish_holds(state, request, "free-memory"):
        return False
    if request.shares is None:
        return True
    if request.shares.total_mib > state.share_limit:
        return False
    return all(place(room, request.shares) is not None for room in _rooms_left(state, request))


def share_room(state: NodeState, request: GpuRequest) -> list[int]:
    """Room per slot for the request's shares; -1 where none may go."""
    takers = share_gpus(state, request, WISHES)
    return [
        slot.share_free_mib if slot.healthy and any(slot is taker for taker in takers) else -1
        for slot in state.slots
    ]


def _rooms_left(state: NodeState, request: GpuRequest) -> set[tuple[int, ...]]:
    """The GPUs that may remain for shares, whichever free GPUs the device plugin picks for whole ones."""
    room = share_room(state, request)
    picks = []
    for ask in request.units:
        if ask.profile is None:
            free = [
                i
                for i, slot in enumerate(state.slots)
                if slot.healthy and any(u.resource == ask.resource and u.free > 0 for u in slot.units)
            ]
            picks.append(list(combinations(free, min(ask.count, len(free)))))
    return {
        tuple(sorted(-1 if any(i in pick for pick in picked) else mib for i, mib in enumerate(room)))
        for picked in product(*picks)
    }


def place(room_mib: Sequence[int], shares: ShareRequest) -> tuple[int, ...] | None:
    """Some slot for each share, running ones first, or None: every choice is tried.

    Only of GPUs with equal room and the same shares on them is just the first tried.
    """

    def extend(slots: tuple[int, ...]) -> tuple[int, ...] | None:
        if len(slots) == len(shares.running):
            return _with_init(room_mib, shares, slots)
        mib = shares.running[len(slots)][1]
        seen = set()
        for slot, room in enumerate(room_mib):
            on = tuple(i for i, other in enumerate(slots) if other == slot)
            if (room, on) not in seen and sum(shares.running[i][1] for i in on) + mib <= room:
                seen.add((room, on))
                found = extend((*slots, slot))
                if found is not None:
                    return found
        return None

    return extend(())


def _with_init(
    room_mib: Sequence[int], shares: ShareRequest, slots: tuple[int, ...]
) -> tuple[int, ...] | None:
    init: list[int] = []
    for share in shares.init:
        for slot, room in enumerate(room_mib):
            beside = sum(shares.running[i][1] for i in share.beside if slots[i] == slot)
            if beside + share.memory_mib <= room:
                init.append(slot)
                break
        else:
            return None
    return (*slots, *init)


def peak_mib(shares: ShareRequest, slots: Sequence[object], slot: object) -> int:
    """The largest amount that shares on those slots hold at once on one of them, over the pod's phases."""
    phases = [sum(mib for (_, mib), at in zip(shares.running, slots, strict=False) if at == slot)]
    for share, at in zip(shares.init, slots[len(shares.running) :], strict=True):
        beside = sum(shares.running[i][1] for i in share.beside if slots[i] == slot)
        phases.append(beside + (share.memory_mib if at == slot else 0))
    return max(phases)


FILTERS: dict[str, Callable[[NodeState, GpuRequest], bool]] = {
    "fresh-inventory": fresh_inventory,
    "change-in-progress": lambda state, request: not state.changing,
    "model": lambda state, request: _wish_holds(state, request, "model"),
    "compute-capability": lambda state, request: _wish_holds(state, request, "compute-capability"),
    "cuda": lambda state, request: state.cuda >= version_number(request.min_cuda),
    "known-memory": lambda state, request: _wish_holds(state, request, "known-memory"),
    "total-memory": total_memory,
    "sharing": sharing,
    "replicas": replicas,
    "health": health,
    "gpu-count": lambda state, request: _are_enough(state, request, instances=False),
    "mig-placement": lambda state, request: _are_enough(state, request, instances=True),
    "double-allocation": lambda state, request: (
        all(ask.resource not in state.twice for ask in request.units)
        and not (request.shares is not None and state.shares_twice)
    ),
    "free-memory": free_memory,
}
