"""Model two extenders and an API server, and search all orders of all their steps.

A state of the world is a value: the objects of the API server, the writes on their way to it, and for each
extender the number of its local state (`bind_states`), the answers on their way to it and its pending watch
events. A call has two steps, done and answered, with any other steps in between. Versions count by object,
not by server, so that equal objects are equal states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

from scheduler_ext.binding import locked_cache
from tests.binding.bind_states import GPU_MIB, Held, Locals, Pod, Setting, Task, Value, Written, name_of

CONFLICT, NOT_FOUND, TOO_MANY = 409, 404, 429
READS = ("get", "list", "read")
# More than the possible next steps of any state.
_STEPS = 256


class Asked(NamedTuple):
    """A request of kube-scheduler: the extender, the pod (by name), the node."""

    extender: int
    pod: str
    node: str


class Budget(NamedTuple):
    """How often each event may happen: answers that are `lost` (their write done, not done, or done late),
    calls that are `refused` with 429 or never sent, Bindings refused with 409 without a change
    (`conflicted`), pods that others `touch`, that end (`ended`, deleted and created again), extenders
    that are `restarted` or become active again (`turned`), and checks of open intents.
    """

    lost: int = 0
    refused: int = 0
    conflicted: int = 0
    unsent: int = 0
    touched: int = 0
    ended: int = 0
    restarted: int = 0
    turned: int = 0
    looked: int = 0

    def less(self, name: str) -> Budget:
        """The bounds with one fewer of an event."""
        return self._replace(**{name: getattr(self, name) - 1})


class Run(NamedTuple):
    """One extender: its local state, the answers on their way to it, and its pending watch events."""

    local: int
    answers: tuple[tuple[Task, Value], ...] = ()
    pods: tuple[Value, ...] = ()
    written: tuple[Value, ...] = ()


class World(NamedTuple):
    """The whole world; `orphans` are writes whose sender no longer waits for the answer."""

    pods: tuple[Pod, ...]
    written: tuple[tuple[str, Written], ...]
    orphans: frozenset[Value]
    runs: tuple[Run, ...]
    todo: frozenset[int]
    budget: Budget


class Step(NamedTuple):
    """A step and the world after it; formatted only when printed, because a search has millions of steps."""

    text: str
    of: tuple[Any, ...]
    world: World

    def told(self) -> str:
        """The step as a line for the reader of a failure."""
        return self.text.format(*map(shown, self.of))


class Found(NamedTuple):
    """The result of a search: `problem` with the `steps` that lead there, or no problem in `states`
    states.
    """

    states: int
    locals: int
    problem: str | None = None
    steps: tuple[str, ...] = ()
    complete: bool = True


@dataclass
class Model:
    """A setting with its requests and possible events. With `watches`, watch events arrive at any time,
    otherwise never.
    """

    setting: Setting
    asked: tuple[Asked, ...]
    budget: Budget
    watches: bool = False
    only_memory: bool = False
    locals: list[Locals] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.locals = [Locals(self.setting, name) for name in self.setting.names]

    def start(self) -> World:
        pods = tuple(Pod(f"{name}-1", 1) for name in sorted(self.setting.sizes))
        runs = tuple(Run(local.after(None, ("boot", pods, ()))) for local in self.locals)
        return World(pods, (), frozenset(), runs, frozenset(range(len(self.asked))), self.budget)

    def steps(self, world: World) -> Iterator[Step]:
        for extender in range(len(world.runs)):
            yield from self._of_extender(world, extender)
        for write in world.orphans:
            after, _ = self._done(world._replace(orphans=world.orphans - {write}), write)
            yield Step("late: {}", (write,), after)
        yield from self._of_others(world)

    def _of_extender(self, world: World, extender: int) -> Iterator[Step]:
        run, name = world.runs[extender], self.setting.names[extender]
        view = self.locals[extender].views[run.local]
        answers = dict(run.answers)
        for task, call in view.calls:
            if task in answers:
                left = tuple(item for item in run.answers if item[0] != task)
                after = self._given(
                    world, extender, ("reply", task, answers[task]), run._replace(answers=left)
                )
                yield Step("{} hears: {}: {}", (name, call, answers[task]), after)
                if call[0] in ("put", "post") and world.budget.lost and answers[task][0] == "done":
                    lost = ("reply", task, ("unknown",))
                    after = self._given(world, extender, lost, run._replace(answers=left), "lost")
                    yield Step("{} never hears: {}", (name, call), after)
            elif call[0] == "turn":
                if call[1] not in view.turns:
                    yield Step("{} has its turn", (name,), self._given(world, extender, ("turn", task)))
            else:
                yield from self._call(world, extender, task, call)
        busy = {task[2] for task, _ in view.calls if task[0] == "bind"}
        for i in world.todo:
            asked = self.asked[i]
            uid = next((pod.uid for pod in world.pods if name_of(pod.uid) == asked.pod), None)
            if asked.extender == extender and uid is not None and uid not in busy:
                after = self._given(world, extender, ("start", ("bind", i, uid), uid, asked.node))
                after = after._replace(todo=world.todo - {i})
                yield Step("{} is asked to bind {} to {}", (name, uid, asked.node), after)
        if world.budget.looked:
            yield from self._looks(world, extender, busy)
        yield from self._hears(world, extender)
        pods, written = world.pods, world.written
        if world.budget.restarted:
            sent = {c for task, c in view.calls if task not in answers and c[0] in ("put", "post")}
            local = self.locals[extender].after(None, ("boot", pods, written))
            after = self._with_run(world, extender, Run(local))
            after = after._replace(orphans=world.orphans | sent, budget=world.budget.less("restarted"))
            yield Step("{} is killed and starts again", (name,), after)
        if world.budget.turned:
            emptied = run._replace(pods=(), written=())
            after = self._given(world, extender, ("turned", pods, written), emptied, "turned")
            yield Step("{} becomes active again", (name,), after)

    def _call(self, world: World, extender: int, task: Task, call: Value) -> Iterator[Step]:
        name, run = self.setting.names[extender], world.runs[extender]
        if call[0] in READS:
            answer = self._read(world, call)
            after = world
        else:
            after, answer = self._done(world, call)
        yield Step("{}: {}: {}", (name, call, answer), self._answered(after, extender, task, answer))
        for answer, budget in (
            (("unknown",), "lost"),
            (("refused", TOO_MANY), "refused"),
            (("refused", CONFLICT), "conflicted"),
            (("unsent",), "unsent"),
        ):
            if not getattr(world.budget, budget) or (call[0] in READS and budget != "lost"):
                continue
            if budget == "conflicted" and call[0] != "post":
                continue
            after = self._given(world, extender, ("reply", task, answer), run, budget)
            if budget == "lost" and call[0] not in READS:
                after = after._replace(orphans=after.orphans | {call})
            yield Step("{}: {}: {}", (name, call, answer), after)

    def _looks(self, world: World, extender: int, busy: set[str]) -> Iterator[Step]:
        name = self.setting.names[extender]
        view = self.locals[extender].views[world.runs[extender].local]
        for node, key in view.open:
            task = ("settle", node, key)
            if key[0] in busy or any(known == task for known, _ in view.calls):
                continue
            after = self._given(world, extender, task, None, "looked")
            sent = dict(self.locals[extender].views[after.runs[extender].local].calls)
            if task in sent:
                after = self._answered(after, extender, task, self._read(world, ("get", name_of(key[0]))))
            yield Step("{} looks after {} on {}", (name, str(key), node), after)

    def _hears(self, world: World, extender: int) -> Iterator[Step]:
        name, run = self.setting.names[extender], world.runs[extender]
        if run.pods:
            after = self._given(world, extender, run.pods[0], run._replace(pods=run.pods[1:]))
            yield Step("{}'s watch: {}", (name, run.pods[0]), after)
        if run.written:
            after = self._given(world, extender, run.written[0], run._replace(written=run.written[1:]))
            yield Step("{}'s watch: {}", (name, run.written[0]), after)

    def _of_others(self, world: World) -> Iterator[Step]:
        budget = world.budget
        for pod in world.pods:
            if budget.touched and pod.node is None:
                touched = self._pod(world, pod, pod._replace(version=pod.version + 1))
                yield Step("a user changes {}", (pod.uid,), touched._replace(budget=budget.less("touched")))
            if budget.ended:
                less = budget.less("ended")
                recreated = Pod(f"{name_of(pod.uid)}-{int(pod.uid.partition('-')[2]) + 1}", 1)
                after = self._pod(world, pod, recreated)._replace(budget=less)
                yield Step("{} is deleted and created again", (pod.uid,), after)
                if pod.node is not None and not pod.finished:
                    over = pod._replace(version=pod.version + 1, finished=True)
                    after = self._pod(world, pod, over)._replace(budget=less)
                    yield Step("{} finishes", (pod.uid,), after)

    def _read(self, world: World, call: Value) -> Value:
        match call:
            case ("get", name):
                return ("done", next((pod for pod in world.pods if name_of(pod.uid) == name), None))
            case ("list", node):
                return ("done", tuple(pod for pod in world.pods if pod.node == node and not pod.finished))
            case ("read", node):
                return ("done", dict(world.written).get(node))
        raise AssertionError(call)

    def _done(self, world: World, write: Value) -> tuple[World, Value]:
        """A write as the API server performs it: the world after it, and the answer."""
        if write[0] == "post":
            _, uid, version, node, gpu = write
            pod = next((pod for pod in world.pods if pod.uid == uid), None)
            if pod is None or pod.version != version or pod.node is not None or pod.finished:
                return world, ("refused", CONFLICT)
            bound = pod._replace(version=version + 1, node=node, gpu=gpu)
            return self._pod(world, pod, bound), ("done",)
        _, node, version, intents, stamped = write
        known = dict(world.written)
        before = known.get(node)
        if version is None and before is not None:
            return world, ("refused", CONFLICT)
        if version is not None and (before is None or before.version != version):
            return world, ("refused", CONFLICT if before is not None else NOT_FOUND)
        if before is not None and before.intents == intents and not stamped:
            # The API server gives an object that did not change no new version.
            return world, ("done", version)
        after = Written((version or 0) + 1, intents)
        known[node] = after
        world = world._replace(written=tuple(sorted(known.items())))
        return self._tell(world, written=("heard", node, after)), ("done", after.version)

    def _pod(self, world: World, before: Pod, after: Pod) -> World:
        """The pod changes; under another uid it is another pod."""
        pods = tuple(after if pod is before else pod for pod in world.pods)
        world = world._replace(pods=pods)
        if after.uid != before.uid:
            world = self._tell(world, pod=("gone", before.uid))
        return self._tell(world, pod=("pod", after))

    def _tell(self, world: World, pod: Value | None = None, written: Value | None = None) -> World:
        if not self.watches:
            return world
        runs = tuple(
            run._replace(
                pods=(*run.pods, pod) if pod else run.pods,
                written=(*run.written, written) if written else run.written,
            )
            for run in world.runs
        )
        return world._replace(runs=runs)

    def _given(
        self, world: World, extender: int, given: Value, run: Run | None = None, budget: str | None = None
    ) -> World:
        """An extender receives an input."""
        run = run if run is not None else world.runs[extender]
        local = self.locals[extender].after(run.local, given)
        if budget is not None:
            world = world._replace(budget=world.budget.less(budget))
        return self._with_run(world, extender, run._replace(local=local))

    def _answered(self, world: World, extender: int, task: Task, answer: Value) -> World:
        """An answer is on its way to an extender."""
        run = world.runs[extender]
        answers = tuple(sorted((*run.answers, (task, answer)), key=str))
        return self._with_run(world, extender, run._replace(answers=answers))

    @staticmethod
    def _with_run(world: World, extender: int, run: Run) -> World:
        return world._replace(runs=(*world.runs[:extender], run, *world.runs[extender + 1 :]))

    def problem(self, world: World) -> str | None:
        """The violation in a state: memory promised twice, or about to be."""
        used: dict[str, int] = {}
        for pod in world.pods:
            if pod.gpu is not None and not pod.finished:
                used[pod.gpu] = used.get(pod.gpu, 0) + self.setting.size(pod.uid)
        for gpu, mib in used.items():
            if mib > GPU_MIB:
                return f"pods of {mib} MiB are bound on {gpu}"
        if self.only_memory:
            return None
        for run, local in zip(world.runs, self.locals, strict=True):
            raised = local.views[run.local].raised
            if raised is not None:
                return raised
        return self._uncounted(world)

    def _uncounted(self, world: World) -> str | None:
        """A Binding that can still succeed, or a bound pod, that the next writer would not count."""
        coming = list(self._coming(world))
        written = dict(world.written)
        for uid, version, node, gpu in coming:
            known = written.get(node)
            intents = known.intents if known is not None else ()
            if not any((i.uid, i.version, i.gpu) == (uid, str(version), gpu) for i in intents):
                return f"no intent of {uid} on {gpu} is written, whose Binding may succeed"
        for name, run, local in zip(self.setting.names, world.runs, self.locals, strict=True):
            view = local.views[run.local]
            for node, fence in view.fences.items():
                known = written.get(node)
                if fence != (str(known.version) if known is not None else ""):
                    continue
                held = {(pod.uid, pod.gpu) for pod in world.pods if pod.node == node and not pod.finished}
                held |= {(uid, gpu) for uid, _, where, gpu in coming if where == node}
                missing = held - view.counted[node]
                if missing:
                    return f"{name} may write next, and does not count {sorted(missing, key=str)}"
        return None

    def _coming(self, world: World) -> Iterator[tuple[str, int, str, str]]:
        """The Bindings that are on their way and can succeed."""
        versions = {(pod.uid, pod.version) for pod in world.pods if pod.node is None}
        sent = list(world.orphans)
        for run, local in zip(world.runs, self.locals, strict=True):
            answered = dict(run.answers)
            sent += [call for task, call in local.views[run.local].calls if task not in answered]
        for call in sent:
            if call[0] == "post" and call[1:3] in versions:
                yield call[1:]


def search(model: Model, most: int = 2_000_000) -> Found:
    """Every reachable state, nearest first, up to `most`; ends at the first problem."""
    first = model.start()
    # Each state with its predecessor and the step's number, packed in one integer, because there are
    # millions.
    came: dict[int, int] = {hash(first): 0}
    waiting = deque([first])
    with patch.object(locked_cache, "place", model.setting.place):
        while waiting:
            world = waiting.popleft()
            here = hash(world)
            for i, (_, _, after) in enumerate(model.steps(world)):
                there = hash(after)
                if there in came:
                    continue
                came[there] = here * _STEPS + i
                problem = model.problem(after)
                if problem is not None:
                    return Found(len(came), _locals(model), problem, _way(model, came, first, there))
                if len(came) >= most:
                    return Found(len(came), _locals(model), complete=False)
                waiting.append(after)
    return Found(len(came), _locals(model))


def _locals(model: Model) -> int:
    return sum(map(len, model.locals))


def _way(model: Model, came: dict[int, int], world: World, there: int) -> tuple[str, ...]:
    taken = []
    while there != hash(world):
        there, i = divmod(came[there], _STEPS)
        taken.append(i)
    told = []
    for i in reversed(taken):
        step = list(model.steps(world))[i]
        world = step.world
        told.append(step.told())
    return tuple(told)


def shown(value: Value) -> str:
    """A call, an answer or an event as text."""
    match value:
        case str():
            return value
        case ("put", node, version, intents, _):
            return f"write {node} at {version}: {[_short(held) for held in intents]}"
        case ("post", uid, version, node, gpu):
            return f"bind {uid} at {version} to {node} on {gpu}"
        case ("read", node):
            return f"read the reservation of {node}"
        case ("list", node):
            return f"list the pods of {node}"
        case ("get", name):
            return f"read pod {name}"
        case ("heard", node, Written(version, intents)):
            return f"{node} at {version}: {[_short(held) for held in intents]}"
        case ("pod", pod):
            return f"{pod.uid} at {pod.version}" + (f" on {pod.gpu}" if pod.gpu else "")
    return " ".join(str(part) for part in value)


def _short(held: Held) -> str:
    return f"{held.uid}@{held.version} on {held.gpu} by {held.extender}"
