"""Faults between a client and an API server, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.cluster.api.api_requests import Match, Request, everything
from tests.cluster.api.api_status import ApiError


@dataclass(frozen=True, slots=True)
class Refuse:
    """A Status instead of the answer, such as 429 or 503 with Retry-After in seconds."""

    code: int
    reason: str = "ServiceUnavailable"
    message: str = "asked for by the test"
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset instead of an answer."""


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the fault is lifted."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes that are not HTTP, and the end of the connection."""

    data: bytes = b"\x16\x03\x01\x02\x00garbage\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends, or is reset, after so many bytes of the body (for a watch: of its chunks)."""

    after_bytes: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Drip:
    """The body arrives in pieces of so many bytes, with a pause after each."""

    piece_bytes: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class After:
    """The request is done, and then its answer meets this fault: lost, late, or another."""

    fault: Refuse | Reset | Hang | Garbage


@dataclass(frozen=True, slots=True)
class Mute:
    """A watch stays connected and sends nothing, not even its end, until the fault is lifted."""


@dataclass(frozen=True, slots=True)
class Line:
    """A watch sends these bytes unchanged before its next line."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """A watch ends: as a complete answer, by the end of the connection, or by a reset."""

    how: Literal["answer", "connection", "reset"] = "answer"


# A new request meets the first ones; watches meet the others, running ones too.
AnswerFault = Refuse | Reset | Hang | Garbage | Cut | Drip | After
WatchFault = Mute | Line | End


def error_line(code: int = 410, reason: str = "Expired", message: str = "too old resource version") -> Line:
    """An ERROR event; a server ends the watch after it, so `End` should follow."""
    return Line(b'{"type":"ERROR","object":%s}\n' % ApiError(code, reason, message).body())


@dataclass(slots=True)
class Placed:
    """A placed fault: its targets, its remaining count (None: until lifted), and its past count."""

    fault: AnswerFault | WatchFault
    match: Match
    left: int | None
    hits: int = 0
    lifted: threading.Event = field(default_factory=threading.Event)

    def lift(self) -> None:
        """End the fault, and release the waiting requests."""
        self.left = 0
        self.lifted.set()


class Faults:
    """The faults of a server; `changed` is called after one was placed. Safe in any thread."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._placed: list[Placed] = []
        self._lock = threading.Lock()

    def place(
        self, fault: AnswerFault | WatchFault, match: Match = everything, times: int | None = 1
    ) -> Placed:
        """Apply a fault to the next `times` matching requests, or to all until it is lifted (None)."""
        placed = Placed(fault, match, times)
        with self._lock:
            self._placed.append(placed)
        self._changed()
        return placed

    def lift(self) -> None:
        with self._lock:
            placed, self._placed = self._placed, []
        for one in placed:
            one.lift()

    def on_answer(self, request: Request) -> Placed | None:
        """The fault for a new request; counts as met."""
        return self._take(request, (Refuse, Reset, Hang, Garbage, Cut, Drip, After))

    def on_watch(self, request: Request) -> Placed | None:
        """The fault for a running watch; counts as met."""
        return self._take(request, (Mute, Line, End))

    def _take(self, request: Request, kinds: tuple[type, ...]) -> Placed | None:
        with self._lock:
            for placed in self._placed:
                if isinstance(placed.fault, kinds) and placed.left != 0 and placed.match(request):
                    placed.hits += 1
                    placed.left = None if placed.left is None else placed.left - 1
                    return placed
        return None
