"""The rooms that an execution holds on GPUNodes. They end by themselves, so a killed process leaves nothing
that lasts."""

import json
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.api_paths import GPU_NODES
from scheduler_ext.cluster.client.transport import MERGE, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.features.defrag.moves import Hold
from scheduler_ext.features.defrag.plan import PlacementGoal
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION, WrittenRoom, held_patch, read_rooms
from scheduler_ext.wire.times import time_text

_CONFLICT = 409
_NOT_FOUND = 404
_TRIES = 5


class LiveRooms:
    """Writes rooms; each lasts `lasts_s` from its last write."""

    def __init__(self, transport: Transport, lasts_s: float) -> None:
        self._transport = transport
        self._lasts_s = lasts_s
        self._written: set[str] = set()

    def left(self, names: Collection[str], waiting: Collection[str]) -> list[str]:
        """Remove the rooms that earlier runs left: for these names, for pods that are not among those that
        wait, and those whose time is over. Return what other runs hold now, in words. Raises ClusterError."""
        others = []
        now = self._transport.get("/version").clock.server_time
        for metadata in self._transport.metadata(GPU_NODES):
            node = metadata["name"]
            rooms = _rooms(metadata)
            # Rooms for a pod are named after it, others after a number of GPUs.
            void = {room.name for room in rooms if "/" in room.name and room.name not in waiting}
            if any(room.name in {*names, *void} or room.until <= now for room in rooms):
                self._write(node, {*names, *void}, ())
            others += [
                f"node {node} holds room for {room.name} until {time_text(room.until)}"
                for room in rooms
                if room.name not in {*names, *void} and room.until > now
            ]
        return others

    def hold(self, wanted: PlacementGoal, holds: Sequence[Hold], priority: int) -> None:
        """Hold these rooms and no others, from now on. Raises ClusterError."""
        by_node: dict[str, list[WrittenRoom]] = {}
        for hold in holds:
            by_node.setdefault(hold.node, []).append(self._room(wanted, hold, priority))
        for node in self._written - by_node.keys():
            self._write(node, [wanted.name], ())
        for node, rooms in by_node.items():
            self._written.add(node)
            self._write(node, [wanted.name], rooms)
        self._written = set(by_node)

    def release(self, name: str) -> None:
        """Hold room for this pod no longer. Raises ClusterError."""
        for node in sorted(self._written):
            self._write(node, [name], ())
        self._written = set()

    def _room(self, wanted: PlacementGoal, hold: Hold, priority: int) -> WrittenRoom:
        request, devices = hold.pod_info.request, {name: uuids[0] for name, uuids in hold.devices.items()}
        if hold.pod_info.uid == wanted.pod_info.uid and wanted.gpus is None:
            return WrittenRoom(wanted.name, 0.0, priority, devices=devices)
        units = {ask.resource: ask.count for ask in request.units}
        shares = dict(request.shares.by_container) if request.shares is not None else {}
        return WrittenRoom(wanted.name, 0.0, priority, units, shares, devices)

    def _write(self, node: str, names: Collection[str], rooms: Sequence[WrittenRoom]) -> None:
        """Replace the rooms of these names on a node, and drop those whose time is over."""
        path = f"{GPU_NODES}/{quote(node, safe='')}"
        for _ in range(_TRIES):
            try:
                reply = self._transport.get(path)
                now, metadata = reply.clock.server_time, json.loads(reply.body)["metadata"]
                before = _rooms(metadata)
                kept = [room for room in before if room.name not in names and room.until > now]
                mine = [room.lasting_until(now + self._lasts_s) for room in rooms]
                if before or mine:
                    patch = held_patch([*kept, *mine], metadata["resourceVersion"])
                    self._transport.send("PATCH", path, patch, MERGE)
                return
            except RefusedError as error:
                if error.status == _NOT_FOUND and rooms:
                    raise ClusterError(f"node {node} has no GPUNode, so no room can be held there") from None
                if error.status == _NOT_FOUND:
                    return
                if error.status != _CONFLICT:
                    raise
        raise ClusterError(f"GPUNode {node}: changed again and again while room was to be held on it")


def _rooms(metadata: dict[str, Any]) -> list[WrittenRoom]:
    text = (metadata.get("annotations") or {}).get(HELD_ANNOTATION, "")
    return read_rooms(text, metadata["name"])
