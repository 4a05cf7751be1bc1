"""A watch: the lines for a client, from a version on until its time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.cluster.api.api_collection import line
from tests.cluster.api.api_entry import all_of, field_selector
from tests.cluster.api.api_faults import End, Faults, Line, Mute
from tests.cluster.api.api_output import LOOK_S, Output
from tests.cluster.api.api_paths import Target
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_status import ApiError, bad_request
from tests.cluster.api.api_store import Store, in_namespace


class Watch:
    """The pending lines of a watch; raises ApiError 410 where its version is too old."""

    def __init__(self, store: Store, asked: Target, query: dict[str, str]) -> None:
        self._store = store
        self._collection = store.collection(asked.collection)
        self._matches = all_of(in_namespace(asked) + field_selector(query.get("fieldSelector", "")))
        self._bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        since = query.get("resourceVersion") or "0"
        if not since.isdecimal():
            raise bad_request(f"resourceVersion: Invalid value: {since!r}")
        with store.lock:
            self._seen_bookmarks = self._collection.bookmarks
            self._first = self._collection.current() if since == "0" else []
            self._position = self._collection.end() if since == "0" else self._collection.position(int(since))

    def first(self) -> Iterator[bytes]:
        """The existing objects, where the watch names no version to start from."""
        return (line("ADDED", entry.body) for entry in self._first if self._matches(entry))

    def next(self, timeout_s: float) -> list[bytes]:
        """The events since the last call, or none after a time; raises ApiError 410."""
        with self._store.lock:
            if not self._news():
                self._collection.changed.wait(timeout_s)
            events = self._collection.events(self._position)
            self._position += len(events)
            bookmark = self._bookmarks and self._seen_bookmarks < self._collection.bookmarks
            self._seen_bookmarks = self._collection.bookmarks
            version = self._store.version
        lines = [found for event in events if (found := self._collection.line(event, self._matches))]
        return lines + ([self._collection.bookmark_line(version)] if bookmark else [])

    def _news(self) -> bool:
        return self._collection.end() > self._position or self._seen_bookmarks < self._collection.bookmarks


def stream(watch: Watch, request: Request, output: Output, faults: Faults) -> None:
    """Send a watch's lines until its time is over, the client is gone, or a fault ends it."""
    seconds = float(request.query.get("timeoutSeconds") or "inf")
    end = time.monotonic() + seconds
    output.chunks(watch.first())
    while True:
        if _meet(request, output, faults):
            return
        if time.monotonic() >= end:
            return
        try:
            lines = watch.next(max(0, min(LOOK_S, end - time.monotonic())))
        except ApiError as error:
            output.chunks([line("ERROR", error.body())])
            return
        # A fault that was placed before a change applies before the change is sent.
        if lines and _meet(request, output, faults):
            return
        output.chunks(lines)
        if not lines and output.gone():
            output.end()


def _meet(request: Request, output: Output, faults: Faults) -> bool:
    """Apply the faults for this watch; true where it ends as a complete answer does."""
    while (placed := faults.on_watch(request)) is not None:
        fault = placed.fault
        if isinstance(fault, Mute):
            output.wait(placed.lifted)
        elif isinstance(fault, Line):
            output.chunks([fault.data])
        elif isinstance(fault, End):
            if fault.how == "answer":
                return True
            output.end(reset=fault.how == "reset")
    return False
