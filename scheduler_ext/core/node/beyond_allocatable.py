"""What nothing holds of a node's GPUs and no pod can get, because the device plugin does not offer it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import NodeInfo, Slot
from scheduler_ext.core.request.resource_names import without_shared


@dataclass(slots=True)
class _FreeUnits:
    """The free units of one kind, and the resource names that they may be offered under."""

    names: set[str] = field(default_factory=set)
    free: int = 0


def beyond_allocatable(
    info: NodeInfo,
    held: Holdings,
    slots: Iterable[tuple[Slot, str | None]],
    closed: frozenset[str],
    *,
    takes_shares: bool,
) -> tuple[tuple[str, int], ...]:
    """The free units of healthy GPUs, by resource, that allocatable less all requests does not cover: the
    device plugin or the kubelet withholds them, and only their number is known. None without a Node object.
    Of resources that a cordoned GPU has `closed`, all are such. Memory shares and claims need no device
    plugin."""
    if info.allocatable is None:
        return ()
    out = {device.uuid for device in info.devices if device.cordoned}
    out.update(device.on for device in (info.dra.devices if info.dra is not None else ()))
    pools: dict[str, _FreeUnits] = {}
    for slot, uuid in slots:
        if slot.healthy and uuid not in out:
            _add(slot, pools, whole=not takes_shares or info.takes_unreported)
    found = (_beyond(pool, info.allocatable, held, closed) for pool in pools.values())
    return tuple(each for each in found if each[1] > 0)


def _add(slot: Slot, pools: dict[str, _FreeUnits], *, whole: bool) -> None:
    free: dict[str, int] = {}
    for unit in slot.units:
        is_mig = unit.resource.startswith(MIG_PREFIX)
        if is_mig or whole:
            kind = without_shared(unit.resource) if is_mig else slot.model.vendor
            pools.setdefault(kind, _FreeUnits()).names.add(unit.resource)
            # The names of a kind mean the same units.
            free[kind] = unit.free
    for kind, count in free.items():
        pools[kind].free += count


def _beyond(
    pool: _FreeUnits, allocatable: Mapping[str, int], held: Holdings, closed: frozenset[str]
) -> tuple[str, int]:
    open_ = () if pool.names & closed else pool.names
    left = sum(max(0, allocatable.get(name, 0) - held.requested[name]) for name in open_)
    unknown = sum(held.unknown[name] for name in pool.names)
    # The name with the most of them is the one in use.
    name = min(pool.names, key=lambda name: (-allocatable.get(name, 0), name))
    return name, pool.free - unknown - left
