"""Run one extender as a state machine: the real protocol and ledger, driven by inputs, with numbered states.

Generators cannot be copied. A state is therefore reached by repeating the inputs that led there, once for
each (state, input). Two states are equal if ledger, fences and the frames of the generators are equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from types import GeneratorType
from typing import Any, NamedTuple, TypeAlias

from scheduler_ext.binding.bind import (
    Binding,
    BindRequest,
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
from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent, Reservation
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cycle.placement import SharePlacement, place
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.gpu import Memory, Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.request.request import GpuRequest, ShareRequest
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, MemorySection
from tests.core.asked import t4

GPU_MIB = 1000
SHARE = "gpu.scheduler-ext.io/memory-mib"

Value: TypeAlias = tuple[Any, ...]
"""A call, an answer or an input as a tuple that begins with its kind."""
Task: TypeAlias = tuple[Any, ...]
"""The subject of an extender's work: ("bind", request number, uid), or ("settle", node, key)."""


class Pod(NamedTuple):
    """A pod as the API server has it."""

    uid: str
    version: int
    node: str | None = None
    gpu: str | None = None
    finished: bool = False
    deleting: bool = False


class Held(NamedTuple):
    """An intent in its written form."""

    uid: str
    version: str
    gpu: str
    extender: str


class Written(NamedTuple):
    """A node's reservation as the API server has it."""

    version: int
    intents: tuple[Held, ...]


# Publishes nothing.
EXTENDER = Extender(Configuration(memory=MemorySection(headroom_percent=0)))


@dataclass(frozen=True)
class Setting:
    """The fixed part of a setting: GPUs by node, the pods' requests, and the classes of the extenders."""

    gpus: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    locked: type[LockedCache] = LockedCache
    binding: type[Binding] = Binding
    names: tuple[str, ...] = ("A", "B")
    known: dict[Hashable, Any] = field(default_factory=dict)

    def size(self, uid: str) -> int:
        return self.sizes[name_of(uid)]

    def filled(self, name: str, extender: Extender = EXTENDER) -> LockedCache:
        """An extender's cache that knows the nodes, whose GPUs are empty."""
        locked = self.locked(Cache(150.0, 300.0), extender, name, lambda: 0.0)
        for node, uuids in self.gpus.items():
            gpus = tuple(t4(i, uuid=uuid, memory=Memory(GPU_MIB)) for i, uuid in enumerate(uuids))
            locked.cache.update_node(node, NodeRecord(f"uid-{node}", {SHARE: GPU_MIB * len(uuids)}), 0.0)
            locked.cache.update_report(node, Report(gpus), 0.0, 0.0)
        return locked

    def bound(self, pod: Pod) -> BoundPod:
        """A pod that holds or waits, as the wire decodes it."""
        key = ("bound", pod.uid, pod.gpu, pod.finished, pod.deleting)
        if key not in self.known:
            size = self.size(pod.uid)
            self.known[key] = BoundPod(
                pod.uid,
                "ns",
                name_of(pod.uid),
                0,
                GpuRequest(shares=ShareRequest((("main", size),)), by_container=(("main", SHARE, size),)),
                {"main": (pod.gpu,)} if pod.gpu is not None else {},
                finished=pod.finished,
                terminating=pod.deleting,
            )
        found: BoundPod = self.known[key]
        return found

    def pending(self, pod: Pod) -> PendingPod:
        return PendingPod(self.bound(pod), str(pod.version), "ours")

    def now(self, pod: Pod | None) -> PodNow | None:
        """A pod as GET returns it."""
        if pod is None:
            return None
        bound = self.bound(pod) if pod.node is not None else None
        waits = pod.node is None and not pod.finished
        return PodNow(pod.uid, pod.node, bound, self.pending(pod) if waits else None)

    def intent(self, held: Held) -> Intent:
        if held not in self.known:
            pod = self.bound(Pod(held.uid, 0, gpu=held.gpu))
            self.known[held] = Intent(pod, held.version, held.extender)
        found: Intent = self.known[held]
        return found

    def reservation(self, node: str, written: Written | None) -> Reservation | None:
        if written is None:
            return None
        return Reservation(node, "", str(written.version), tuple(map(self.intent, written.intents)))

    def place(self, info: NodeInfo, request: GpuRequest, *_: Any, **__: Any) -> SharePlacement | str:
        """The real function, memoized because it gets equal arguments very often."""
        pods = tuple((pod.uid, *pod.devices.get("main", ()), pod.holds) for pod in info.pods)
        key = ("place", info.name, pods, request)
        if key not in self.known:
            self.known[key] = place(info, request, EXTENDER.sizing)
        found: SharePlacement | str = self.known[key]
        return found


def name_of(uid: str) -> str:
    """Pods of one name have the uids name-1, name-2 and so on."""
    return uid.partition("-")[0]


class View(NamedTuple):
    """The explorer's view of a local state."""

    calls: tuple[tuple[Task, Value], ...]
    turns: frozenset[str]
    open: tuple[tuple[str, tuple[str, str]], ...]
    fences: Mapping[str, str]
    counted: Mapping[str, frozenset[tuple[str, str]]]
    raised: str | None


class Machine:
    """One extender, driven by inputs."""

    def __init__(self, setting: Setting, name: str) -> None:
        self._setting = setting
        self.locked = setting.filled(name)
        self._binding = setting.binding(self.locked, lambda _: True, lambda _: None)
        self._steps: dict[Task, Steps[Any]] = {}
        self._calls: dict[Task, Call] = {}
        self._turns: dict[str, Task] = {}
        self.raised: str | None = None

    def take(self, given: Value) -> None:
        """Apply one input: an event, a request or an answer."""
        getattr(self, f"_{given[0]}")(*given[1:])

    def _turned(self, pods: Sequence[Pod], written: Value) -> None:
        """Become active again: everything is listed once more."""
        self.locked.invalidate_fence()
        self._boot(pods, written)

    def _boot(self, pods: Sequence[Pod], written: Any) -> None:
        before = self.locked.cache.known_pods()
        for pod in pods:
            self._pod(pod)
        for uid in before - {pod.uid for pod in pods}:
            self._gone(uid)
        for node, found in written:
            self._heard(node, found)

    def _pod(self, pod: Pod) -> None:
        inventory = self.locked.cache
        with self.locked:
            if pod.node is not None:
                inventory.confirm(self._setting.bound(pod), pod.node, 0.0)
            elif pod.finished:
                inventory.remove_pod(pod.uid, 0.0)
            else:
                inventory.update_pending(self._setting.pending(pod))

    def _gone(self, uid: str) -> None:
        with self.locked:
            self.locked.cache.remove_pod(uid, 0.0)

    def _heard(self, node: str, found: Written | None) -> None:
        reservation = self._setting.reservation(node, found)
        self.locked.update_intents(node, reservation.intents if reservation is not None else ())

    def _start(self, task: Task, uid: str, node: str) -> None:
        self._go(task, self._binding.bind(BindRequest("ns", name_of(uid), uid, node)))

    def _settle(self, node: str, key: tuple[str, str]) -> None:
        intent = next(i for where, i in self.locked.cache.assumed() if (where, i.key) == (node, key))
        self._go(("settle", node, key), self._binding.settle(node, intent))

    def _go(self, task: Task, steps: Steps[Any]) -> None:
        self._steps[task] = steps
        self._send(task, None)

    def _turn(self, task: Task) -> None:
        call = self._calls[task]
        assert isinstance(call, OneWriter)
        assert call.node not in self._turns
        self._turns[call.node] = task
        self._send(task, Done(None))

    def _reply(self, task: Task, answer: Value) -> None:
        self._send(task, self._outcome(self._calls[task], answer))

    def _send(self, task: Task, outcome: Outcome[Any] | None) -> None:
        try:
            call = self._steps[task].send(outcome)
        except (StopIteration, OverAllocationError) as end:
            if isinstance(end, OverAllocationError):
                self.raised = str(end)
            self._pass_turn(task)
            self._steps.pop(task)
            self._calls.pop(task, None)
            return
        if isinstance(call, PostBinding):
            self._pass_turn(task)
        self._calls[task] = call

    def _pass_turn(self, task: Task) -> None:
        self._turns = {node: holder for node, holder in self._turns.items() if holder != task}

    def _outcome(self, call: Call, answer: Value) -> Outcome[Any]:
        kind, *rest = answer
        if kind == "refused":
            return Refused(rest[0], "")
        if kind == "unknown":
            return Unknown("")
        if kind == "unsent":
            return Unsent("")
        match call:
            case GetPod():
                return Done(self._setting.now(rest[0]))
            case PodsOn():
                return Done(tuple(map(self._setting.bound, rest[0])))
            case GetReservation(node):
                return Done(self._setting.reservation(node, rest[0]))
            case PutReservation(wanted):
                return Done(replace(wanted, resource_version=str(rest[0])))
        return Done(None)

    def view(self) -> View:
        inventory = self.locked.cache
        nodes = {node: inventory.info(node) for node in self._setting.gpus}
        return View(
            calls=tuple((task, called(call)) for task, call in sorted(self._calls.items(), key=str)),
            turns=frozenset(self._turns),
            open=tuple(sorted((node, intent.key) for node, intent in self.locked.cache.assumed())),
            fences={node: version for node in nodes if (version := self.locked.fence_of(node)) is not None},
            counted={
                node: frozenset(
                    (pod.uid, gpu) for pod in info.pods if pod.holds for gpu in pod.devices.get("main", ())
                )
                for node, info in nodes.items()
                if info is not None
            },
            raised=self.raised,
        )

    def image(self) -> Hashable:
        """Everything that determines the extender's future."""
        inventory = self.locked.cache
        inventory.take_changes()
        return (
            frozen(vars(self.locked)),
            self.raised,
            tuple(sorted(self._turns.items(), key=str)),
            tuple((task, tuple(_frames(steps))) for task, steps in sorted(self._steps.items(), key=str)),
        )


def called(call: Call) -> Value:
    match call:
        case GetPod(_, name):
            return ("get", name)
        case PodsOn(node):
            return ("list", node)
        case GetReservation(node):
            return ("read", node)
        case PutReservation(wanted):
            before = None if wanted.resource_version is None else int(wanted.resource_version)
            return ("put", wanted.node, before, tuple(map(_held, wanted.intents)), bool(wanted.stamp))
        case PostBinding(reserved):
            pod, version = reserved.pending.pod, reserved.pending.resource_version
            return ("post", pod.uid, int(version), reserved.node, *reserved.devices["main"])
        case OneWriter(node):
            return ("turn", node)
    raise AssertionError(call)


def _held(intent: Intent) -> Held:
    return Held(intent.uid, intent.resource_version, intent.pod.devices["main"][0], intent.extender)


def _frames(steps: Any) -> Iterator[Hashable]:
    """Position and local variables of a generator: its frames down to the innermost."""
    while isinstance(steps, GeneratorType):
        frame: Any = steps.gi_frame
        known = {name: value for name, value in frame.f_locals.items() if name != "self"}
        yield frame.f_code.co_name, frame.f_lasti, frozen(known)
        steps = steps.gi_yieldfrom


# Most values have one of these types.
_PLAIN = frozenset((type(None), bool, int, str, float, bytes))
# The surroundings of a locked cache, which have no state or the same state everywhere.
_CONSTANT = (Extender, Report, NodeRecord, Binding)


def frozen(value: Any) -> Hashable:
    """A value of any depth as a hashable one; identity of objects does not matter, only content."""
    plain: Hashable = value
    if type(value) in _PLAIN:
        return plain
    match value:
        case Enum():
            return plain
        case BoundPod():
            return (
                value.uid,
                value.devices.get("main"),
                value.finished,
                value.departed,
                value.terminating,
            )
        case Reservation():
            # Every stamp differs; only its presence counts.
            return value.node, value.resource_version, frozen(value.intents), bool(value.stamp)
        case OrderedDict():
            return tuple((frozen(key), frozen(part)) for key, part in value.items())
        case dict():
            return frozenset((frozen(key), frozen(part)) for key, part in value.items())
        case set() | frozenset():
            return frozenset(map(frozen, value))
        case list() | tuple():
            return tuple(map(frozen, value))
    if isinstance(value, _CONSTANT) or callable(value) or type(value).__name__ == "lock":
        return type(value).__name__
    if is_dataclass(value):
        return (type(value).__name__, *(frozen(getattr(value, part.name)) for part in fields(value)))
    return (type(value).__name__, frozen(vars(value)))


class Locals:
    """The local states of one extender, by number, each with its shortest known path."""

    def __init__(self, setting: Setting, name: str) -> None:
        self._setting = setting
        self._name = name
        self._numbers: dict[Hashable, int] = {}
        self._ways: list[tuple[Value, ...]] = []
        self.views: list[View] = []
        self._after: dict[tuple[int | None, Value], int] = {}
        self._live: OrderedDict[int, Machine] = OrderedDict()

    def after(self, number: int | None, given: Value) -> int:
        """The state after an input; None stands for the state before the first."""
        key = (number, given)
        found = self._after.get(key)
        if found is None:
            found = self._after[key] = self._find(number, given)
        return found

    def _find(self, number: int | None, given: Value) -> int:
        machine = self.machine(number)
        machine.take(given)
        image = machine.image()
        found = self._numbers.get(image)
        if found is None:
            found = self._numbers[image] = len(self._ways)
            self._ways.append((*(self._ways[number] if number is not None else ()), given))
            self.views.append(machine.view())
            # Probably the next query; used once.
            self._live[found] = machine
            if len(self._live) > 2000:
                self._live.popitem(last=False)
        return found

    def machine(self, number: int | None) -> Machine:
        """An extender in that state, for one use."""
        if number is not None and number in self._live:
            return self._live.pop(number)
        machine = Machine(self._setting, self._name)
        for given in self._ways[number] if number is not None else ():
            machine.take(given)
        return machine

    def __len__(self) -> int:
        return len(self._ways)
