"""The last decisions on pods, kept for explanations: the request, its result, and the result of the bind. A
request only puts a note of constant size into a queue. The record's own thread reads the notes, decodes each
pod, and computes the scores of the best nodes. One bit per node records whether kube-scheduler asked about
it, or refused it by its own counts of GPUs."""

import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from threading import Lock

import numpy as np

from scheduler_ext.background import Background
from scheduler_ext.core.cycle.cycle import short_by_count
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.extender.answer import Answer, Names, RecordedBind, ScoredNode, best_of
from scheduler_ext.wire.extender_args import decode_pod
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_uid
from scheduler_ext.wire.redacted import redacted_pod

log = logging.getLogger(__name__)

# Notes in the queue; more than come in a second, and each holds a snapshot that is replaced soon.
_WAITING = 512
_READ_EVERY_S = 0.1
# Besides the pod: numbers, names of nodes and terms, rounded up.
_ENTRY_BYTES = 4096
# A node's name in an index of all names: the text, its place in a dict, and its place among the hashes.
_NAME_BYTES = 220


@dataclass(frozen=True, slots=True)
class Offered:
    """The nodes that kube-scheduler asked about, or refused by its own counts of GPUs, one bit each; `asked`
    has the former alone. Later nodes are not included."""

    names: Names
    bits: bytes
    asked: bytes

    def __contains__(self, name: object) -> bool:
        row = self.names.get(name) if isinstance(name, str) else None
        return row is not None and row >= 0 and bool(self.bits[row >> 3] & (128 >> (row & 7)))

    @property
    def passed(self) -> "Offered":
        """The nodes that it asked about: they passed all its own filters."""
        return Offered(self.names, self.asked, self.asked)

    def knows(self, name: str) -> bool:
        """Whether the node existed when kube-scheduler asked."""
        return name in self.names


@dataclass(slots=True)
class Recorded:
    """The recorded decisions about one pod. Times are wall time in seconds. `number` counts every change of
    any record. `pod` is the redacted manifest. `nodes_in` to `candidates`, the best nodes, are of the last
    filter; `candidates` of prioritize if kube-scheduler does not call filter."""

    uid: str
    namespace: str
    name: str
    pod: bytes
    first_at: float
    at: float = 0.0
    number: int = 0
    filters: int = 0
    generation: int = 0
    nodes_in: int = 0
    nodes_out: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    offered: Offered | None = None
    candidates: tuple[ScoredNode, ...] = ()
    bound: RecordedBind | None = None

    @property
    def fitting(self) -> int:
        """The number of nodes that fitted. filter returns the best of them."""
        return self.candidates[0].of if self.candidates else self.nodes_out

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        nodes = 2 * len(self.offered.bits) if self.offered is not None else 0
        return _ENTRY_BYTES + len(self.pod) + nodes

    @property
    def main_reason(self) -> str | None:
        """The reason that refused most nodes; None if none was refused."""
        return max(self.rejected, key=lambda reason: self.rejected[reason], default=None)


class Record(Background):
    """The decisions about the last pods, limited in number and bytes. Safe to use from any thread."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """With `most` 0 nothing is kept."""
        super().__init__("decisions")
        self._most = most
        self._most_bytes = most_bytes
        # The verb, the time, and the answer without the parts that take long to release.
        self._waiting: deque[tuple[str, float, Answer]] = deque(maxlen=_WAITING)
        self._reading = Lock()
        self._by_uid: OrderedDict[str, Recorded] = OrderedDict()
        self._uid_of: dict[tuple[str, str], str] = {}
        self._bytes = 0
        # The number of entries that keep each index of names, by its identity. The latest one is the
        # snapshot's own.
        self._indices: Counter[int] = Counter()
        self._index_bytes = 0
        self._number = 0
        self._last_pod: tuple[bytes, str, str, str, bytes] | None = None

    def start(self) -> None:
        """Read notes from now on."""
        if self._most:
            super().start()

    def restore(self, entries: Iterable[Recorded]) -> None:
        """Take over the records of another, the one that changed longest ago first."""
        with self._reading:
            for entry in entries:
                self._by_uid[entry.uid] = entry
                self._uid_of[entry.namespace, entry.name] = entry.uid
                self._changed(entry, entry.at)

    def answered(self, verb: str, answer: Answer) -> None:
        """Note an answer of filter or prioritize; part of the request, so it returns at once."""
        if answer.basis is not None and self._most:
            self._waiting.append((verb, time.time(), replace(answer, body=b"", args=None)))

    def bound(self, uid: str, namespace: str, name: str, bound: RecordedBind) -> None:
        """Note the end of a bind."""
        if not self._most:
            return
        with self._reading:
            self._read()
            entry = self._entry(uid, namespace, name, b"", bound.at)
            if bound.kind != "repeated" or entry.bound is None:
                entry.bound = bound
            self._changed(entry, bound.at)

    def of(self, namespace: str, name: str) -> Recorded | None:
        """The record of the latest pod of that name."""
        with self._reading:
            self._read()
            return self._by_uid.get(self._uid_of.get((namespace, name), ""))

    def of_uid(self, uid: str) -> Recorded | None:
        """The record of a pod."""
        with self._reading:
            self._read()
            return self._by_uid.get(uid)

    def of_pod(self, pod: BoundPod) -> Recorded | None:
        """The record of this pod; a pod that was never created is identified by its name alone."""
        return self.of_uid(pod.identity)

    def recent(self, after: int = 0, most: int = 100) -> list[Recorded]:
        """The records that changed after this number, the latest first."""
        with self._reading:
            self._read()
            newer = takewhile(lambda entry: entry.number > after, reversed(self._by_uid.values()))
            return list(islice(newer, most))

    def __len__(self) -> int:
        with self._reading:
            self._read()
            return len(self._by_uid)

    def __iter__(self) -> Iterator[Recorded]:
        with self._reading:
            self._read()
            return iter(list(self._by_uid.values()))

    def run(self) -> None:
        """Read notes until stopped."""
        while not self.stopped.wait(_READ_EVERY_S):
            if self._waiting:
                with self._reading:
                    self._read()

    def _read(self) -> None:
        while self._waiting:
            note = self._waiting.popleft()
            try:
                self._take(*note)
            except Exception:
                log.exception("a decision was not recorded")

    def _take(self, verb: str, at: float, answer: Answer) -> None:
        assert answer.basis is not None
        last, (raw_pod, decision, rows) = self._last_pod, answer.basis
        if last is None or last[0] != raw_pod:
            # filter and prioritize come with the same pod, one after the other.
            pod = decode_pod(raw_pod)
            namespace, _, name = pod_name(pod).partition("/")
            last = self._last_pod = raw_pod, pod_uid(pod), namespace, name, redacted_pod(pod)
        _, uid, namespace, name, redacted = last
        entry = self._entry(uid, namespace, name, redacted, at)
        entry.generation = decision.snapshot.generation
        if verb == "filter":
            entry.filters += 1
            entry.nodes_in, entry.nodes_out = answer.nodes_in, answer.nodes_out
            entry.rejected, entry.problem = answer.rejected, answer.problem
            asked = np.zeros(len(decision.snapshot.state_of), np.bool_)
            asked[rows[rows >= 0]] = True
            offered = asked
            if isinstance(decision.request, GpuRequest):
                short = short_by_count(decision.request, decision.snapshot)
                offered = asked | short[decision.snapshot.state_of]
            bits, asked_bits = np.packbits(offered).tobytes(), np.packbits(asked).tobytes()
            entry.offered = Offered(decision.snapshot.row_of, bits, asked_bits)
            entry.candidates = best_of(decision, rows) if answer.nodes_out else ()
        elif not entry.filters:
            entry.candidates = best_of(decision, rows)
        self._changed(entry, at)

    def _entry(self, uid: str, namespace: str, name: str, pod: bytes, at: float) -> Recorded:
        """The record of a pod; the caller marks it as changed afterwards."""
        key = _key(uid, namespace, name)
        entry = self._by_uid.get(key)
        if entry is None:
            entry = self._by_uid[key] = Recorded(key, namespace, name, pod, at)
        else:
            self._count(entry, -1)
        entry.pod = pod or entry.pod
        self._uid_of[namespace, name] = key
        return entry

    def _changed(self, entry: Recorded, at: float) -> None:
        self._number += 1
        entry.number, entry.at = self._number, at
        self._count(entry, 1)
        self._by_uid.move_to_end(entry.uid)
        while self._by_uid and (
            len(self._by_uid) > self._most
            or self._bytes + self._index_bytes * max(0, len(self._indices) - 1) > self._most_bytes
        ):
            uid, old = self._by_uid.popitem(last=False)
            self._count(old, -1)
            if self._uid_of.get((old.namespace, old.name)) == uid:
                del self._uid_of[old.namespace, old.name]

    def _count(self, entry: Recorded, change: int) -> None:
        """Count the memory that an entry keeps (1), or no longer keeps (-1)."""
        self._bytes += change * entry.size
        if entry.offered is not None:
            names = entry.offered.names
            self._index_bytes = _NAME_BYTES * len(names)
            self._indices[id(names)] += change
            if not self._indices[id(names)]:
                del self._indices[id(names)]


def _key(uid: str, namespace: str, name: str) -> str:
    return uid or f"{namespace}/{name}"
