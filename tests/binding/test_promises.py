"""Any order of possible events for one extender, against a cluster that reports one change at a time: shares
in containers, init containers and sidecars, whole GPUs and MIG instances.

After every step: no GPU holds more than its capacity, in truth and in the ledger, and every pod that is
bound, or may be by a pending Binding, is counted. After the delivery of all events: nothing else is counted,
a restarted extender has the same view, filter's answers can be bound, and preempt's victims make room for
filter. For each of these laws a planted bug is found.

`--hypothesis-profile=long` takes 100,000 steps and more.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scheduler_ext.binding.bind import (
    Binding,
    BindRequest,
    BindResult,
    Call,
    OneWriter,
    PostBinding,
    PutReservation,
    Steps,
)
from scheduler_ext.binding.locked_cache import LockedCache, Reserved
from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.ledger import Ledger
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cycle.placement import place
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.node.promisable import shareable_mib
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.preemptor import Advice, Preemptor
from scheduler_ext.wire.config import Configuration, MemorySection
from tests.binding.promise_server import ASKS, HANDED_OUT, NODES, OFFERS, ROOM, Server, holder, now
from tests.binding.test_bind_exploration import LONG_ALONE, Optimist
from tests.examples import LONG
from tests.kube_objects import Json, names_body
from tests.oracle import peak_mib

PODS = st.sampled_from(("p", "q", "r", "s", "t"))
SOME_NODE = st.sampled_from(tuple(NODES))
SOME_GPU = st.sampled_from([uuid for uuids in NODES.values() for uuid in uuids])
HOW = st.sampled_from(("ok", "ok", "hold", "lost", "late", "undone", "refused", "unsent"))
# "stop": other events happen before the call is made.
WRITES = st.sampled_from(("ok", "lost", "late", "stop", "hold", "ok", "undone", "refused", "unsent"))
PICK = st.integers(0, 99)


@dataclass
class Under:
    """A bind, or its later check, in progress: its call, and the pending answer."""

    steps: Steps[Any]
    uid: str
    call: Call
    answer: Outcome[Any] | None = None
    result: Any = None


class Promises(RuleBasedStateMachine):
    """One extender with all its events."""

    # Replaced in tests of planted bugs.
    locked_class: ClassVar[type[LockedCache]] = LockedCache
    binding_class: ClassVar[type[Binding]] = Binding
    cache_class: ClassVar[type[Cache]] = Cache
    extender_class: ClassVar[type[Extender]] = Extender
    checked: ClassVar[str | None] = None
    steps_taken: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.server = Server()
        self.reports = {node: [(self.server.report(node), self.now)] for node in NODES}
        self.orphans: list[Call] = []
        self.begin()

    # --- the extender ---

    def begin(self) -> None:
        """An extender starts, and lists everything."""
        self.extender = self.extender_class(Configuration(memory=MemorySection(headroom_percent=0)))
        self.locked = self.built(self.extender)
        self.binding = self.binding_class(self.locked, lambda name: name == "ours", lambda _: None)
        self.under_way: list[Under] = []
        self.turns: dict[str, Under] = {}
        self.late: dict[tuple[str, str], list[Callable[[LockedCache], object]]] = defaultdict(list)
        self.last: dict[tuple[str, str], Callable[[LockedCache], object]] = {}
        self.extender.replace_nodes(self.locked.cache.infos())
        self.locked.cache.take_changes()

    def built(self, extender: Extender) -> LockedCache:
        """A locked cache filled from a complete LIST."""
        locked = self.locked_class(self.cache_class(150.0, 300.0), extender, "me", lambda: self.now)
        for node, offer in OFFERS.items():
            locked.cache.update_node(node, NodeRecord(f"uid-{node}", offer), self.now)
            self.reported(locked, node, self.reports[node][-1])
        self.listed(locked)
        return locked

    def reported(self, locked: LockedCache, node: str, report: tuple[Report, float]) -> None:
        """A report as a watch delivers it."""
        locked.cache.update_report(node, *report, self.now)

    def listed(self, locked: LockedCache) -> None:
        before = locked.cache.known_pods()
        for there in self.server.pods.values():
            self.seen(locked, there)
        for uid in before - {there["metadata"]["uid"] for there in self.server.pods.values()}:
            locked.cache.remove_pod(uid, self.now)
        for node, found in self.server.reservations.items():
            locked.update_intents(node, found.intents)

    def seen(self, locked: LockedCache, there: Json) -> None:
        """A pod as a watch delivers it."""
        read = now(there)
        if read.bound is not None and read.node is not None:
            locked.cache.confirm(read.bound, read.node, self.now)
        elif read.pending is not None:
            locked.cache.update_pending(read.pending)
        else:
            locked.cache.remove_pod(read.uid, self.now)

    def publish(self) -> None:
        changed = self.locked.cache.take_changes()
        if changed:
            self.extender.update_nodes({name: self.locked.cache.info(name) for name in changed})

    # --- changes in the cluster, delivered later ---

    def happened(self, kind: str, name: str, told: Callable[[LockedCache], object]) -> None:
        self.late[kind, name].append(told)

    def written(self, there: Json) -> None:
        self.happened("pod", there["metadata"]["name"], lambda locked: self.seen(locked, there))

    @initialize(asks=st.lists(st.sampled_from(ASKS), min_size=5, max_size=5))
    def some_wait(self, asks: list[Json]) -> None:
        for name, asked, priority in zip("pqrst", asks, (0, 0, 0, 10, 10), strict=True):
            self.create(name, asked, priority)
            self.tell(("pod", name))

    @rule(name=PODS, asks=st.sampled_from(ASKS), priority=st.sampled_from((0, 0, 10)))
    def create(self, name: str, asks: Json, priority: int) -> None:
        if name not in self.server.pods:
            self.written(self.server.create(name, asks, priority))

    @rule(name=PODS)
    def touch(self, name: str) -> None:
        if name in self.server.pods:
            self.written(self.server.change(name, message=str(self.server.version)))

    @rule(name=PODS, node=SOME_NODE)
    def nominate(self, name: str, node: str) -> None:
        if name in self.server.pods and not self.server.pods[name]["spec"]["nodeName"]:
            self.written(self.server.change(name, nominatedNodeName=node))

    @rule(name=PODS, phase=st.sampled_from(("Running", "Succeeded")))
    def run(self, name: str, phase: str) -> None:
        there = self.server.pods.get(name)
        if there is not None and there["spec"]["nodeName"] and there["status"]["phase"] != "Succeeded":
            self.written(self.server.change(name, phase=phase))

    @rule(name=PODS, gracefully=st.booleans())
    def delete(self, name: str, gracefully: bool) -> None:
        there = self.server.pods.get(name)
        if there is None:
            return
        if gracefully and not there["metadata"].get("deletionTimestamp"):
            there["metadata"]["deletionTimestamp"] = "2026-11-21T07:13:08Z"
            self.written(self.server.change(name))
            return
        del self.server.pods[name]
        uid = there["metadata"]["uid"]
        self.happened("pod", name, lambda locked: locked.cache.remove_pod(uid, self.now))

    @rule(
        gpu=SOME_GPU,
        healthy=st.sampled_from((True, True, False)),
        cordoned=st.sampled_from((False, False, True)),
    )
    def ail(self, gpu: str, healthy: bool, cordoned: bool) -> None:
        self.server.gpus[gpu] = replace(self.server.gpus[gpu], healthy=healthy, cordoned=cordoned)

    @rule(node=SOME_NODE, later_s=st.sampled_from((0.0, 1.0, 5.0)))
    def report(self, node: str, later_s: float) -> None:
        self.now += later_s
        told = (self.server.report(node), self.now)
        self.reports[node].append(told)
        self.happened("report", node, lambda locked: self.reported(locked, node, told))

    @rule(seconds=st.sampled_from((1.0, 1.0, 3.0, 160.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.locked.cache.tick(self.now)

    # --- deliveries to the extender: late, twice, in any order of objects ---

    @precondition(lambda self: any(self.late.values()))
    @rule(pick=PICK, twice=st.booleans())
    def hear(self, pick: int, twice: bool) -> None:
        waiting = sorted(key for key, events in self.late.items() if events)
        self.tell(waiting[pick % len(waiting)])
        if twice:
            self.hear_again(pick)

    @precondition(lambda self: self.last)
    @rule(pick=PICK, behind=st.integers(0, 3))
    def hear_again(self, pick: int, behind: int = 0) -> None:
        kind, name = sorted(self.last)[pick % len(self.last)]
        if kind == "report":
            self.list_reports_again(name, behind)
        else:
            self.last[kind, name](self.locked)

    def list_reports_again(self, node: str, behind: int) -> None:
        """From a stale cache: an older event after a newer one. Later events are delivered again."""
        count = len(self.late["report", node]) + 1 + behind
        self.late["report", node] = [
            lambda locked, told=told: self.reported(locked, node, told)  # type: ignore[misc]
            for told in self.reports[node][-count:]
        ]
        self.tell(("report", node))

    def tell(self, key: tuple[str, str]) -> None:
        told = self.late[key].pop(0)
        told(self.locked)
        self.last[key] = told

    @rule()
    def restart(self) -> None:
        """Killed: its sent calls may still be done."""
        sent = [under.call for under in self.under_way if under.answer is None]
        self.orphans += [call for call in sent if isinstance(call, PutReservation | PostBinding)]
        self.begin()

    @rule()
    def become_active(self) -> None:
        self.locked.invalidate_fence()
        for key in [key for key in self.late if key[0] != "report"]:
            del self.late[key]
        self.last = {key: told for key, told in self.last.items() if key[0] == "report"}
        self.listed(self.locked)

    # --- binds, step by step ---

    def busy(self) -> set[str]:
        return {under.uid for under in self.under_way}

    @rule(name=PODS, node=st.sampled_from("ab"), put=WRITES, post=WRITES)
    def ask_bind(self, name: str, node: str, put: str, post: str) -> None:
        """Every call succeeds, apart from the named outcomes of the two writes."""
        there = self.server.pods.get(name)
        if there is None or (uid := there["metadata"]["uid"]) in self.busy():
            return
        node = next((HANDED_OUT[name] for name in asked(there) if name in HANDED_OUT), node)
        under = self.go(self.binding.bind(BindRequest("default", name, uid, node)), uid)
        while under in self.under_way:
            how = {PutReservation: put, PostBinding: post}.get(type(under.call), "ok")
            if how == "stop" or self.step(under, how) == "waits" or under.answer is not None:
                return

    @rule(order=st.permutations("pqrst"), most=st.integers(1, 5))
    def bind_some(self, order: list[str], most: int) -> None:
        """Binds end without room, or succeed without a fault."""
        for name in order[:most]:
            self.ask_bind(name, "a", "ok", "ok")
            self.ask_bind(name, "b", "ok", "ok")

    @precondition(lambda self: self.locked.cache.assumed())
    @rule(pick=PICK)
    def look_after(self, pick: int) -> None:
        unsettled = self.locked.cache.assumed()
        node, intent = unsettled[pick % len(unsettled)]
        if intent.uid not in self.busy():
            self.go(self.binding.settle(node, intent), intent.uid)

    def go(self, steps: Steps[Any], uid: str) -> Under:
        under = Under(steps, uid, OneWriter("none"))
        self.under_way.append(under)
        self.send(under, None)
        return under

    def send(self, under: Under, outcome: Outcome[Any] | None) -> None:
        under.answer = None
        try:
            under.call = under.steps.send(outcome)
        except StopIteration as end:
            self.under_way.remove(under)
            self.pass_turn(under)
            under.result = end.value
            return
        if isinstance(under.call, PostBinding):
            self.pass_turn(under)

    def pass_turn(self, under: Under) -> None:
        self.turns = {node: holder for node, holder in self.turns.items() if holder is not under}

    @precondition(lambda self: self.under_way)
    @rule(pick=PICK, how=HOW)
    def answer(self, pick: int, how: str) -> None:
        self.step(self.under_way[pick % len(self.under_way)], how)

    @precondition(lambda self: self.under_way)
    @rule(pick=PICK)
    def finish(self, pick: int) -> None:
        """One bind succeeds to its end."""
        self.succeed(self.under_way[pick % len(self.under_way)])

    def succeed(self, under: Under) -> None:
        while under in self.under_way and self.step(under, "ok") != "waits":
            pass

    def step(self, under: Under, how: str) -> str | None:
        call = under.call
        if isinstance(call, OneWriter):
            if call.node in self.turns:
                return "waits"
            self.turns[call.node] = under
            self.send(under, Done(None))
        elif under.answer is not None:
            self.send(under, Unknown("") if how == "lost" else under.answer)
        elif how == "hold":
            under.answer = self.done(call)
        elif how in ("ok", "lost"):
            outcome = self.done(call)
            self.send(under, Unknown("") if how == "lost" else outcome)
        else:
            self.fail(under, how)
        return None

    def fail(self, under: Under, how: str) -> None:
        """The call is not done now, and perhaps later."""
        writes = isinstance(under.call, PutReservation | PostBinding)
        if how == "late" and writes:
            self.orphans.append(under.call)
        if how == "refused" and writes:
            self.send(under, Refused(429, ""))
        else:
            self.send(under, Unsent("") if how == "unsent" else Unknown(""))

    @precondition(lambda self: self.orphans)
    @rule(pick=PICK)
    def land(self, pick: int) -> None:
        """Calls whose sender no longer waits are done."""
        self.done(self.orphans.pop(pick % len(self.orphans)))

    def done(self, call: Call) -> Outcome[Any]:
        outcome = self.server.done(call)
        if isinstance(outcome, Done) and isinstance(call, PutReservation):
            found = outcome.value
            self.happened(
                "reservation", found.node, lambda locked: locked.update_intents(found.node, found.intents)
            )
        if isinstance(outcome, Done) and isinstance(call, PostBinding):
            self.written(self.server.pods[call.reserved.pending.pod.name])
        return outcome

    # --- laws ---

    def check(self, which: str) -> bool:
        return self.checked in (None, which)

    @invariant()
    def no_gpu_has_more_than_it_has(self) -> None:
        type(self).steps_taken += 1
        if self.check("truth"):
            for where, used in self.server.used().items():
                assert used <= ROOM.get(where, 0), f"truth: {where} has {used} of {ROOM.get(where, 0)}"

    @invariant()
    def no_gpu_is_promised_more_than_it_has(self) -> None:
        if not self.check("ledger"):
            return
        for info in self.locked.cache.infos():
            promised: dict[str, Counter[str]] = defaultdict(Counter)
            for pod in info.pods:
                if pod.holds:
                    # A pod with promises on two nodes arrives on one of them.
                    promised[pod.uid] |= holdings(pod)
            total = sum(promised.values(), Counter())
            assert info.report is not None
            room = info.allocatable or {}
            room = dict(room) | {device.uuid: shareable_mib(device) for device in info.report.devices}
            for where, much in total.items():
                assert much <= room.get(where, 0), f"ledger: {where} is promised {much}"

    @invariant()
    def every_possible_holder_is_counted(self) -> None:
        if self.check("counted"):
            self.all_counted(self.locked)

    def all_counted(self, locked: LockedCache) -> None:
        counted = {
            (info.name, pod.uid, *sorted(pod.devices.items()))
            for info in locked.cache.infos()
            for pod in info.pods
            if pod.holds
        }
        for node in NODES:
            for pod in map(holder, self.server.on(node)):
                key = (node, pod.uid, *sorted(pod.devices.items()))
                assert key in counted, f"counted: {key} is bound"
        sent = self.orphans + [under.call for under in self.under_way if under.answer is None]
        for call in self.server.coming(sent):
            key = (call.reserved.node, call.reserved.intent.uid, *sorted(call.reserved.devices.items()))
            assert key in counted, f"counted: {key} is on its way"

    # --- laws after the delivery of all events ---

    def quiet(self) -> None:
        """All events are delivered and checked."""
        while waiting := sorted(key for key, events in self.late.items() if events):
            self.tell(waiting[0])
        self.look_after_all(self.locked, self.binding)
        self.publish()

    def look_after_all(self, locked: LockedCache, binding: Binding) -> None:
        for node, intent in locked.cache.assumed():
            if intent.uid not in self.busy():
                steps = binding.settle(node, intent)
                try:
                    outcome: Any = None
                    while True:
                        outcome = self.server.done(steps.send(outcome))
                except StopIteration:
                    pass

    @rule()
    def nothing_else_is_counted(self) -> None:
        self.quiet()
        if not self.check("leaks"):
            return
        open_ones = {(node, intent.uid) for node, intent in self.locked.cache.assumed()}
        waiting = {
            there["metadata"]["uid"] for there in self.server.pods.values() if not there["spec"]["nodeName"]
        }
        for info in self.locked.cache.infos():
            bound = {there["metadata"]["uid"] for there in self.server.on(info.name)}
            for pod in info.pods:
                assert not pod.holds or pod.uid in bound or (info.name, pod.uid) in open_ones, (
                    f"leaks: {pod.uid} on {info.name}"
                )
        for node, uid in open_ones:
            assert uid in waiting | self.busy(), f"leaks: {uid} is open on {node}"

    @rule()
    def a_restarted_extender_knows_the_same(self) -> None:
        self.quiet()
        if not self.check("rebuild"):
            return
        restarted = self.built(self.extender)
        self.look_after_all(restarted, Binding(restarted, lambda _: True, lambda _: None))
        self.all_counted(restarted)
        for info in self.locked.cache.infos():
            other = restarted.cache.info(info.name)
            assert other is not None
            assert known(info) == known(other), f"rebuild: {info.name}"

    @rule(name=PODS)
    def filter_changes_nothing(self, name: str) -> None:
        there = self.server.pods.get(name)
        if there is None or not self.check("pure"):
            return
        self.publish()
        body = names_body(there, list(NODES))
        before = list(self.locked.cache.infos())
        first = self.extender.filter(body, deadline()).body
        scores = self.extender.prioritize(body, deadline()).body
        assert self.extender.filter(body, deadline()).body == first, "pure: another answer"
        assert self.extender.prioritize(body, deadline()).body == scores, "pure: other points"
        assert list(self.locked.cache.infos()) == before, "pure: another ledger"

    @rule(name=PODS, pick=PICK)
    def what_passes_is_bound(self, name: str, pick: int) -> None:
        self.quiet()
        there = self.server.pods.get(name)
        if there is None or there["metadata"]["uid"] in self.busy() or not self.check("accepted"):
            return
        if there["spec"]["nodeName"] or there["metadata"].get("deletionTimestamp"):
            return
        passed = [node for node in self.passed(self.extender, there) if node not in self.turns]
        if passed:
            node = passed[pick % len(passed)]
            under = self.go(
                self.binding.bind(BindRequest("default", name, there["metadata"]["uid"], node)), ""
            )
            self.succeed(under)
            assert under.result == BindResult("bound"), f"accepted: {under.result}"

    @staticmethod
    def passed(extender: Extender, there: Json) -> list[str]:
        reply = json.loads(extender.filter(names_body(there, list(NODES)), deadline()).body)
        names: list[str] = reply["NodeNames"]
        return names

    @rule(name=PODS)
    def what_preempt_frees_passes(self, name: str) -> None:
        self.quiet()
        there = self.server.pods.get(name)
        if there is None or there["spec"]["nodeName"] or not self.check("preempt"):
            return
        lower = {
            node: [
                {"UID": other["metadata"]["uid"]}
                for other in self.server.on(node)
                if other["spec"]["priority"] < there["spec"]["priority"]
            ]
            for node in NODES
        }
        proposed = {node: {"Pods": pods, "NumPDBViolations": 0} for node, pods in lower.items() if pods}
        body = json.dumps({"Pod": there, "NodeNameToMetaVictims": proposed}).encode()
        reply = json.loads(self.extender.preemptor.preempt(body, deadline()).body)
        for node, victims in reply["NodeNameToMetaVictims"].items():
            uids = {victim["UID"] for victim in victims["Pods"]}
            assert uids <= {pod["UID"] for pod in lower[node]}, "preempt: a pod outside the proposal"
            after = Extender(Configuration(memory=MemorySection(headroom_percent=0)))
            info = self.locked.cache.info(node)
            assert info is not None
            left = tuple(replace(pod, departed=True) if pod.uid in uids else pod for pod in info.pods)
            after.replace_nodes([replace(info, pods=left)])
            assert self.passed(after, there) == [node], f"preempt: {node} without {uids}"

    def teardown(self) -> None:
        """When all pods are gone nothing remains."""
        self.orphans.clear()
        for under in list(self.under_way):
            self.succeed(under)
        for name in list(self.server.pods):
            self.delete(name, False)
        if not self.check("leaks") or self.under_way:
            return
        self.quiet()
        self.now += 10
        for node in NODES:
            self.report(node, 0.0)
        self.quiet()
        assert self.locked.cache.assumed() == [], "leaks: open"
        for info in self.locked.cache.infos():
            assert (info.pods, info.nominated) == ((), ()), f"leaks: {info.name}"


def asked(there: Json) -> Json:
    """The request of a pod's app, by resource."""
    limits: Json = there["spec"]["containers"][0]["resources"]["limits"]
    return limits


def holdings(pod: BoundPod) -> Counter[str]:
    """The holdings of a pod, possible ones included: MiB by GPU, and units by resource."""
    found = Counter({ask.resource: ask.count for ask in pod.request.units})
    if pod.request.shares is not None:
        where = [pod.devices[container] for container, _ in pod.request.shares.by_container]
        found.update({gpus[0]: peak_mib(pod.request.shares, where, gpus) for gpus in where})
    return found


def known(info: NodeInfo) -> NodeInfo:
    """The content of a list: without promises and departed pods."""
    confirmed = tuple(pod for pod in info.pods if pod.holds and pod.uid not in info.assumed)
    return replace(info, pods=confirmed, assumed=frozenset())


def deadline() -> float:
    return time.monotonic() + 60


def test_promises_hold() -> None:
    examples = 2600 if LONG else 20
    Promises.steps_taken = 0
    run_state_machine_as_test(Promises, settings=settings(max_examples=examples, stateful_step_count=50))
    print(f"{Promises.steps_taken} steps")
    assert not LONG or Promises.steps_taken >= 100_000


class Deaf(Cache):
    """Ignores bound pods and keeps no promise."""

    def confirm(self, pod: BoundPod, node: str, now: float) -> None:
        return

    def assume(self, intent: Intent, node: str) -> None:
        return


class Lavish(LockedCache):
    """Promises as on an empty node."""

    def reserve(self, pending: PendingPod, node: str) -> Reserved | str:
        info = self.cache.info(node)
        assert info is not None
        found = place(replace(info, pods=()), pending.pod.request, self._extender.sizing)
        if isinstance(found, str):
            return found
        intent = Intent(replace(pending.pod, devices=found.devices), pending.resource_version, "me")
        Ledger.assume(self.cache, intent, node)
        return Reserved(node, pending, replace(intent, reads=self._reads[node]))


class Keeper(Cache):
    """A bound pod that is gone stays."""

    def remove_pod(self, uid: str, now: float, waited: bool = False) -> str | None:
        if self.node_of(uid) is None:
            return super().remove_pod(uid, now, waited)
        return None


class FirstWord(Cache):
    """Only the first event of a bound pod counts."""

    def confirm(self, pod: BoundPod, node: str, now: float) -> None:
        if self.node_of(pod.uid) is None:
            super().confirm(pod, node, now)


class Fickle(Extender):
    """Every second answer differs."""

    asked = 0

    def filter(self, body: bytes, deadline: float, *, best_only: bool = False) -> Answer:
        self.asked += 1
        found = super().filter(body, deadline, best_only=best_only)
        return replace(found, body=b"{}") if self.asked % 2 else found


class Timid(LockedCache):
    """Binds only to empty nodes."""

    def reserve(self, pending: PendingPod, node: str) -> Reserved | str:
        info = self.cache.info(node)
        return "taken" if info is not None and info.pods else super().reserve(pending, node)


class OneVictim(Preemptor):
    """Any one victim is taken as enough."""

    def preempt(self, body: bytes, deadline: float) -> Answer:
        proposed = json.loads(body)["NodeNameToMetaVictims"]
        chosen = {node: victims | {"Pods": victims["Pods"][:1]} for node, victims in proposed.items()}
        return Answer(json.dumps({"NodeNameToMetaVictims": chosen}).encode(), 0, 0)


class Generous(Extender):
    def __init__(self, config: Configuration) -> None:
        super().__init__(config)
        self.preemptor = OneVictim(
            self.sizing, lambda: self.snapshot, self.preemption_answers, self.budgets, Advice()
        )


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        pytest.param(
            {"cache_class": Deaf}, "truth: .* has", id="a ledger that counts no pod", marks=LONG_ALONE
        ),
        pytest.param(
            {"locked_class": Lavish}, "ledger: .* is promised", id="promises beyond the free amount"
        ),
        pytest.param({"binding_class": Optimist}, "counted: ", id="no answer, not done", marks=LONG_ALONE),
        pytest.param({"cache_class": Deaf}, "counted: .* is bound", id="a pod that is not heard of"),
        pytest.param({"cache_class": Keeper}, "leaks: ", id="a pod that stays"),
        pytest.param({"cache_class": FirstWord}, "rebuild: ", id="an unchanged pod"),
        pytest.param({"extender_class": Fickle}, "pure: another answer", id="a filter that remembers"),
        pytest.param({"locked_class": Timid}, "accepted: .*taken", id="a bind that wants more than filter"),
        pytest.param({"extender_class": Generous}, "preempt: ", id="too few victims"),
    ],
)
def test_each_finds_its_bug(bug: dict[str, type], found: str) -> None:
    """Only this check, without others that could find the bug first."""
    planted = type("Planted", (Promises,), {**bug, "checked": found.partition(":")[0]})
    quick = settings(max_examples=1000, stateful_step_count=50, phases=[Phase.generate])
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(planted, settings=quick)
