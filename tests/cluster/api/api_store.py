"""The objects of a Kubernetes API in memory: collections, versions, and events."""

from __future__ import annotations

import base64
import binascii
import itertools
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from tests.cluster.api.api_collection import Collection
from tests.cluster.api.api_entry import Entry, Match, all_of, entry_of
from tests.cluster.api.api_paths import Target, target
from tests.cluster.api.api_status import ApiError, bad_request
from tests.kube_objects import Json


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; `token` leads to the next one and is empty on the last."""

    entries: list[Entry]
    version: int
    token: str


class Store:
    """Collections by path, with one counter of versions for all.

    An object is kept as bytes, once: pages and events refer to it. A watch from before the remembered
    events is answered 410. `clock` gives seconds since 1970. Safe in any thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.version = 1
        self.lock = threading.RLock()
        self._compacted = self.version
        self._collections: dict[str, Collection] = {}
        self._random = itertools.count(1)

    def collection(self, path: str) -> Collection:
        """A collection, created by its first use; a namespace in the path does not matter."""
        with self.lock:
            name = _target(path).collection
            if name not in self._collections:
                self._collections[name] = Collection(name, self.lock, self._compacted)
            return self._collections[name]

    def objects(self, path: str) -> list[Json]:
        """The current objects of a collection."""
        with self.lock:
            entries = self.collection(path).current()
        return [entry.object() for entry in entries]

    def put(self, path: str, found: Json) -> Entry:
        """Create or replace an object, which is not kept; adds missing uid and creationTimestamp."""
        asked = _target(path)
        collection = self.collection(path)
        with self.lock:
            metadata = dict(found["metadata"])
            if asked.namespace:
                metadata.setdefault("namespace", asked.namespace)
            previous = collection.get(metadata.get("namespace"), metadata["name"])
            if "uid" not in metadata or "creationTimestamp" not in metadata:
                metadata = self._born(previous) | metadata
            collection.learn(found)
            self.version += 1
            entry = entry_of(collection.head, found | {"metadata": metadata}, self.version)
            collection.record("MODIFIED" if previous else "ADDED", entry, previous)
            return entry

    def put_all(self, path: str, objects: Iterable[Json]) -> None:
        for found in objects:
            self.put(path, found)

    def update(
        self, path: str, name: str, change: Callable[[Json], Json], namespace: str | None = None
    ) -> Entry:
        """Replace an object by the result of `change`; the version stays if it returns its argument.

        Raises ApiError 404 without such an object, and any error of `change`.
        """
        with self.lock:
            entry = self.get(path, name, namespace)
            before = entry.object()
            after = change(before)
            return entry if after is before else self.put(path, after)

    def delete(self, path: str, name: str, namespace: str | None = None) -> Entry:
        """Delete an object; raises ApiError 404 without it."""
        with self.lock:
            entry = self.get(path, name, namespace)
            collection = self.collection(path)
            self.version += 1
            collection.record("DELETED", entry_of(collection.head, entry.object(), self.version), entry)
            return entry

    def get(self, path: str, name: str, namespace: str | None = None) -> Entry:
        """An object's entry; raises ApiError 404 without it."""
        asked, collection = _target(path), self.collection(path)
        with self.lock:
            entry = collection.get(namespace or asked.namespace, name)
        if entry is None:
            raise ApiError(404, "NotFound", f'{collection.resource} "{name}" not found')
        return entry

    def page(self, asked: Target, selected: list[Match], limit: int = 0, token: str = "") -> Page:
        """A part of a list at the time of its first part; raises ApiError 410 where that is gone."""
        collection = self.collection(asked.collection)
        with self.lock:
            version, start = _read_token(token) if token else (self.version, 0)
            entries = collection.snapshot(version) if token else collection.current()
        if entries is None:
            message = "The provided continue parameter is too old to display a consistent list result."
            raise ApiError(410, "Expired", message)
        matches = all_of(in_namespace(asked) + selected)
        if not limit:
            return Page([entry for entry in entries[start:] if matches(entry)], version, "")
        found: list[Entry] = []
        while start < len(entries) and len(found) < limit:
            if matches(entries[start]):
                found.append(entries[start])
            start += 1
        if start == len(entries):
            return Page(found, version, "")
        if not token:
            collection.keep(version, entries)
        return Page(found, version, _write_token(version, start))

    def compact(self) -> None:
        """Forget all events: older versions and tokens answer 410."""
        with self.lock:
            self._compacted = self.version
            for collection in self._collections.values():
                collection.compact(self.version)

    def bookmark(self, path: str | None = None) -> None:
        """Send a bookmark to the watches that requested them, everywhere or in one collection."""
        with self.lock:
            for collection in [self.collection(path)] if path else self._collections.values():
                collection.bookmarks += 1
                collection.changed.notify_all()

    def wake(self) -> None:
        with self.lock:
            for collection in self._collections.values():
                collection.changed.notify_all()

    def now(self) -> str:
        """The time as Kubernetes writes it, in seconds."""
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _born(self, previous: Entry | None) -> Json:
        if previous is not None:
            metadata = previous.object()["metadata"]
            return {key: metadata[key] for key in ("uid", "creationTimestamp")}
        return {"uid": str(uuid.UUID(int=next(self._random))), "creationTimestamp": self.now()}


def in_namespace(asked: Target) -> list[Match]:
    """The condition for the namespace of a path, if there is one."""
    return [lambda entry: entry.namespace == asked.namespace] if asked.namespace else []


def _target(path: str) -> Target:
    found = target(path)
    if found is None:
        raise ApiError(404, "NotFound", f"the server could not find the requested resource: {path}")
    return found


def _write_token(version: int, start: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([version, start])).decode()


def _read_token(token: str) -> tuple[int, int]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, int])
    except (msgspec.MsgspecError, binascii.Error):
        raise bad_request("continue key is not valid") from None
