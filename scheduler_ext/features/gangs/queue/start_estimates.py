"""Estimates of when waiting pods start, from the nodes, the queue and the past runs of a source."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol

from scheduler_ext.core.errors import PodError
from scheduler_ext.core.intree import NodeFacts, PodNeeds, needs_key
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explain import needs_of
from scheduler_ext.features.gangs.planning.plan import Entry, State
from scheduler_ext.features.gangs.queue.estimate import StartEstimate, estimates
from scheduler_ext.features.gangs.queue.room import Amounts, Arrivals, RunningPod, Waiter
from scheduler_ext.features.gangs.queue.room_of_nodes import RoomOfNodes, amounts_of
from scheduler_ext.features.gangs.queue.run_times import PastRuns, PodRun, RunKind
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import max_duration_s
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.redacted import read_redacted

log = logging.getLogger(__name__)

# Of the queue, the first pods have estimates; each of them makes a future longer.
MOST = 200
TOO_FAR = f"estimates are made for the first {MOST} of the queue"
_MOST_ARRIVALS = 300
# Estimates are renewed this often at most, and take this part of the time at most.
_EVERY_S = 5.0
_PART = 0.1
# The first question waits so long for them, a later one so long for newer ones.
_WAIT_S = 5.0
_SOON_S = 0.3
# After each future, so that decisions do not wait long for the interpreter.
_PAUSE_S = 0.002

_APART = "the pods of its gang go to different nodes, which estimates do not follow"
_PLACED = (State.PLANNED, State.NOMINATED)
# The planner found no room for it now.
_WITHOUT_ROOM = (State.WAITING, State.RESERVED, State.EVICTING, State.BEHIND, State.NOT_KEPT)
_NOT_SERVED = "another scheduler is to place it"
_UNKNOWN = {
    State.GATED: "it has scheduling gates",
    State.TERMINATING: "it is being deleted",
    State.INVALID: "its request, or its gang, cannot be read",
    State.ASSEMBLING: "some pods of its gang do not exist yet",
    State.GIVEN_UP: "its gang is evicted",
    State.UNSCHEDULABLE: "its gang would not fit if all other pods with GPUs left",
}


class QueueRow(NamedTuple):
    """A row of the queue: a pod, or the pods of a gang, as they wait; their state, and the nodes that keep
    places for them. `fits` is the number of nodes that the first pod fits on now; None if unknown. One that
    is not `served` waits for another scheduler."""

    pods: Sequence[PendingPod]
    state: State
    entries: Sequence[Entry] = ()
    fits: int | None = None
    served: bool = True

    @property
    def identity(self) -> str:
        """That of its first pod."""
        return self.pods[0].pod.identity

    @property
    def refused(self) -> bool:
        """Whether it fits nowhere now, by the plan or by the last decision about it."""
        if self.entries and self.state in _WITHOUT_ROOM:
            return True
        return self.fits == 0 and self.state not in _PLACED and len(self.pods) == 1

    @property
    def no_estimate(self) -> str | None:
        """Why nothing is estimated for it."""
        return _UNKNOWN.get(self.state, None if self.served else _NOT_SERVED)


class Estimated(NamedTuple):
    """The estimates by the identity of each row, made `at` (wall time in seconds), and the rows
    that were `refused` then."""

    at: float
    by_row: Mapping[str, StartEstimate]
    refused: frozenset[str] = frozenset()

    def of(self, row: QueueRow) -> StartEstimate | None:
        """The estimate of a row; None if there is none yet, or none since it was refused or came to fit."""
        same = (row.identity in self.refused) == row.refused
        return self.by_row.get(row.identity) if same else None


class QueueSource(Protocol):
    """The source of a queue: a running extender's, or one that was read once."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def pending(self) -> Sequence[PendingPod]: ...

    def node_facts(self) -> Mapping[str, NodeFacts]: ...

    def status(self) -> SourceStatus: ...

    @property
    def claims(self) -> ClaimLookup | None: ...


class StartEstimates:
    """Safe to use from any thread. Estimates are made in a thread of their own when they are asked for."""

    def __init__(
        self,
        source: QueueSource,
        config: Configuration,
        wait_s: float = _WAIT_S,
        past_runs: Callable[[], PastRuns | None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        """A question waits up to `wait_s` for the first estimates. `past_runs` are the run times of pods that
        have ended, None if none are remembered; a copy of them is safe."""
        self._source = source
        self._room = RoomOfNodes(config.sizing())
        self._wait_s = wait_s
        self.past_runs = past_runs
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._lock = Lock()
        self._until = 0.0
        self._thread: Thread | None = None
        self._last: Estimated | None = None

    def of(self, rows: Sequence[QueueRow]) -> Estimated:
        """The last estimates of these rows, in the order of the queue. Rows that came since may have none
        yet."""
        with self._lock:
            working = self._thread is not None and self._thread.is_alive()
            if not working and self._monotonic() >= self._until:
                self._thread = Thread(target=self._renew, args=(list(rows),), name="starts", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None and self._monotonic() >= self._until:
            thread.join(self._wait_s if self._last is None else _SOON_S)
        return self._last or Estimated(self._wall_time(), {})

    def _renew(self, rows: Sequence[QueueRow]) -> None:
        begun = self._monotonic()
        self._last = self._made(rows)
        self._until = begun + max(_EVERY_S, (self._monotonic() - begun) / _PART)

    def _made(self, rows: Sequence[QueueRow]) -> Estimated:
        try:
            return self._computed(rows)
        except Exception:
            # An estimate that fails must not take the queue from its readers.
            log.exception("the starts of waiting pods could not be estimated")
            failed = StartEstimate(unknown="the estimate failed; see the log of the extender")
            found = {row.identity: failed for row in rows}
            return Estimated(self._wall_time(), found, _refused(rows))

    def _computed(self, rows: Sequence[QueueRow]) -> Estimated:
        now, status, snapshot = self._wall_time(), self._source.status(), self._source.snapshot
        found = {row.identity: StartEstimate(unknown=TOO_FAR) for row in rows}
        for row in rows:
            if row.no_estimate is not None:
                found[row.identity] = StartEstimate(unknown=row.no_estimate)
        queue = [row for row in rows if row.no_estimate is None][:MOST]
        if snapshot is None or not queue:
            return Estimated(now, found, _refused(rows))
        self._room.follow(snapshot, self._source.node_facts())
        holders = list(self._room.holders(status.facts, now))
        known = self.past_runs()
        past = known.copy() if known is not None else PastRuns(now, 1)
        asked = _Waiters(self._room, self._source)
        waiters = [asked.waiter(row) for row in queue]
        running = [PodRun(holder.kind, now - holder.age_s) for _, holder in holders]
        made = estimates(
            self._room.free,
            [holder for _, holder in holders],
            waiters,
            past.distributions(running, now),
            _arrivals(past, holders, list(zip(queue, waiters, strict=True)), now),
            lambda: time.sleep(_PAUSE_S),
        )
        found |= {row.identity: each for row, each in zip(queue, made, strict=True)}
        for row, waiter in zip(queue, waiters, strict=True):
            if not waiter.places and asked.go_apart(row):
                found[row.identity] = StartEstimate(unknown=_APART)
        return Estimated(now, found, _refused(rows))


def _refused(rows: Sequence[QueueRow]) -> frozenset[str]:
    return frozenset(row.identity for row in rows if row.refused)


class _Waiters:
    """Waiting pods as an estimate sees them; equal ones have the same nodes."""

    def __init__(self, room: RoomOfNodes, source: QueueSource) -> None:
        self._room = room
        self._claims = source.claims
        self._free = room.free
        self._within: dict[Any, tuple[frozenset[str], int]] = {}

    def waiter(self, row: QueueRow) -> Waiter:
        """A row of the queue."""
        first = row.pods[0]
        pod = read_redacted(first.manifest)
        of_each = self._of_each(row)
        within = frozenset[str]().union(*(nodes for nodes, _ in of_each))
        places = tuple(entry.node for entry in row.entries if entry.node)
        placed = row.state in _PLACED and len(places) == len(row.pods) and all(map(self._room.has, places))
        if row.state is State.NOMINATED_ELSEWHERE and first.nominated_node is not None:
            within &= {first.nominated_node}
        asks = [
            amounts_of(each.pod.request, each.pod.cpu_milli, memory_mib)
            for each, (_, memory_mib) in zip(row.pods, of_each, strict=True)
        ]
        if row.fits and len(asks) == 1:
            # A slice, or a part by MPS, is less than the GPU that it is counted as.
            most = max((self._free[node][0] for node in within), default=0)
            asks = [(min(asks[0][0], max(most, 0)), *asks[0][1:])]
        return Waiter(
            asks=tuple(asks),
            within=within,
            kind=waiting_kind(first),
            priority=first.pod.priority,
            limit_s=max_duration_s(pod),
            places=places if placed else (),
            kept=frozenset(places) if not placed else frozenset(),
            refused=row.refused,
        )

    def go_apart(self, row: QueueRow) -> bool:
        """Whether the pods of a row go to different nodes."""
        return len({nodes for nodes, _ in self._of_each(row)}) > 1

    def _of_each(self, row: QueueRow) -> list[tuple[frozenset[str], int]]:
        """What `_nodes` has for each pod of a row."""
        return [self._nodes(each, read_redacted(each.manifest)) for each in row.pods]

    def _nodes(self, waiting: PendingPod, pod: kube.Pod) -> tuple[frozenset[str], int]:
        """The nodes that would take a pod if they were empty, and the memory of their largest GPU."""
        try:
            needs: PodNeeds = needs_of(pod, self._claims)
        except PodError:
            return frozenset(), 0
        key = waiting.pod.request, needs_key(needs)
        if key not in self._within:
            nodes = self._room.within(waiting.pod.request, needs)
            self._within[key] = nodes, self._room.gpu_memory_mib(nodes)
        return self._within[key]


def waiting_kind(waiting: PendingPod) -> RunKind:
    """What a waiting pod is compared by."""
    owner = "/".join(waiting.workload) if waiting.workload is not None else ""
    return RunKind(waiting.pod.namespace, owner, waiting.pod.asked)


def _arrivals(
    past: PastRuns,
    holders: Sequence[tuple[BoundPod, RunningPod]],
    queue: Sequence[tuple[QueueRow, Waiter]],
    now: float,
) -> Arrivals:
    """The last pods that were created since `past` began: those that wait, run or ran. One that ran is
    like the others that ask the same."""
    asks: dict[Any, Amounts] = {}
    nodes: dict[Any, set[str]] = {}
    for pod, holder in holders:
        asks.setdefault(pod.asked, holder.amounts)
        nodes.setdefault(pod.asked, set()).add(holder.node)
    for row, waiter in queue:
        asked = row.pods[0].pod.asked
        asks[asked] = waiter.asks[0]
        nodes.setdefault(asked, set()).update(waiter.within)
    within = {asked: frozenset(names) for asked, names in nodes.items()}
    created = [(row.pods[0].pod.created_at or 0.0, waiter) for row, waiter in queue if len(row.pods) == 1]
    created += [
        (pod.created_at, Waiter((asks[pod.asked],), within[pod.asked], holder.kind, pod.priority))
        for pod, holder in holders
        if pod.created_at is not None and pod.created_at >= past.since
    ]
    created += [
        (run.started_at, Waiter((asks[run.kind.asked],), within[run.kind.asked], run.kind))
        for run in past.runs()[-_MOST_ARRIVALS:]
        if run.kind.asked in asks
    ]
    recent = sorted((each for each in created if each[0] >= past.since), key=lambda each: each[0])
    recent = recent[-_MOST_ARRIVALS:]
    if not recent:
        return Arrivals()
    begun = recent[0][0] if len(recent) == _MOST_ARRIVALS else past.since
    seen = [replace(waiter, places=(), kept=frozenset(), refused=False) for _, waiter in recent]
    return Arrivals(seen, max(now - begun, 1.0))
