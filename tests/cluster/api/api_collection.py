"""One collection of a Kubernetes API: its objects, its events, and its paged lists."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass

import msgspec

from tests.cluster.api.api_entry import Entry, Match, entry_of, head_of
from tests.cluster.api.api_paths import GPU_NODES, GPU_RESERVATIONS, LEASES, NODES, PODS
from tests.cluster.api.api_status import too_old
from tests.kube_objects import Json

_KINDS = {
    NODES: "Node",
    PODS: "Pod",
    GPU_NODES: "GPUNode",
    GPU_RESERVATIONS: "GPUReservation",
    LEASES: "Lease",
}
# Go writes an empty object with the fields that have no omitempty; creationTimestamp is one of them in older
# releases, so a reader has to accept null there.
_BOOKMARK_REST = {
    "Node": b',"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{}}',
    "Pod": b',"spec":{"containers":null},"status":{}',
    "Lease": b',"spec":{}',
}
# Lists with open pages at the same time.
_SNAPSHOTS = 16
# Events that are remembered at least; those of pods have some 8 kB.
_HISTORY = 5_000


@dataclass(frozen=True, slots=True)
class Event:
    """A change; `entry` is the object after it, or as it was deleted, at the change's version."""

    kind: str
    entry: Entry
    previous: Entry | None


class Collection:
    """Objects of one kind; every method needs the store's lock, which `changed` shares."""

    def __init__(self, path: str, lock: threading.RLock, version: int) -> None:
        root, _, resource = path.rpartition("/")
        self.api_version = root.removeprefix("/apis/").removeprefix("/api/")
        self.kind = _KINDS.get(path, resource.removesuffix("s").capitalize())
        self.head = head_of(self.api_version, self.kind)
        # Objects of built-in types are listed without apiVersion and kind.
        group, versioned, _ = self.api_version.partition("/")
        self.resource = f"{resource}.{group}" if versioned else resource
        self.bare_items = "." not in group or group.endswith(".k8s.io")
        self.changed = threading.Condition(lock)
        self.bookmarks = 0
        self._entries: dict[tuple[str, str], Entry] = {}
        self._current: list[Entry] | None = None
        self._snapshots: dict[int, list[Entry]] = {}
        self._events: list[Event] = []
        self._forgotten = 0
        self._oldest = version

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, found: Json) -> None:
        """Take the kind from the first object, the only source of it (the path does not spell it)."""
        if not self._entries and not self._events and found.get("kind", self.kind) != self.kind:
            self.kind = found["kind"]
            self.head = head_of(self.api_version, self.kind)

    def get(self, namespace: str | None, name: str) -> Entry | None:
        return self._entries.get((namespace or "", name))

    def current(self) -> list[Entry]:
        """All objects by namespace and name; the list never changes later."""
        if self._current is None:
            self._current = [self._entries[key] for key in sorted(self._entries)]
        return self._current

    def record(self, kind: str, entry: Entry, previous: Entry | None) -> None:
        """Make a change and notify the watches."""
        key = (entry.namespace or "", entry.name)
        if kind == "DELETED":
            del self._entries[key]
        else:
            self._entries[key] = entry
        self._current = None
        self._events.append(Event(kind, entry, previous))
        if len(self._events) > 2 * _HISTORY:
            self._forget(len(self._events) - _HISTORY)
        self.changed.notify_all()

    def keep(self, version: int, entries: list[Entry]) -> None:
        """Keep the result of a list for its next pages; beyond the bound the oldest is dropped."""
        self._snapshots[version] = entries
        while len(self._snapshots) > _SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]

    def snapshot(self, version: int) -> list[Entry] | None:
        return self._snapshots.get(version)

    def compact(self, version: int) -> None:
        """Forget all events up to a version, and the kept lists."""
        self._forget(len(self._events))
        self._snapshots.clear()
        self._oldest = version

    def _forget(self, count: int) -> None:
        if count:
            self._oldest = self._events[count - 1].entry.version
            del self._events[:count]
            self._forgotten += count

    def end(self) -> int:
        """The position after the last event."""
        return self._forgotten + len(self._events)

    def position(self, since: int) -> int:
        """The position of the first event after a version; raises ApiError 410 where it may be forgotten."""
        if since < self._oldest:
            raise too_old(since, self._oldest)
        return self._forgotten + bisect_right(self._events, since, key=lambda event: event.entry.version)

    def events(self, position: int) -> list[Event]:
        """The events from a position on; raises ApiError 410 if they are forgotten by now."""
        if position < self._forgotten:
            raise too_old(0, self._oldest)
        return self._events[position - self._forgotten :]

    def line(self, event: Event, matches: Match) -> bytes | None:
        """An event as a watch for `matches` sees it: an object that leaves the selection is deleted
        there.
        """
        now = event.kind != "DELETED" and matches(event.entry)
        before = event.previous is not None and matches(event.previous)
        if now:
            return line("MODIFIED" if before else "ADDED", event.entry.body)
        if not before or event.previous is None:
            return None
        if event.kind == "DELETED":
            return line("DELETED", event.entry.body)
        left = entry_of(self.head, event.previous.object(), event.entry.version)
        return line("DELETED", left.body)

    def bookmark_line(self, version: int) -> bytes:
        """A bookmark: an empty object with a version."""
        metadata = msgspec.json.encode({"resourceVersion": str(version), "creationTimestamp": None})
        rest = _BOOKMARK_REST.get(self.kind, b"")
        return line("BOOKMARK", self.head + b'"metadata":' + metadata + rest + b"}")


def line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)
