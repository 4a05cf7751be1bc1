"""Binding a pod without promising memory twice: the calls to the API server, and their consequences.

One bind is a generator of calls (`Steps`): it yields a call, receives the outcome, and returns its result.
It never waits and does no I/O, so that tests can try every order of the steps of two extenders.

A Binding is fenced by its node's GPUReservation, a list of intents that is replaced only at the version it
was read at (compare-and-swap). One write takes the intents of all binds that wait for their turn:

    reserve ─► write the intent at the known version ─► post the Binding ─► Confirm
                  │ another extender wrote meanwhile
                  └─► read the intents, then list the node's pods, reserve again

Preconditions on a pod cannot fence two different pods. Nor can a counter on the node: another extender may
list the pods between our counting and our Binding. An intent states what its Binding will hold. Every
extender counts it until its pod is seen bound or gone, or at another version than the Binding names, which
then cannot succeed. A list of pods that is read after the intents contains every pod whose intent was taken
out."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from scheduler_ext.binding.locked_cache import LockedCache, Reserved
from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.node.node import BoundPod, PendingPod

T = TypeVar("T")
# Another extender writes to a node's reservation only when two are active, which is an accident.
_FENCE_TRIES = 4
# The first Binding, and one more if the pod is still the same, unbound and not deleting.
_BIND_TRIES = 2
_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod as the API server has it: bound (`bound`, `node`) or waiting (`pending`)."""

    uid: str
    node: str | None
    bound: BoundPod | None
    pending: PendingPod | None


@dataclass(frozen=True, slots=True)
class GetPod:
    """Read a pod: `Outcome[PodNow | None]`."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PodsOn:
    """List the pods with GPU requests that are bound to a node: `Outcome[tuple[BoundPod, ...]]`."""

    node: str


@dataclass(frozen=True, slots=True)
class GetReservation:
    """Read a node's intents: `Outcome[Reservation | None]`."""

    node: str


@dataclass(frozen=True, slots=True)
class PutReservation:
    """Write a node's intents at the version they were read at: `Outcome[Reservation]`."""

    wanted: Reservation


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Bind a pod: `Outcome[None]`."""

    reserved: Reserved


@dataclass(frozen=True, slots=True)
class OneWriter:
    """Wait until no other bind of this extender writes this node's reservation: `Outcome[None]`. The turn
    ends with the bind, or when its Binding is posted."""

    node: str


Call: TypeAlias = GetPod | PodsOn | GetReservation | PutReservation | PostBinding | OneWriter
Steps: TypeAlias = Generator[Call, Any, T]


@dataclass(frozen=True, slots=True)
class BindResult:
    """How a bind ended: `kind` for metrics, `error` for kube-scheduler, empty if the pod is bound.
    Kinds: bound, repeated (was bound there already), refused (not ours to bind), conflict (no longer fits),
    failed (the API server refused), unknown (not known yet; the promise is kept). `devices` are the UUIDs
    by container of a pod that this bind bound."""

    kind: str
    error: str = ""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class BindRequest:
    """The request of kube-scheduler: this pod on this node."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def pod(self) -> str:
        """The pod, for messages."""
        return f"pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Binding:
    """Binds pods for one extender. `ours` decides whether a scheduler's pods are bound here; `count`
    counts conflicts: "fence" (another extender wrote), "gone" (no longer fits), "pod" (the pod changed)."""

    locked: LockedCache
    ours: Callable[[str], bool]
    count: Callable[[str], None]

    def bind(self, wanted: BindRequest) -> Steps[BindResult]:
        """One request of kube-scheduler."""
        with self.locked as cache:
            known = cache.node_of(wanted.uid)
            pending: PendingPod | BindResult | None = cache.pending(wanted.uid)
        if known is not None:
            return _bound(wanted, known)
        if pending is None:
            pending = yield from self._read(wanted)
        for _ in range(_BIND_TRIES):
            if isinstance(pending, BindResult):
                return pending
            # A pod that changed after it was reserved, and still waits, is tried once more.
            pending = yield from self._try(wanted, pending)
        if isinstance(pending, BindResult):
            return pending
        return BindResult("failed", f"{wanted.pod} was not bound: it changed during both attempts")

    def _try(self, wanted: BindRequest, pending: PendingPod) -> Steps[PendingPod | BindResult]:
        problem = self._refusal(pending, wanted)
        if problem is not None:
            return BindResult("refused", problem)
        reserved = self._reserve(pending, wanted.node)
        if isinstance(reserved, Reserved) and pending.pod.request.asks_gpu:
            reserved = yield from self._fenced(reserved)
        if isinstance(reserved, BindResult):
            return reserved
        posted: Outcome[None] = yield PostBinding(reserved)
        if isinstance(posted, Done):
            self.locked.confirm(reserved.intent.pod, wanted.node)
            return BindResult("bound", devices=reserved.devices)
        conflict = isinstance(posted, Refused) and posted.status == _CONFLICT
        if conflict:
            self.count("pod")
        elif not isinstance(posted, Unknown):
            self.locked.withdraw(reserved)
            return BindResult("failed", f"{wanted.pod} was not bound: {_words(posted)}")
        return (yield from self._settle(reserved, conflict))

    def _reserve(self, pending: PendingPod, node: str) -> Reserved | BindResult:
        reserved = self.locked.reserve(pending, node)
        if isinstance(reserved, Reserved):
            return reserved
        self.count("gone")
        pod = f"pod {pending.pod.namespace}/{pending.pod.name}"
        return BindResult("conflict", f"{pod} no longer fits on node {node}: {reserved}")

    def settle(self, node: str, intent: Intent) -> Steps[bool]:
        """Find out whether a Binding without an answer succeeded; False while that is not known."""
        read: Outcome[PodNow | None] = yield GetPod(intent.pod.namespace, intent.pod.name)
        return isinstance(read, Done) and self._learn(intent, node, read.value) is not None

    def _refusal(self, pending: PendingPod, wanted: BindRequest) -> str | None:
        """Why a pod is not bound here."""
        if (pending.pod.namespace, pending.pod.name) != (wanted.namespace, wanted.name):
            return f"uid {wanted.uid} is not that of {wanted.pod}; nothing was bound"
        if not self.ours(pending.scheduler_name):
            return f"{wanted.pod} is of scheduler {pending.scheduler_name!r}, not of ours; nothing was bound"
        if pending.pod.terminating:
            return f"{wanted.pod} is being deleted"
        if pending.invalid is not None:
            return f"{wanted.pod}: {pending.invalid}"
        return None

    def _read(self, wanted: BindRequest) -> Steps[PendingPod | BindResult]:
        """Read a pod that is not in the cache yet: kube-scheduler's watch may be ahead of the extender's."""
        read: Outcome[PodNow | None] = yield GetPod(wanted.namespace, wanted.name)
        if not isinstance(read, Done):
            return BindResult("failed", f"{wanted.pod} could not be read: {_words(read)}")
        now = read.value
        if now is None or now.uid != wanted.uid:
            return BindResult("refused", f"{wanted.pod} of uid {wanted.uid} is gone")
        if now.node is not None:
            if now.bound is not None:
                self.locked.confirm(now.bound, now.node)
            return _bound(wanted, now.node)
        if now.pending is None:
            return BindResult("refused", f"{wanted.pod} has finished")
        return now.pending

    def _settle(self, reserved: Reserved, conflict: bool) -> Steps[PendingPod | BindResult]:
        """After a conflict, or no answer: the result as the pod shows it, or the pod, to be tried again."""
        pod, node = reserved.intent.pod, reserved.node
        wanted = BindRequest(pod.namespace, pod.name, pod.uid, node)
        read: Outcome[PodNow | None] = yield GetPod(pod.namespace, pod.name)
        with self.locked as cache:
            known = cache.node_of(pod.uid)
        if known is not None:
            # The watch has reported it meanwhile.
            return _bound(wanted, known, by_us=True)
        if isinstance(read, Done):
            now = read.value
            end = self._learn(reserved.intent, node, now)
            if end == "bound" and now is not None and now.node is not None:
                return _bound(wanted, now.node, by_us=True)
            if end == "gone":
                return BindResult("refused", f"{wanted.pod} of uid {pod.uid} is gone")
            if now is not None and now.pending is not None and (conflict or end == "changed"):
                # The pod is unchanged, so the refusal is a final answer, and the bind can be tried again.
                if end is None:
                    self.locked.withdraw(reserved)
                return now.pending
        return BindResult(
            "unknown",
            f"whether {wanted.pod} was bound to node {node} is not known yet; its place there is kept",
        )

    def _learn(self, intent: Intent, node: str, now: PodNow | None) -> str | None:
        """How a promise ended, by the pod as it is now; None: not known, its Binding may be in flight."""
        if now is None or now.uid != intent.uid:
            self.locked.forget(intent.key, node)
            self.locked.remove_pod(intent.uid)
            return "gone"
        if now.node is not None:
            if now.bound is not None:
                self.locked.confirm(now.bound, now.node)
            end = "bound"
        elif now.pending is None:
            end = "gone"
        elif now.pending.resource_version != intent.resource_version:
            end = "changed"
        else:
            return None
        self.locked.forget(intent.key, node)
        return end

    def _fenced(self, reserved: Reserved) -> Steps[Reserved | BindResult]:
        """The same or another place on the node, once its intent is written and no other bind can take it."""
        node = reserved.node
        turn: Outcome[None] = yield OneWriter(node)
        problem = None
        if not isinstance(turn, Done):
            problem = f"the time ran out while other pods were being bound to node {node}"
        for _ in range(_FENCE_TRIES):
            if problem is None and self.locked.fence_of(node) is None:
                problem = yield from self._catch_up(node)
            if problem is None and self.locked.is_outdated(reserved):
                # This bind, or one that had its turn before, has read the reservation since the place was
                # chosen: another extender may have taken it.
                self.locked.withdraw(reserved)
                again = self._reserve(reserved.pending, node)
                if isinstance(again, BindResult):
                    return again
                reserved = again
            if problem is not None:
                break
            if self.locked.is_written(reserved):
                return reserved
            wanted = self.locked.with_intent(reserved)
            if len(wanted.intents) > MAX_INTENTS:
                problem = f"too many pods are being bound to node {node}"
                break
            wrote: Outcome[Reservation] = yield PutReservation(wanted)
            if isinstance(wrote, Done):
                self.locked.fence(replace(wanted, resource_version=wrote.value.resource_version))
                return reserved
            # Whatever the failure: the version that is written there is no longer known.
            self.locked.invalidate_fence(node)
            if isinstance(wrote, Refused) and wrote.status in (_CONFLICT, _NOT_FOUND):
                self.count("fence")
            else:
                problem = f"the reservation of node {node} was not written: {_words(wrote)}"
        self.locked.withdraw(reserved)
        problem = problem or f"the reservation of node {node} changes faster than it can be written"
        pod = reserved.intent.pod
        return BindResult("failed", f"pod {pod.namespace}/{pod.name} was not bound: {problem}")

    def _catch_up(self, node: str) -> Steps[str | None]:
        """Read the node's intents, then list its pods: in this order. Returns the problem, if any."""
        read: Outcome[Reservation | None] = yield GetReservation(node)
        if not isinstance(read, Done):
            return f"the reservation of node {node} was not read: {_words(read)}"
        listed: Outcome[tuple[BoundPod, ...]] = yield PodsOn(node)
        if not isinstance(listed, Done):
            return f"the pods of node {node} were not listed: {_words(listed)}"
        self.locked.fence(read.value or Reservation(node), listed.value)
        return None


def _words(outcome: Refused | Unknown | Unsent) -> str:
    """A constant text for each kind of failure; kube-scheduler writes it into the pod's status."""
    if isinstance(outcome, Refused):
        return outcome.message
    if isinstance(outcome, Unknown):
        return "the API server gave no answer"
    return "the API server could not be asked in time"


def _bound(wanted: BindRequest, node: str, by_us: bool = False) -> BindResult:
    """The result for a pod that is bound already: to the node that was asked for, or to another one."""
    if node == wanted.node:
        return BindResult("bound" if by_us else "repeated")
    return BindResult("refused", f"{wanted.pod} is bound to node {node} already, not to {wanted.node}")
