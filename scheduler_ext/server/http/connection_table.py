"""Which connection is in which phase, until when, and what the poller watches it for."""

from __future__ import annotations

import selectors
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from scheduler_ext.server.http.connection import Connection, Phase

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_WATCHED_FOR = {
    Phase.HANDSHAKE: READ,
    Phase.IDLE: READ,
    Phase.READING: READ,
    Phase.WRITING: WRITE,
    Phase.DISCARDING: READ,
    Phase.LINGERING: READ,
}
# Which connections make room for a new one: those that lose least come first, and strangers before those who
# have shown a certificate.
_EVICTION_ORDER = (
    *(Phase.LINGERING, Phase.HANDSHAKE, Phase.DISCARDING, Phase.READING),
    *(Phase.IDLE, Phase.WRITING, Phase.SERVING),
)


class ConnectionTable:
    """All connections of one loop; used by the loop's thread only.

    `held_bytes` are those of requests that are not answered and of replies that are not sent. Replies may be
    the same object, as those of scrapes that came together are: it counts once.

    `durations_s` says how long a connection may stay in each phase. A phase has one duration, so the
    connection that entered it first is also due first, and an insertion-ordered dict is the whole timer.
    """

    def __init__(self, durations_s: dict[Phase, float], on_event: Callable[[Connection, int], None]) -> None:
        self.held_bytes = 0
        self._owed_to: Counter[int] = Counter()
        self._durations_s = durations_s
        self._on_event = on_event
        self._selector = selectors.DefaultSelector()
        self._in_phase: dict[Phase, dict[Connection, None]] = {phase: {} for phase in durations_s}

    def enter(self, connection: Connection, phase: Phase, now: float) -> None:
        """Move a connection, new or known, to a phase, whose deadline starts now (monotonic seconds)."""
        self._leave_phase(connection)
        connection.phase = phase
        connection.deadline = now + self._durations_s[phase]
        self._in_phase[phase][connection] = None
        self.count_held(connection)
        if phase is Phase.WRITING:
            connection.owed = [piece.obj for piece in connection.outgoing]
            self._count_owed(connection, 1)
        # A connection being served stays watched for reading: its client normally stays silent, and
        # leaving the poller alone saves two system calls per request.
        self.watch(connection, _WATCHED_FOR.get(phase, connection.watched))

    def close(self, connection: Connection, reset: bool = False) -> None:
        """Forget a connection and close its socket."""
        if connection.phase is not Phase.CLOSED:
            self._leave_phase(connection)
            self.watch(connection, 0)
            connection.close(reset)
            self.count_held(connection)

    def watch(self, connection: Connection, events: int) -> None:
        """Have the poller report `events` (0: none) of a connection."""
        if events == connection.watched:
            return
        if not events:
            self._selector.unregister(connection.sock)
        elif connection.watched:
            self._selector.modify(connection.sock, events, partial(self._on_event, connection))
        else:
            self._selector.register(connection.sock, events, partial(self._on_event, connection))
        connection.watched = events

    def watch_other(self, source: int | socket.socket, on_event: Callable[[int], None]) -> None:
        """Have the poller report that something else is readable."""
        self._selector.register(source, READ, on_event)

    def unwatch_other(self, source: int | socket.socket) -> None:
        """Undo watch_other."""
        self._selector.unregister(source)

    def wait(self, timeout_s: float, now: float) -> list[tuple[Callable[[int], None], int]]:
        """The callbacks due, after at most `timeout_s`, or earlier when a connection becomes overdue."""
        for connections in self._in_phase.values():
            if connections:
                timeout_s = min(timeout_s, max(0.0, next(iter(connections)).deadline - now))
        return [(key.data, mask) for key, mask in self._selector.select(timeout_s)]

    def overdue(self, now: float) -> Iterator[Connection]:
        """Each overdue connection; the caller moves it to another phase or closes it."""
        for connections in self._in_phase.values():
            while connections and (connection := next(iter(connections))).deadline <= now:
                yield connection

    def shorten(self, phase: Phase, duration_s: float, now: float) -> None:
        """Give a phase a shorter duration, counted from now for those that are in it already."""
        self._durations_s[phase] = min(self._durations_s[phase], duration_s)
        for connection in self._in_phase[phase]:
            connection.deadline = min(connection.deadline, now + duration_s)

    def count(self, *phases: Phase) -> int:
        """How many connections are in these phases; in any when none is named."""
        return sum(len(self._in_phase[phase]) for phase in phases or self._in_phase)

    def count_held(self, connection: Connection) -> None:
        """Count again what a connection holds of its request."""
        held_bytes = connection.held_bytes
        self.held_bytes += held_bytes - connection.counted_bytes
        connection.counted_bytes = held_bytes

    def longest_holding(self) -> Connection | None:
        """Of those that hold bytes and can be cut, the connection that has waited for longest. A reply that
        is the only one stays: it may be larger than the bound by itself."""
        writing = self._in_phase[Phase.WRITING] if self.count(Phase.WRITING) > 1 else {}
        oldest = [next(iter(each)) for each in (self._in_phase[Phase.READING], writing) if each]
        return min(oldest, key=lambda connection: connection.deadline, default=None)

    def expendable(self) -> Connection | None:
        """The connection whose end loses least; kept-alive ones only after those that never asked. None where
        the application is at work for all of them."""
        for phase in _EVICTION_ORDER:
            connections = self._in_phase[phase]
            if phase is Phase.SERVING:
                # Taken back from the queue of the pool.
                return next((each for each in connections if each.queued and each.queued.cancel()), None)
            if connections:
                return next((each for each in connections if not each.served), next(iter(connections)))
        return None

    def close_all(self) -> None:
        """Close the poller and all connections but those that a pool thread has: the process ends them."""
        for phase, connections in self._in_phase.items():
            for connection in () if phase is Phase.SERVING else tuple(connections):
                self.close(connection)
        self._selector.close()

    def _leave_phase(self, connection: Connection) -> None:
        if connection.phase is Phase.CLOSED:
            return
        del self._in_phase[connection.phase][connection]
        if connection.phase is Phase.WRITING:
            self._count_owed(connection, -1)
            connection.owed = []

    def _count_owed(self, connection: Connection, change: int) -> None:
        """One connection more (1) or less (-1) is sent the reply."""
        for piece in connection.owed:
            self._owed_to[id(piece)] += change
            if self._owed_to[id(piece)] == max(change, 0):
                self.held_bytes += change * len(piece)
            if not self._owed_to[id(piece)]:
                del self._owed_to[id(piece)]
