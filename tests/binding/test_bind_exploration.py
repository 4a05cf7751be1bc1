"""All orders of all steps of two extenders and an API server: no order promises memory twice.

Each search is complete within its bounds. Each part of the fence is also left out once, and each time the
search finds the double promise.

`--hypothesis-profile=long` runs the searches that take minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from scheduler_ext.binding import locked_cache
from scheduler_ext.binding.bind import Binding, BindResult, GetReservation, PodsOn, Steps
from scheduler_ext.binding.locked_cache import LockedCache, Reserved
from scheduler_ext.binding.outcome import Done
from scheduler_ext.core.cache.intent import Intent, Reservation
from scheduler_ext.core.cache.ledger import NodePods, _NodeAccount
from scheduler_ext.core.cycle.placement import place
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.node.nominated import with_nominated_pods
from tests.binding.bind_model import Asked, Budget, Model, World, search
from tests.binding.bind_states import EXTENDER, Locals, Setting, Value
from tests.examples import LONG

ONE_GPU = {"n": ("g0",)}
TWO_GPUS = {"n": ("g0", "g1")}
TWO_NODES = {"m": ("g0",), "n": ("g1",)}
TWO = {"p": 600, "q": 600}
THREE = {"p": 600, "q": 600, "r": 600}
# Two of A's fit together, and none of them beside B's.
SMALL = {"p": 600, "q": 600, "r": 300}
SMALLER = {"p": 600, "q": 100, "r": 300}
UNEVEN = {"p": 400, "q": 400, "r": 700}

LONG_ALONE = pytest.mark.skipif(not LONG, reason="takes long; the long profile")


def asked(requests: str) -> tuple[Asked, ...]:
    """Requests as "A p n, B q n": extender, pod, node of each."""
    found = []
    for request in requests.split(", "):
        name, pod, node = request.split()
        found.append(Asked("AB".index(name), pod, node))
    return tuple(found)


def among(requests: str, gpus: Any = ONE_GPU, sizes: Any = TWO, watches: bool = False, **may: int) -> Model:
    """A model with these requests and events."""
    return Model(Setting(gpus, sizes), asked(requests), Budget(**may), watches)


QUICK = {
    "two pods for one GPU": among("A p n, B q n", lost=2, looked=2),
    "pods that finish, or are deleted and created again": among("A p n, B q n, B p n", ended=1),
    "an old leader that wakes up": among("A p n, B q n, A q n", turned=1),
}
# A second or more each.
SLOWER = {
    "two of one extender against one of the other": among("A p n, A q n, B r n", sizes=UNEVEN, lost=1),
    "pods that a user changes": among("A p n, B q n", lost=1, touched=2, looked=1),
    "an extender that is killed": among("A p n, B q n, A q n", lost=1, restarted=1),
    "watches that are late by any time": among("A p n, B q n", watches=True, lost=1, looked=1),
    "a pod that is asked for again on another node": among("A p n, B q n, B p m", TWO_NODES, lost=1),
    "a Binding that is refused, and asked for again of both": among("A p n, A q n, B p n", refused=1, lost=1),
    "a Binding that is refused though nothing changed": among("A p n, A q n, B p n", conflicted=2),
    "a pod of both, and another": among("A p n, B p n, B r n", TWO_GPUS, THREE),
    "a Binding that no time was left for": among("A p n, A p n, B r n", TWO_GPUS, THREE, unsent=1, lost=1),
}
# Minutes each; some reach the bound of states.
LARGE = {
    "an old leader that wakes up, and answers that are lost": among("A p n, B q n, A q n", lost=1, turned=1),
    "a Binding that is refused though nothing changed, and answers that are lost": among(
        "A p n, A q n, B p n", conflicted=2, lost=1
    ),
    "a pod of both, refused to one, and others": among(
        "A p n, B p n, A q n, A r n", sizes={"p": 600, "q": 100, "r": 600}, refused=1
    ),
    "a pod of both, changed, and another": among("A p n, B p n, B r n", TWO_GPUS, THREE, touched=1),
    "a pod of both, refused though nothing changed, and another": among(
        "A p n, B p n, B r n", TWO_GPUS, THREE, conflicted=1
    ),
    "two pods for one GPU, with everything": among(
        "A p n, B q n", lost=2, refused=1, unsent=1, touched=1, ended=1, restarted=1, looked=1
    ),
    "three pods for two GPUs": among("A p n, A q n, B r n", TWO_GPUS, THREE, lost=1, looked=1),
    "two of one extender against one of the other, changed": among(
        "A p n, A q n, B r n", sizes=UNEVEN, lost=1, touched=1, looked=1
    ),
    "killed twice": among("A p n, B q n, A q n", lost=1, restarted=2, looked=1),
    "pods that finish, or are deleted and created again, looked after": among(
        "A p n, B q n, B p n", lost=1, ended=1, looked=1
    ),
    "late watches, and a leader that wakes up": among(
        "A p n, B q n", watches=True, lost=1, turned=1, looked=1, touched=1
    ),
    "two nodes, asked for by turns": among("A p n, B q n, A p m, B p m", TWO_NODES, lost=1),
    "refused, and asked for again": among("A p n, A p n, A q n, B r n", TWO_GPUS, THREE, refused=1, lost=1),
    "no time left, killed and asked for again": among(
        "A p n, A p n, A r n", sizes=SMALL, unsent=1, lost=1, restarted=1, looked=1
    ),
    "refused while the other takes over and is killed": among(
        "A p n, B p n, A q n", refused=1, lost=1, restarted=1, looked=1
    ),
    "refused, and asked for again of both": among("A p n, A p n, A q n, B p n", refused=1, lost=1),
}


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=LONG_ALONE) for name in (*SLOWER, *LARGE))]
)
def test_no_memory_is_promised_twice(name: str) -> None:
    found = search((QUICK | SLOWER | LARGE)[name], most=4_000_000)
    print(f"{name}: {found.states} states, {found.locals} of an extender, complete: {found.complete}")
    assert found.problem is None, "\n".join([f"{found.problem}, after", *found.steps])
    assert found.complete or name in LARGE


class Twice(Locals):
    """Records every other path to a known state."""

    def __init__(self, setting: Setting, name: str) -> None:
        super().__init__(setting, name)
        self.other_ways: list[tuple[int, int, Value]] = []

    def _find(self, number: int | None, given: Value) -> int:
        known = len(self)
        found = super()._find(number, given)
        if found < known and number is not None:
            self.other_ways.append((found, number, given))
        return found


@LONG_ALONE
def test_states_that_look_alike_are_alike() -> None:
    """Every future of the two states is alike, so one of them stands for both."""
    model = among("A p n, A q n, B r n", sizes=UNEVEN, lost=1, looked=1)
    setting = model.setting
    model.locals = [Twice(setting, name) for name in setting.names]
    assert search(model).problem is None
    compared = 0
    with patch.object(locked_cache, "place", setting.place):
        for local in model.locals:
            assert isinstance(local, Twice)
            ways = {number: given for number, given in local._after if number is not None}
            for found, number, given in local.other_ways[:400]:
                if found in ways:
                    machine = local.machine(number)
                    machine.take(given)
                    machine.take(ways[found])
                    assert local._numbers[machine.image()] == local._after[found, ways[found]]
                    compared += 1
    assert compared > 50


class NoFence(Binding):
    """Only the preconditions of the Binding."""

    def _fenced(self, reserved: Reserved) -> Steps[Reserved | BindResult]:
        return reserved
        yield


class BareCounter(LockedCache):
    """A version that counts up, without information on pending writes."""

    def with_intent(self, reserved: Reserved) -> Reservation:
        return replace(super().with_intent(reserved), intents=())


class PodsFirst(Binding):
    """The pods of a node are listed before its intents are read."""

    def _catch_up(self, node: str) -> Steps[str | None]:
        listed = yield PodsOn(node)
        read = yield GetReservation(node)
        if not isinstance(read, Done) or not isinstance(listed, Done):
            return "not read"
        self.locked.fence(read.value or Reservation(node), listed.value)
        return None


class Impatient(Binding):
    """A promise expires after a time."""

    def settle(self, node: str, intent: Intent) -> Steps[bool]:
        self.locked.forget(intent.key, node)
        return True
        yield


class Optimist(Binding):
    """An unanswered call is taken as not done."""

    def _settle(self, reserved: Reserved, conflict: bool) -> Steps[PendingPod | BindResult]:
        self.locked.forget(reserved.key, reserved.node)
        return BindResult("failed")
        yield


class Believer(LockedCache):
    """A watch event of a reservation counts, even for an object that this extender wrote itself."""

    def update_intents(self, node: str, intents: Iterable[Intent]) -> None:
        self.cache.update_intents(node, intents)


class ChoosesAgain(LockedCache):
    """A pod that is bound again at the same version may get another GPU."""

    def reserve(self, pending: PendingPod, node: str) -> Reserved | str:
        info = self.cache.info(node)
        assert info is not None
        found = place(with_nominated_pods(info, pending.pod.uid, 0), pending.pod.request, EXTENDER.sizing)
        if isinstance(found, str):
            return found
        placed = replace(pending.pod, devices=found.devices)
        intent = Intent(placed, pending.resource_version, self._name, self._reads[node])
        self.cache.assume(intent, node)
        return Reserved(node, pending, intent)


class ReadsForItself(LockedCache):
    """The reads of one bind do not count for another that was decided before."""

    just_read = False

    def fence(self, found: Reservation, pods: Iterable[BoundPod] | None = None) -> None:
        self.just_read = pods is not None
        super().fence(found, pods)

    def is_outdated(self, reserved: Reserved) -> bool:
        read, self.just_read = self.just_read, False
        return read


class WritesForAll(LockedCache):
    """Decisions made before the others were read are written, for waiting pods too."""

    def with_intent(self, reserved: Reserved) -> Reservation:
        with self:
            waiting = self.cache.assumed_on(reserved.node)
        found = super().with_intent(reserved)
        return replace(found, intents=tuple({i.key: i for i in (*waiting.values(), *found.intents)}.values()))

    def is_outdated(self, reserved: Reserved) -> bool:
        return super().is_outdated(reserved) and not self.is_written(reserved)


class WritesOverOthers(LockedCache):
    """An intent of another extender is written again with others, in this extender's name."""

    def with_intent(self, reserved: Reserved) -> Reservation:
        with self:
            assumed = self.cache.assumed_on(reserved.node)
        found = super().with_intent(reserved)
        return replace(found, intents=tuple(assumed.get(i.key, i) for i in found.intents))


class ForgetsForOthers(LockedCache):
    """A refusal also settles the intents of others."""

    def withdraw(self, reserved: Reserved) -> None:
        self.forget(reserved.key, reserved.node)


class NoStamp(LockedCache):
    """A write without a change keeps the version."""

    @staticmethod
    def _stamp() -> str:
        return ""


class AnyVersion(Model):
    """Bindings without the version of their pod."""

    def _done(self, world: World, write: Value) -> tuple[World, Value]:
        if write[0] == "post":
            now = next((pod.version for pod in world.pods if pod.uid == write[1]), 0)
            write = (*write[:2], now, *write[3:])
        return super()._done(world, write)


def planted(
    gpus: Any = ONE_GPU, sizes: Any = TWO, model: type[Model] = Model, names: Any = ("A", "B"), **parts: Any
) -> Any:
    """A model with a bug in it."""
    setting = Setting(gpus, sizes, parts.pop("locked", LockedCache), parts.pop("binding", Binding), names)
    requests = asked(parts.pop("asked", "A p n, B q n"))
    watches = parts.pop("watches", False)
    return model(setting, requests, Budget(**parts), watches, only_memory=True)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(planted(binding=NoFence), id="no fence"),
        pytest.param(planted(locked=BareCounter), id="a bare counter"),
        pytest.param(
            planted(sizes=SMALL, binding=PodsFirst, asked="A p n, A r n, B q n"), id="pods listed first"
        ),
        pytest.param(
            planted(binding=Impatient, lost=1, looked=1, asked="A p n, A q n"), id="a time that passes"
        ),
        pytest.param(planted(binding=Optimist, lost=1, asked="A p n, A q n"), id="no answer, not done"),
        pytest.param(
            planted(TWO_GPUS, THREE, locked=ChoosesAgain, asked="A p n, B q n, B p n, A r n"),
            id="other devices for the same Binding",
            marks=LONG_ALONE,
        ),
        pytest.param(
            planted(sizes=UNEVEN, locked=ReadsForItself, asked="A p n, A q n, B r n"),
            id="each its own reads",
        ),
        pytest.param(
            planted(TWO_GPUS, THREE, locked=WritesForAll, asked="A p n, A q n, B r n"),
            id="outdated decisions written with others",
        ),
        pytest.param(
            planted(
                sizes={"p": 600, "q": 100, "r": 600},
                locked=WritesOverOthers,
                refused=1,
                asked="A p n, B p n, A q n, A r n",
            ),
            id="what others wrote is written over",
            marks=LONG_ALONE,
        ),
        pytest.param(
            planted(locked=ForgetsForOthers, refused=1, asked="A p n, B p n, A q n"),
            id="a refusal to one settles it for all",
        ),
        pytest.param(planted(names=("A", "A"), refused=1, asked="A p n, B p n, A q n"), id="two of one name"),
        pytest.param(
            planted(model=AnyVersion, lost=1, touched=1, looked=1, asked="A p n, A q n"), id="any version"
        ),
    ],
)
def test_without_a_part_of_the_fence_memory_is_promised_twice(model: Model) -> None:
    found = search(model, most=400_000)
    assert found.problem is not None, f"not found in {found.states} states"
    assert "are bound on" in found.problem


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            planted(sizes=SMALLER, locked=Believer, watches=True, asked="B q n, A p n, A r n"),
            id="a watch that is believed",
            marks=LONG_ALONE,
        ),
        pytest.param(
            planted(sizes=SMALL, locked=NoStamp, unsent=1, lost=1, asked="A p n, A p n, A r n"),
            id="no stamp",
            marks=LONG_ALONE,
        ),
    ],
)
def test_without_a_part_of_the_fence_a_coming_pod_is_overlooked(model: Model) -> None:
    """From here two more steps promise its memory twice, among thousands of states."""
    found = search(replace(model, only_memory=False), most=400_000)
    assert found.problem is not None, f"not found in {found.states} states"
    assert "whose Binding may succeed" in found.problem or "does not count" in found.problem


def hiding(account: _NodeAccount) -> NodePods:
    """The local assumption hides another extender's intent for the same pod."""
    assumed = account.intents | account.assumed
    return NodePods(tuple(intent.pod for intent in assumed.values()), frozenset(uid for uid, _ in assumed))


def test_assumed_devices_hide_no_written_ones() -> None:
    """The other extender chose another GPU for the same pod."""
    model = planted(TWO_GPUS, THREE, asked="A p n, B p n, B r n")
    with patch.object(_NodeAccount, "pods", hiding):
        found = search(model)
    assert found.problem is not None
    assert "are bound on" in found.problem
