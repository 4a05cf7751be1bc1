"""The event handlers of DeviceClasses, ResourceSlices, ResourceClaims and DeviceTaintRules, which update the
devices in the scheduler cache."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.wire.dra.claim_object import ClaimObject, read_claim
from scheduler_ext.wire.dra.class_object import ClassObject, read_class
from scheduler_ext.wire.dra.resource_api import CLAIMS, CLASSES, RULES, SLICES
from scheduler_ext.wire.dra.slice_object import SliceObject, read_slice
from scheduler_ext.wire.dra.taint_rule import RuleObject, read_rule


@dataclass(frozen=True, slots=True)
class DraKind:
    """A kind of `resource.k8s.io`: its type on the wire, its value in the core, and how the index takes it.
    `update` and `remove` return the nodes that change. `by_uid`: objects are known by their uid."""

    name: str
    object: type[Any]
    read: Callable[[Any], Any]
    update: Callable[[DeviceIndex, Any], set[str]]
    remove: Callable[[DeviceIndex, str], set[str]]
    known: Callable[[DeviceIndex], Iterable[str]]
    by_uid: bool = False


KINDS: Final[Mapping[str, DraKind]] = {
    CLASSES: DraKind(
        "DeviceClass",
        ClassObject,
        read_class,
        DeviceIndex.update_class,
        DeviceIndex.remove_class,
        DeviceIndex.classes,
    ),
    SLICES: DraKind(
        "ResourceSlice",
        SliceObject,
        read_slice,
        DeviceIndex.update_slice,
        DeviceIndex.remove_slice,
        DeviceIndex.slices,
    ),
    CLAIMS: DraKind(
        "ResourceClaim",
        ClaimObject,
        read_claim,
        DeviceIndex.update_claim,
        DeviceIndex.remove_claim,
        DeviceIndex.claims,
        by_uid=True,
    ),
    RULES: DraKind(
        "DeviceTaintRule",
        RuleObject,
        read_rule,
        DeviceIndex.update_rule,
        DeviceIndex.remove_rule,
        DeviceIndex.rules,
    ),
}
"""By resource."""


class DeviceHandler(CacheHandler[Any]):
    """Reads objects of one kind without the lock, and updates the devices under it."""

    # A slice may have 128 devices.
    together = 15

    def __init__(self, device_kind: DraKind, *parts: Any) -> None:
        super().__init__(*parts)
        self._kind = device_kind
        self.kind = device_kind.name
        self.by_uid = device_kind.by_uid

    def upsert(self, items: Sequence[Any], clock: ServerClock) -> None:
        self._unlisted.difference_update(map(self.key, items))
        self._apply(self._kind.update, [self._kind.read(item) for item in items])

    def known(self) -> set[str]:
        with self._locked as cache:
            return set(self._kind.known(cache.devices))

    def remove(self, keys: Collection[str]) -> None:
        self._apply(self._kind.remove, keys)

    def _apply(self, change: Callable[[DeviceIndex, Any], set[str]], values: Collection[Any]) -> None:
        changed: set[str] = set()
        with self._locked as cache:
            for value in values:
                changed |= change(cache.devices, value)
            cache.touch_devices(changed, time.monotonic())
            renaming = cache.devices.is_renaming
        if changed or renaming:
            self._changed()
