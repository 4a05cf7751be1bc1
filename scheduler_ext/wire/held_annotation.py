"""The annotation of a GPUNode that holds room on its node: a JSON list, an entry for each room. It is written
by `scheduler-ext defrag --execute` and read by every extender."""

import logging
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import msgspec.structs
from msgspec import Meta, Struct

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, profile_from_resource
from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.times import seconds, time_text

log = logging.getLogger(__name__)

HELD_ANNOTATION = "gpu.scheduler-ext.io/held"
"""JSON: room on the node that is held for a waiting pod until a time
(docs/reference/gpunode.md#rooms-held-on-a-node). Written by `scheduler-ext defrag --execute`."""
_Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
_Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class _WrittenEntry(Struct, rename="camel", omit_defaults=True):
    """One room as written; `for_` is the pod, or the purpose, and `units` and `shares` an amount. `devices`
    are UUIDs by container."""

    for_: str = msgspec.field(name="for")
    until: str
    priority: _Priority = 0
    units: dict[str, _Count] = {}
    shares: dict[str, _Count] = {}
    devices: dict[str, str] = {}


class WrittenRoom(Struct, frozen=True):
    """A room that is held until a time (seconds since 1970), against pods up to a priority. `units` are
    numbers by resource and `shares` MiB by container; without both, the room is for the waiting pod `name`
    (namespace/name), as large as that pod asks. `devices` are the GPUs of its shares, by container, while it
    fits on no others."""

    name: str
    until: float
    priority: int = 0
    units: dict[str, int] = {}
    shares: dict[str, int] = {}
    devices: dict[str, str] = {}

    def lasting_until(self, until: float) -> "WrittenRoom":
        """The same room with another end."""
        return msgspec.structs.replace(self, until=until)

    @property
    def by_container(self) -> dict[str, tuple[str, ...]]:
        """The devices as pods have them."""
        return {name: (uuid,) for name, uuid in self.devices.items()}

    def request(self) -> GpuRequest | None:
        """The amount, if it is not that of the pod."""
        if not self.units and not self.shares:
            return None
        asks = tuple(
            UnitRequest(name, count, profile_from_resource(name)[0] if name.startswith(MIG_PREFIX) else None)
            for name, count in sorted(self.units.items())
        )
        return GpuRequest(asks, ShareRequest(tuple(sorted(self.shares.items()))) if self.shares else None)


_decoder = msgspec.json.Decoder(list[_WrittenEntry])


def written_rooms(node: gpunode.GpuNode) -> list[WrittenRoom]:
    """The rooms that a GPUNode's annotation holds; none if it cannot be read, which is logged."""
    metadata = node.metadata or gpunode.GpuNodeMeta()
    return read_rooms(strings(metadata.annotations).get(HELD_ANNOTATION, ""), metadata.name or "")


def read_rooms(text: str, name: str) -> list[WrittenRoom]:
    """The rooms of an annotation's text; `name` is that of the GPUNode."""
    if not text:
        return []
    try:
        entries = _decoder.decode(text.encode())
    except msgspec.MsgspecError as error:
        log.warning("GPUNode %s: annotation %s holds nothing: %s", name, HELD_ANNOTATION, error)
        return []
    found = []
    for entry in entries:
        until = seconds(entry.until)
        if until is not None and all(map(_is_readable, entry.units)):
            found.append(
                WrittenRoom(entry.for_, until, entry.priority, entry.units, entry.shares, entry.devices)
            )
    return found


def _is_readable(resource: str) -> bool:
    """False for a name of MIG instances that is none."""
    try:
        return not resource.startswith(MIG_PREFIX) or bool(profile_from_resource(resource))
    except ValueError:
        return False


def rooms_text(rooms: Sequence[WrittenRoom]) -> str:
    """The annotation's text."""
    entries = [
        _WrittenEntry(room.name, time_text(room.until), room.priority, room.units, room.shares, room.devices)
        for room in rooms
    ]
    return msgspec.json.encode(entries).decode()


def held_patch(rooms: Sequence[WrittenRoom], resource_version: str) -> dict[str, Any]:
    """The merge patch that writes the rooms onto a GPUNode that is still at this version."""
    value = rooms_text(rooms) if rooms else None
    return {"metadata": {"resourceVersion": resource_version, "annotations": {HELD_ANNOTATION: value}}}
