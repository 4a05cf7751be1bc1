"""Binds on request: one bind per pod at a time, by its deadline; promises left open are settled later."""

import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Protocol, TypeVar

from scheduler_ext.background import Background
from scheduler_ext.binding.bind import (
    Binding,
    BindRequest,
    BindResult,
    Call,
    GetPod,
    GetReservation,
    OneWriter,
    PodNow,
    PodsOn,
    PostBinding,
    PutReservation,
    Steps,
)
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.binding.outcome import Done, ListedPods, Outcome, Unknown, Unsent
from scheduler_ext.core.cache.intent import Intent, Reservation
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.counters import Counter
from scheduler_ext.extender.answer import Answer, RecordedBind
from scheduler_ext.extender.record import Record
from scheduler_ext.wire import binding, kube
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name, pod_uid
from scheduler_ext.wire.pod.pod_request import asks_gpu

log = logging.getLogger(__name__)
T = TypeVar("T")

# The results of binds, and the conflicts that keep one from ending as decided.
_RESULTS = ("bound", "repeated", "refused", "conflict", "failed", "unknown", "standby")
_CONFLICTS = ("gone", "fence", "pod")
# The part of the remaining time that the Binding may take.
_POST_PART = 0.75
# An open promise is checked after _FIRST_LOOK_S, then at intervals that double up to _SELDOM_S. At every
# _TICK_S, its pod's version in the cache is compared: a change makes it due at once.
_FIRST_LOOK_S = 1.0
_TICK_S = 0.25
_SELDOM_S = 30.0


class Api(Protocol):
    """The calls of binding to an API server, each by its deadline."""

    def get_pod(self, namespace: str, name: str, deadline: float) -> Outcome[kube.Pod | None]: ...
    def pods_on(self, node: str, deadline: float) -> Outcome[ListedPods]: ...
    def get_reservation(self, node: str, deadline: float) -> Outcome[Reservation | None]: ...
    def put_reservation(self, wanted: Reservation, deadline: float) -> Outcome[Reservation]: ...
    def post_binding(
        self, namespace: str, name: str, body: dict[str, Any], deadline: float
    ) -> Outcome[None]: ...


@dataclass(slots=True)
class _InFlight:
    """The bind of one pod that is in flight."""

    node: str
    end: Future[BindResult] = field(default_factory=Future)


@dataclass(slots=True)
class _Look:
    """When an open promise is checked next, and the pod's version in the cache at the last check."""

    at: float
    wait_s: float
    version: str | None = None


class Binder(Background):
    """Answers bind; safe to call from several threads. `may_bind` returns why nothing is bound now, or
    None. Its thread settles the promises whose Binding was not answered, or that other extenders left."""

    results = Counter(
        "gpu_extender_bind",
        "Binds by result: bound, repeated (already bound there), refused (another scheduler's pod), conflict "
        "(no longer fits), failed (refused by the API server), unknown (not known yet; the place is kept), "
        "standby (not the active extender, or not ready to bind).",
        ("result",),
    )
    conflicts = Counter(
        "gpu_extender_bind_conflicts",
        "Conflicts of binds: gone (the place was taken meanwhile), fence (another extender wrote the node's "
        "GPUReservation), pod (the pod changed).",
        ("kind",),
    )

    def __init__(
        self,
        locked: LockedCache,
        api: Api,
        resources: ResourceNames,
        scheduler_names: Sequence[str],
        may_bind: Callable[[], str | None],
        deadline_s: float,
        record: Record | None = None,
    ) -> None:
        super().__init__("bind-outcomes")
        # Zeros only if this extender binds.
        for result in _RESULTS:
            self.results.inc(result, by=0)
        for kind in _CONFLICTS:
            self.conflicts.inc(kind, by=0)
        self._record = record or Record(0, 0)
        self._locked = locked
        self._api = api
        self._resources = resources
        self._may_bind = may_bind
        self.deadline_s = deadline_s
        self._binding = Binding(locked, lambda name: name in scheduler_names, self.conflicts.inc)
        self._lock = Lock()
        self._in_flight: dict[str, _InFlight] = {}
        self._writers: defaultdict[str, Lock] = defaultdict(Lock)
        self._again = Event()

    def look_again(self) -> None:
        """Check all open promises soon: the outage that kept the last checks from an answer is over."""
        self._again.set()

    def bind(self, body: bytes, deadline: float) -> Answer:
        """The reply to bind, by the deadline (monotonic). Raises RequestError (400) naming the field."""
        args = binding.decode_binding_args(body)
        wanted = BindRequest(args.namespace, args.name, args.uid, args.node)
        result = self._bind(wanted, deadline)
        self.results.inc(result.kind)
        end = RecordedBind(time.time(), wanted.node, result.kind, result.error, result.devices)
        self._record.bound(wanted.uid, wanted.namespace, wanted.name, end)
        if result.error:
            log.warning("bind: %s", result.error)
        return Answer(binding.encode_binding_result(result.error), 1, int(not result.error))

    def _bind(self, wanted: BindRequest, deadline: float) -> BindResult:
        while True:
            with self._lock:
                other = self._in_flight.get(wanted.uid)
                if other is None:
                    mine = self._in_flight[wanted.uid] = _InFlight(wanted.node)
                    break
            # A repeated request, or one for another node: the result of the first decides.
            try:
                result = other.end.result(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return BindResult("unknown", f"{wanted.pod} is still being bound to node {other.node}")
            if other.node == wanted.node:
                return BindResult("repeated" if result.kind == "bound" else result.kind, result.error)
        result = BindResult("failed", f"{wanted.pod} was not bound: internal error; see the log")
        try:
            problem = self._may_bind()
            if problem is not None:
                result = BindResult("standby", f"{wanted.pod} was not bound: {problem}")
            else:
                result = self._run(self._binding.bind(wanted), deadline)
        except OverAllocationError:
            log.exception("bind: a promise was refused that the filters allowed")
        finally:
            with self._lock:
                del self._in_flight[wanted.uid]
            mine.end.set_result(result)
        return result

    def _run(self, steps: Steps[T], deadline: float) -> T:
        """Make the calls of a bind, until it ends."""
        with contextlib.ExitStack() as turn:
            answer: object = None
            while True:
                try:
                    call = steps.send(answer)
                except StopIteration as end:
                    value: T = end.value
                    return value
                if isinstance(call, OneWriter):
                    answer = self._take_turn(call.node, turn, deadline)
                    continue
                if isinstance(call, PostBinding):
                    # Other binds may write their intents while this one's Binding is in flight.
                    turn.close()
                answer = self._ended(call, deadline)

    def _ended(self, call: Call, deadline: float) -> Outcome[Any]:
        """The outcome of a call; failures are logged here, since kube-scheduler gets constant texts."""
        try:
            outcome = self._made(call, deadline)
        except Exception:
            log.exception("bind: a call failed")
            return Unknown("internal error; see the log")
        if isinstance(outcome, Unknown | Unsent):
            log.warning("bind: %s: %s", type(call).__name__, outcome.message)
        return outcome

    def _take_turn(self, node: str, turn: contextlib.ExitStack, deadline: float) -> Outcome[None]:
        with self._lock:
            writer = self._writers[node]
        if not writer.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return Unsent(f"the time ran out while other pods were being bound to node {node}")
        turn.callback(writer.release)
        return Done(None)

    def _made(self, call: Call, deadline: float) -> Outcome[Any]:
        match call:
            case GetPod(namespace, name):
                return self._now(self._api.get_pod(namespace, name, deadline))
            case PodsOn(node):
                return self._listed(node, deadline)
            case GetReservation(node):
                return self._api.get_reservation(node, deadline)
            case PutReservation(wanted):
                return self._api.put_reservation(wanted, deadline)
            case PostBinding(reserved):
                # Where no answer comes, time is left to read the pod.
                now = time.monotonic()
                deadline = now + (deadline - now) * _POST_PART
                pod, node = reserved.pending.pod, reserved.node
                annotations = binding.device_annotations(node, pod.request, reserved.devices, self._resources)
                metadata = kube.ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
                version = reserved.pending.resource_version or None
                body = binding.binding_body(metadata, node, annotations, version)
                return self._api.post_binding(pod.namespace, pod.name, body, deadline)
        raise AssertionError(call)

    def _now(self, read: Outcome[kube.Pod | None]) -> Outcome[PodNow | None]:
        if not isinstance(read, Done):
            return read
        if read.value is None:
            return Done(None)
        pod = read.value
        node = (pod.spec or kube.PodSpec()).node_name or None
        try:
            bound = bound_pod(pod, self._resources) if node else None
            pending = None if node or is_finished(pod) else pending_pod(pod, self._resources)
            return Done(PodNow(pod_uid(pod), node, bound, pending))
        except QuantityError as error:
            return Unknown(f"pod {pod_name(pod)} cannot be read: {error}")

    def _listed(self, node: str, deadline: float) -> Outcome[tuple[BoundPod, ...]]:
        listed = self._api.pods_on(node, deadline)
        if not isinstance(listed, Done):
            return listed
        if listed.value.broken:
            return Unknown(f"pods on it cannot be read: {listed.value.broken[0]}")
        pods = [pod for pod in listed.value.pods if asks_gpu(pod.spec or kube.PodSpec(), self._resources)]
        try:
            return Done(tuple(bound_pod(pod, self._resources) for pod in pods))
        except QuantityError as error:
            return Unknown(f"a pod on it cannot be read: {error}")

    def run(self) -> None:
        """Settle open promises until stopped."""
        looks: dict[tuple[str, tuple[str, str]], _Look] = {}
        while not self.stopped.wait(_TICK_S):
            if self._may_bind() is not None:
                looks.clear()
                continue
            now = time.monotonic()
            if self._again.is_set():
                self._again.clear()
                looks.clear()
            with self._lock:
                busy = set(self._in_flight)
            with self._locked as cache:
                assumed = cache.assumed()
                versions = {i.uid: p.resource_version for _, i in assumed if (p := cache.pending(i.uid))}
            there = {(node, intent.key): intent for node, intent in assumed if intent.uid not in busy}
            looks = {key: looks.get(key) or _Look(now + _FIRST_LOOK_S, _FIRST_LOOK_S) for key in there}
            for key, look in looks.items():
                version = versions.get(there[key].uid, "")
                # A Binding of another version than the pod has now is no longer open: check at once.
                changed = version not in (look.version, there[key].resource_version)
                if (look.at <= now or changed) and not self.stopped.is_set():
                    self._look(key[0], there[key])
                    look.version = version
                    look.wait_s = min(look.wait_s * 2, _SELDOM_S)
                    look.at = now + look.wait_s

    def _look(self, node: str, intent: Intent) -> None:
        try:
            self._run(self._binding.settle(node, intent), time.monotonic() + self.deadline_s)
        except Exception:
            log.exception("the open bind of pod %s/%s was not checked", intent.pod.namespace, intent.pod.name)
