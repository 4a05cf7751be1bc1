"""Follows one kind of object of an API server: a list, then a watch from its version. A watch that is lost
resumes where it ended. If the server no longer knows that version (410), everything is listed again and
compared, so that objects deleted meanwhile are removed."""

import logging
import math
import random
import time
from dataclasses import replace
from threading import Event
from typing import Generic, TypeVar

from scheduler_ext.background import Background, RateLimiter
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import (
    ANSWER_S,
    SILENCE_S,
    RefusedError,
    Reply,
    ServerClock,
    SilentError,
    Stream,
    Transport,
    UnreachableError,
    is_transient,
)
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.counters import Counter
from scheduler_ext.sources.source_status import WatchHealth
from scheduler_ext.wire.kube import Status
from scheduler_ext.wire.watching import EXPIRED, Broken, Decoder
from scheduler_ext.wire.watching import WatchEvent as WatchEvent

log = logging.getLogger(__name__)

U = TypeVar("U")
# Half of client-go's: decoding a page blocks the interpreter for some 2 ms.
PAGE = 250
# The lifetime asked for a watch, random so that thousands do not end together.
_WATCH_S = (240, 480)
# Tries of one page before the list begins again.
_PAGE_TRIES = 6
# After this many unreadable watches from one version, the next would be unreadable too.
_GARBLED_TRIES = 3
# A watch that ended sooner and without an event failed.
_SHORT_S = 1.0
# A watch that lasted this long went well, even without events or a proper end.
_LONG_S = 10.0


class Reflector(Background, Generic[U]):
    """Follows `path` and calls `handler`. `selectors` are query parameters such as fieldSelector."""

    restarts = Counter(
        "gpu_extender_watch_restarts",
        "Restarted watches: ended (as agreed), silent, unreachable, refused, expired (all objects were "
        "listed again), garbled (three times at one position: listed again), error.",
        ("resource", "reason"),
    )

    def __init__(
        self,
        name: str,
        transport: Transport,
        path: str,
        decoder: Decoder[U],
        handler: EventHandler[U],
        rate_limiter: RateLimiter | None = None,
        *,
        optional: bool = False,
        **selectors: str,
    ) -> None:
        """`optional`: a list that is refused is no reason for others to wait, because a role of an older
        release may lack the right to it."""
        super().__init__(f"watch-{name}")
        self.name = name
        self._transport = transport
        self._path = path
        self._decoder = decoder
        self._handler = handler
        self._selectors = selectors
        self._rate_limiter = rate_limiter or RateLimiter(lambda: False)
        self._retry = Retry(transport.server, Backoff())
        # How long an answer may take to begin; doubles each time that none came.
        self._answer_s = ANSWER_S
        # Whether the server has expired our version since the last success.
        self._expired_before = False
        self._stream: Stream | None = None
        self._received_at = time.monotonic()
        self._connected = False
        self._problem: str | None = None
        # Whether the server has answered since that problem.
        self._back = False
        self._optional = optional
        self._refused = False
        # The version to watch from; "": list first.
        self._version = ""
        # Everything that the watch brings was written after this.
        self._written_after = -math.inf
        self._garbled = ("", 0)
        self.synced = Event()
        # Set once a list is complete that began after the last call of `relist`.
        self._fresh = Event()
        self._relist_wanted = False

    def stop(self, wait_s: float = 2.0) -> None:
        self.stopped.set()
        self._end_stream()
        super().stop(wait_s)

    def relist(self) -> None:
        """List everything again, and soon; then `relisted` is true."""
        self._fresh.clear()
        self._relist_wanted = True
        self._end_stream()

    def renew(self, silent_since: float) -> None:
        """Begin the watch again if nothing came since then (monotonic): its connection may be dead."""
        if self._received_at < silent_since:
            self._end_stream()

    def _end_stream(self) -> None:
        if (stream := self._stream) is not None:
            stream.stop()

    @property
    def relisted(self) -> bool:
        """Whether a list is complete that began after the last call of `relist`, if there was one."""
        return self.synced.is_set() and not self._relist_wanted and self._fresh.is_set()

    @property
    def settled(self) -> bool:
        """Whether the list is complete, or refused and not needed."""
        return self.synced.is_set() or (self._optional and self._refused)

    def health(self) -> WatchHealth:
        return WatchHealth(
            self.name,
            self.synced.is_set(),
            self._connected,
            time.monotonic() - self._received_at,
            self._problem,
        )

    def run(self) -> None:
        while not self.stopped.is_set():
            self._follow()
            self._connected = False
            self._retry.wait(self.stopped)

    def _follow(self) -> None:
        try:
            if not self._version or self._relist_wanted:
                # In this order: a call of `relist` meanwhile must not take this list for its own.
                self._fresh.clear()
                self._relist_wanted = False
                self._version = ""
                self._list()
                self._fresh.set()
            if not self._relist_wanted:
                self._watch()
        except RefusedError as error:
            if error.status != EXPIRED:
                self._refused |= error.status in (403, 404)
                self._lost("refused", error)
                return
            # List again soon, with a growing wait if a server expires every watch at once.
            self._version = ""
            self.restarts.inc(self.name, "expired")
            if not self._expired_before:
                self._expired_before = True
                self._retry.reset()
            self._retry.failed(error)
        except SilentError as error:
            self._answer_s *= 2
            self._lost("silent", error)
        except UnreachableError as error:
            self._lost("unreachable", error)
        except ClusterError as error:
            # Where watches from one place fail again and again, begin with a list.
            version, times = self._garbled
            self._garbled = (self._version, times + 1 if version == self._version else 1)
            if self._garbled[1] >= _GARBLED_TRIES:
                self._version, self._garbled = "", ("", 0)
            self._lost("garbled", error)
        except Exception as error:
            # Half an update may have been applied: only a list corrects that.
            log.exception("watch of %s: unexpected error; listing again", self.name)
            self._version = ""
            self._lost("error", error)

    def _list(self) -> None:
        self._handler.begin()
        asked_at = time.monotonic()
        page_token = ""
        while not self.stopped.is_set():
            reply = self._page(page_token)
            with self._rate_limiter.turn():
                page = self._decoder.page(reply.body)
                self._answered()
                for broken in page.broken:
                    self._handler.broken(broken)
            together = self._handler.together
            for start in range(0, len(page.items), together):
                with self._rate_limiter.turn():
                    self._handler.upsert(page.items[start : start + together], reply.clock)
            page_token = page.next
            if not page_token:
                if not page.resource_version:
                    raise ClusterError("a list without a resourceVersion")
                self._handler.end()
                self._version, self._written_after = page.resource_version, asked_at
                self.synced.set()
                # Not before: until its end, a list leaves out what its next pages have.
                self._received()
                return

    def _page(self, token: str) -> Reply:
        """A page of a list. A later page gets several tries: the next list would begin at the first page."""
        query = {"limit": str(PAGE), **self._selectors, **({"continue": token} if token else {})}
        retry = Retry(self._transport.server, Backoff())
        for left in reversed(range(_PAGE_TRIES if token else 1)):
            try:
                return self._transport.get(self._path, query)
            except (RefusedError, UnreachableError) as error:
                if not left or not is_transient(error):
                    raise
                self._note(error)
                self._connected = False
                retry.failed(error)
                if not retry.wait(self.stopped):
                    raise
        raise AssertionError("a last try either answers or raises")

    def _watch(self) -> None:
        started, before = time.monotonic(), self._version
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": before,
            "timeoutSeconds": str(random.randint(*_WATCH_S)),
            **self._selectors,
        }
        answer_s = min(self._answer_s, SILENCE_S)
        with self._transport.watch(self._path, query, answer_s=answer_s) as stream:
            self._stream = stream
            self._received()
            # A stop ends the stream it finds: a stream that begins at that moment ends here.
            if self.stopped.is_set() or self._relist_wanted:
                return
            try:
                for lines in stream.batches():
                    self._received()
                    clock = replace(stream.clock, not_before=self._written_after)
                    with self._rate_limiter.turn():
                        expired = self._take([self._decoder.event(line) for line in lines], clock)
                    if expired:
                        raise RefusedError(EXPIRED, "Expired", "the watch is too old")
                    self._written_after = self._received_at
                    if self.stopped.is_set():
                        return
            finally:
                self._stream = None
                if time.monotonic() - started >= _LONG_S:
                    self._went_well()
        if self._relist_wanted:
            return
        if self._version == before and time.monotonic() - started < _SHORT_S:
            raise UnreachableError("the watch ended as soon as it began")
        self.restarts.inc(self.name, "ended")
        self._went_well()

    def _take(self, events: list[WatchEvent[U]], clock: ServerClock) -> bool:
        """Pass events to the handler; True when the server no longer knows our version."""
        seen: list[U] = []
        for event in events:
            if isinstance(event.object, Status):
                self._pass_on(seen, clock)
                if event.object.code == EXPIRED:
                    return True
                raise ClusterError(f"{event.object.code}: {event.object.message}")
            if event.kind == "DELETED" and event.object is not None:
                self._pass_on(seen, clock)
                self._handler.gone(event.object)
            elif isinstance(event.object, Broken):
                self._handler.broken(event.object)
            elif event.object is not None:
                seen.append(event.object)
            self._version = event.resource_version or self._version
        self._pass_on(seen, clock)
        self._went_well()
        return False

    def _pass_on(self, seen: list[U], clock: ServerClock) -> None:
        if seen:
            self._handler.upsert(seen, clock)
            seen.clear()

    def _answered(self) -> None:
        """The server sent a part of a list or of a watch."""
        self._received_at = time.monotonic()
        self._answer_s = ANSWER_S
        if self._problem is not None and not self._back:
            self._back = True
            self._transport.server.watch_is_back()

    def _received(self) -> None:
        """A list is complete, or the watch has begun or brought something."""
        self._answered()
        self._connected = True
        if self._problem is not None:
            log.info("watch of %s restored", self.name)
            self._problem, self._back = None, False

    def _went_well(self) -> None:
        self._retry.reset()
        self._expired_before = False

    def _lost(self, reason: str, error: Exception) -> None:
        if self.stopped.is_set() or self._relist_wanted:
            # We ended it ourselves.
            return
        self.restarts.inc(self.name, reason)
        self._note(error)
        self._retry.failed(error)

    def _note(self, error: Exception) -> None:
        """Keep the problem, and log the first of a series."""
        lost = "watch of %s lost, the last state stays in force: %s"
        if self._problem is None:
            text = lost if self.synced.is_set() else "%s not listed yet, trying again: %s"
            log.warning(text, self.name, error)
        self._problem, self._back = str(error), False
