"""Binding a pod without promising memory twice: what is asked of the API server, and what follows from it.

One bind is a generator of calls (``Steps``): it yields a call, is sent its outcome, and returns how it ended.
It never waits and knows no network, so that every order of the steps of two extenders can be tried.

A Binding is fenced by its node's GPUReservation, a list of intents that is replaced only at the version it
was read at (compare-and-swap); one write takes the intents of all who wait for their turn:

    reserve ─► write the intent at the version known ─► post the Binding ─► Confirm
                  │ somebody else wrote meanwhile
                  └─► read the intents, then list the node's pods, reserve anew

Preconditions on a pod cannot fence two different pods. A counter on the node cannot either: another extender
may list the pods between our counting and our Binding. An intent says what that Binding will hold. It is
counted by all until its pod is seen bound or gone, or at another version than its Binding names, which then
cannot succeed. A list of pods that is read after the intents has every pod whose intent was taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from scheduler_ext.binding.book import Book, Reserved
from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.node.node import BoundPod, PendingPod

T = TypeVar("T")
# Others write to a node's reservation where two extenders are active, which is an accident.
_FENCE_TRIES = 4
# The first Binding, and one more where the pod is still the same, unbound and not deleting.
_BIND_TRIES = 2
_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod as the API server has it: bound (``bound``, ``node``) or waiting (``pending``)."""

    uid: str
    node: str | None
    bound: BoundPod | None
    pending: PendingPod | None


@dataclass(frozen=True, slots=True)
class GetPod:
    """Read a pod: ``Outcome[PodNow | None]``."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PodsOn:
    """List the pods bound to a node that hold something of ours: ``Outcome[tuple[BoundPod, ...]]``."""

    node: str


@dataclass(frozen=True, slots=True)
class GetReservation:
    """Read a node's intents: ``Outcome[Reservation | None]``."""

    node: str


@dataclass(frozen=True, slots=True)
class PutReservation:
    """Write a node's intents at the version they were read at: ``Outcome[Reservation]``."""

    wanted: Reservation


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Bind a pod: ``Outcome[None]``."""

    reserved: Reserved


@dataclass(frozen=True, slots=True)
class OneWriter:
    """Wait until nobody else of this extender writes this node's reservation: ``Outcome[None]``.

    The turn ends with the bind, or when its Binding is posted.
    """

    node: str


Call: TypeAlias = GetPod | PodsOn | GetReservation | PutReservation | PostBinding | OneWriter
Steps: TypeAlias = Generator[Call, Any, T]


@dataclass(frozen=True, slots=True)
class BindResult:
    """How a bind ended: ``kind`` for metrics, ``error`` for kube-scheduler, none where the pod is bound.

    Kinds: bound, repeated (was bound there already), refused (not ours to bind), conflict (fits no more),
    failed (the API server refused), unknown (nobody knows yet; the promise is kept). ``devices`` are the
    UUIDs by container of one that is bound by this.
    """

    kind: str
    error: str = ""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kube-scheduler asks: this pod on this node."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def pod(self) -> str:
        """For people."""
        return f"pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Binding:
    """Binds pods for one extender. ``ours`` says whether a scheduler's pods are; ``count`` is told of every
    conflict: "fence" (another extender wrote), "gone" (fits no more), "pod" (the pod changed)."""

    book: Book
    ours: Callable[[str], bool]
    count: Callable[[str], None]

    def bind(self, wanted: Wanted) -> Steps[BindResult]:
        """One request of kube-scheduler's."""
        known = self.book.node_of(wanted.uid)
        if known is not None:
            return _bound(wanted, known)
        pending: PendingPod | BindResult | None = self.book.pending(wanted.uid)
        if pending is None:
            pending = yield from self._read(wanted)
        for _ in range(_BIND_TRIES):
            if isinstance(pending, BindResult):
                return pending
            # A pod that can no longer be bound as it was reserved, but still is to be, is tried once more.
            pending = yield from self._try(wanted, pending)
        if isinstance(pending, BindResult):
            return pending
        return BindResult(
            "failed", f"{wanted.pod} was not bound: it was refused twice, as one that had changed"
        )

    def _try(self, wanted: Wanted, pending: PendingPod) -> Steps[PendingPod | BindResult]:
        problem = self._refusal(pending, wanted)
        if problem is not None:
            return BindResult("refused", problem)
        reserved: Reserved | BindResult = self._reserve(pending, wanted.node)
        if isinstance(reserved, Reserved) and pending.pod.request.asks_gpu:
            reserved = yield from self._fenced(reserved)
        if isinstance(reserved, BindResult):
            return reserved
        posted: Outcome[None] = yield PostBinding(reserved)
        if isinstance(posted, Done):
            self.book.confirm(reserved.intent.pod, wanted.node)
            return BindResult("bound", devices=reserved.devices)
        conflict = isinstance(posted, Refused) and posted.status == _CONFLICT
        if conflict:
            self.count("pod")
        elif not isinstance(posted, Unknown):
            self.book.withdraw(reserved)
            return BindResult("failed", f"{wanted.pod} was not bound: {_told(posted)}")
        return (yield from self._settle(reserved, conflict))

    def _reserve(self, pending: PendingPod, node: str) -> Reserved | BindResult:
        reserved = self.book.reserve(pending, node)
        if isinstance(reserved, Reserved):
            return reserved
        self.count("gone")
        pod = f"pod {pending.pod.namespace}/{pending.pod.name}"
        return BindResult("conflict", f"{pod} no longer fits on node {node}: {reserved}")

    def settle(self, node: str, intent: Intent) -> Steps[bool]:
        """Find out how a promise ended whose Binding was not answered; False when that is still open."""
        read: Outcome[PodNow | None] = yield GetPod(intent.namespace, intent.name)
        if not isinstance(read, Done):
            return False
        return self._learn(intent, node, read.value) is not None

    def _refusal(self, pending: PendingPod, wanted: Wanted) -> str | None:
        """Why a pod is not ours to bind."""
        if (pending.pod.namespace, pending.pod.name) != (wanted.namespace, wanted.name):
            return f"uid {wanted.uid} is not that of {wanted.pod}; nothing was bound"
        if not self.ours(pending.scheduler_name):
            return f"{wanted.pod} is of scheduler {pending.scheduler_name!r}, not of ours; nothing was bound"
        if pending.pod.terminating:
            return f"{wanted.pod} is being deleted"
        if pending.invalid is not None:
            return f"{wanted.pod}: {pending.invalid}"
        return None

    def _read(self, wanted: Wanted) -> Steps[PendingPod | BindResult]:
        """A pod nobody told us of yet: kube-scheduler's watch may be ahead of ours."""
        read: Outcome[PodNow | None] = yield GetPod(wanted.namespace, wanted.name)
        if not isinstance(read, Done):
            return BindResult("failed", f"{wanted.pod} could not be read: {_told(read)}")
        now = read.value
        if now is None or now.uid != wanted.uid:
            return BindResult("refused", f"{wanted.pod} of uid {wanted.uid} is gone")
        if now.node is not None:
            if now.bound is not None:
                self.book.confirm(now.bound, now.node)
            return _bound(wanted, now.node)
        if now.pending is None:
            return BindResult("refused", f"{wanted.pod} has finished")
        return now.pending

    def _settle(self, reserved: Reserved, conflict: bool) -> Steps[PendingPod | BindResult]:
        """After a conflict, or no answer: what became of the pod. It, where it can be tried again."""
        pod, node = reserved.intent.pod, reserved.node
        wanted = Wanted(pod.namespace, pod.name, pod.uid, node)
        read: Outcome[PodNow | None] = yield GetPod(pod.namespace, pod.name)
        known = self.book.node_of(pod.uid)
        if known is not None:
            # The watch has told of it meanwhile.
            return _bound(wanted, known, by_us=True)
        if isinstance(read, Done):
            now = read.value
            end = self._learn(reserved.intent, node, now)
            if end == "bound" and now is not None and now.node is not None:
                return _bound(wanted, now.node, by_us=True)
            if end == "gone":
                return BindResult("refused", f"{wanted.pod} of uid {pod.uid} is gone")
            if now is not None and now.pending is not None and (conflict or end == "changed"):
                # Nothing changed, and yet it was refused: that is an answer, and it can be tried again.
                if end is None:
                    self.book.withdraw(reserved)
                return now.pending
        return BindResult(
            "unknown",
            f"whether {wanted.pod} was bound to node {node} is not known yet; its place there is kept",
        )

    def _learn(self, intent: Intent, node: str, now: PodNow | None) -> str | None:
        """What a pod as it is now says of a promise to it; None: nothing, its Binding may be on its way."""
        if now is None or now.uid != intent.uid:
            self.book.forget(intent.key, node)
            self.book.gone(intent.uid)
            return "gone"
        if now.node is not None:
            if now.bound is not None:
                self.book.confirm(now.bound, now.node)
            self.book.forget(intent.key, node)
            return "bound"
        if now.pending is None:
            self.book.forget(intent.key, node)
            return "gone"
        if now.pending.resource_version != intent.resource_version:
            self.book.forget(intent.key, node)
            return "changed"
        return None

    def _fenced(self, reserved: Reserved) -> Steps[Reserved | BindResult]:
        """The same place, or another on the node, once its intent is written: nobody can have taken it."""
        node = reserved.node
        turn: Outcome[None] = yield OneWriter(node)
        problem = None
        if not isinstance(turn, Done):
            problem = f"others are being bound to node {node}, and no time was left"
        for _ in range(_FENCE_TRIES):
            if problem is None and self.book.version(node) is None:
                problem = yield from self._catch_up(node)
            if problem is None and self.book.is_outdated(reserved):
                # Others may have taken the place that we were not told of; also while another bind of ours
                # had its turn, which then read of it.
                self.book.withdraw(reserved)
                again = self._reserve(reserved.pending, node)
                if isinstance(again, BindResult):
                    return again
                reserved = again
            if problem is not None:
                break
            if self.book.is_written(reserved):
                return reserved
            wanted = self.book.with_intent(reserved)
            if len(wanted.intents) > MAX_INTENTS:
                problem = f"too many pods are being bound to node {node}"
                break
            wrote: Outcome[Reservation] = yield PutReservation(wanted)
            if isinstance(wrote, Done):
                self.book.fence(replace(wanted, resource_version=wrote.value.resource_version))
                return reserved
            # Whatever it was: what is written there is not known any more.
            self.book.invalidate_fence(node)
            if isinstance(wrote, Refused) and wrote.status in (_CONFLICT, _NOT_FOUND):
                self.count("fence")
            else:
                problem = f"the reservation of node {node} was not written: {_told(wrote)}"
        self.book.withdraw(reserved)
        problem = problem or f"the reservation of node {node} changes faster than it can be written"
        pod = reserved.intent.pod
        return BindResult("failed", f"pod {pod.namespace}/{pod.name} was not bound: {problem}")

    def _catch_up(self, node: str) -> Steps[str | None]:
        """Read what others wrote of a node, then the pods it has: in this order. Why not, where not."""
        read: Outcome[Reservation | None] = yield GetReservation(node)
        if not isinstance(read, Done):
            return f"the reservation of node {node} was not read: {_told(read)}"
        listed: Outcome[tuple[BoundPod, ...]] = yield PodsOn(node)
        if not isinstance(listed, Done):
            return f"the pods of node {node} were not listed: {_told(listed)}"
        self.book.fence(read.value or Reservation(node), listed.value)
        return None


def _told(outcome: Refused | Unknown | Unsent) -> str:
    """For kube-scheduler, which writes it into the pod's status: the same in words whenever it happens."""
    if isinstance(outcome, Refused):
        return outcome.message
    if isinstance(outcome, Unknown):
        return "the API server gave no answer"
    return "the API server could not be asked in time"


def _bound(wanted: Wanted, node: str, by_us: bool = False) -> BindResult:
    """A pod that is bound already: to the node that was asked for, or to another one."""
    if node == wanted.node:
        return BindResult("bound" if by_us else "repeated")
    return BindResult("refused", f"{wanted.pod} is bound to node {node} already, not to {wanted.node}")
