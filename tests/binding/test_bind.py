"""One bind, call by call: every outcome of every call, the next call, and the remaining promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.binding.bind import (
    Binding,
    BindRequest,
    BindResult,
    Call,
    GetPod,
    GetReservation,
    OneWriter,
    PodsOn,
    PostBinding,
    PutReservation,
    Steps,
)
from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.core.cache.intent import MAX_INTENTS, Intent, Reservation
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from tests.binding.bind_states import SHARE, Held, Pod, Setting, Written
from tests.core.reported import ONE_G, device, sliced

SETTING = Setting({"n": ("g0", "g1"), "m": ("m0",)}, {"p": 600, "q": 600, "r": 600, "s": 600})
WHOLE = "nvidia.com/gpu"
P = Pod("p-1", 1)
NAMES = {
    GetPod: "get",
    PodsOn: "list",
    GetReservation: "read",
    PutReservation: "put",
    PostBinding: "post",
    OneWriter: "turn",
}
FAULTS: dict[str, Outcome[Any]] = {
    "unknown": Unknown("no answer"),
    "unsent": Unsent("no time was left"),
    "403": Refused(403, "forbidden"),
    "404": Refused(404, "not found"),
    "409": Refused(409, "conflict"),
    "429": Refused(429, "too many requests"),
}


ANSWERS: dict[str, Any] = {
    "get same": SETTING.now(P),
    "get changed": SETTING.now(P._replace(version=2)),
    "get again": SETTING.now(P._replace(version=3)),
    "get bound": SETTING.now(P._replace(version=2, node="n", gpu="g0")),
    "get elsewhere": SETTING.now(P._replace(version=2, node="m", gpu="m0")),
    "get deleting": SETTING.now(P._replace(version=2, deleting=True)),
    "get finished": SETTING.now(P._replace(version=2, finished=True)),
    "get gone": None,
    "get another": SETTING.now(Pod("p-2", 9)),
    "read none": None,
    "read q": SETTING.reservation("n", Written(5, (Held("q-1", "1", "g0", "you"),))),
    "read q, r": SETTING.reservation(
        "n", Written(5, (Held("q-1", "1", "g0", "you"), Held("r-1", "1", "g1", "you")))
    ),
    "read mine": SETTING.reservation("n", Written(5, (Held("p-1", "1", "g1", "you"),))),
    "list q": (SETTING.bound(Pod("q-1", 2, "n", "g0")),),
    "list q, r": (SETTING.bound(Pod("q-1", 2, "n", "g0")), SETTING.bound(Pod("r-1", 2, "n", "g1"))),
    "list none": (),
    "turn ok": None,
    "post ok": None,
}


class Driven:
    """An extender under test; its calls are answered in words: "post 409", "get changed"."""

    def __init__(self) -> None:
        self.locked = SETTING.filled("me")
        for node, uuids in SETTING.gpus.items():
            record = NodeRecord(f"uid-{node}", {SHARE: 1000 * len(uuids), WHOLE: len(uuids)})
            self.locked.cache.update_node(node, record, 0.0)
        sole = Report((device(0, mig=sliced(("1g.10gb", 0))),), mig_strategy="mixed")
        self.locked.cache.update_node("mig", NodeRecord("uid-mig", {ONE_G: 1}), 0.0)
        self.locked.cache.update_report("mig", sole, 0.0, 0.0)
        self.counts: Counter[str] = Counter()
        self.binding = Binding(
            self.locked, lambda name: name == "ours", lambda kind: self.counts.update([kind])
        )
        self.versions = iter(range(10, 100))
        self.calls: list[Call] = []

    def knows(self, waiting: Pod = P, **fields: Any) -> Driven:
        """The pod waits for a node, according to the watch."""
        self.locked.cache.update_pending(replace(SETTING.pending(waiting), **fields))
        return self

    def asked(self, name: str = "p", node: str = "n") -> Steps[BindResult]:
        """A bind that has not begun."""
        return self.binding.bind(BindRequest("ns", name, f"{name}-1", node))

    def bind(self, *told: str, name: str = "p", node: str = "n") -> BindResult:
        """The result of a bind with these calls and answers."""
        result = self.drive(self.asked(name, node), *told)
        assert isinstance(result, BindResult)
        return result

    def written(self) -> list[Reservation]:
        """All that was to be written."""
        return [call.wanted for call in self.calls if isinstance(call, PutReservation)]

    def drive(self, steps: Steps[Any], *told: str) -> Any:
        outcome: Outcome[Any] | None = None
        for word in told:
            call = steps.send(outcome)
            self.calls.append(call)
            assert NAMES[type(call)] == word.split()[0], f"{call} and not {word}"
            outcome = self._outcome(call, word)
        return ended(steps, outcome)

    def _outcome(self, call: Call, word: str) -> Outcome[Any]:
        fault = FAULTS.get(word.split()[1])
        if fault is not None:
            return fault
        if isinstance(call, PutReservation):
            return Done(replace(call.wanted, resource_version=str(next(self.versions))))
        return Done(ANSWERS[word])

    def holds(self) -> str:
        """Holders by GPU; p on g0! is a promise."""
        words = []
        for info in self.locked.cache.infos():
            for pod in info.pods:
                if pod.holds:
                    gpus = "+".join(pod.devices.get("main", (info.name,)))
                    words.append(f"{pod.name} on {gpus}" + ("!" if pod.uid in info.assumed else ""))
        return ", ".join(sorted(set(words)))


def ended(steps: Steps[Any], outcome: Outcome[Any] | None) -> Any:
    """The result, of which this is the last outcome."""
    with pytest.raises(StopIteration) as end:
        pytest.fail(f"{steps.send(outcome)} is asked after all")
    return end.value.value


FENCED = ("turn ok", "read none", "list none", "put ok")


@pytest.mark.parametrize(
    ("told", "kind", "holds"),
    [
        pytest.param(("post ok",), "bound", "p on g0", id="bound, and confirmed"),
        pytest.param(("post 403",), "failed", "", id="refused, and forgotten"),
        pytest.param(("post 429",), "failed", "", id="left alone"),
        pytest.param(("post unsent",), "failed", "", id="no time was left: it can be no more"),
        pytest.param(("post unknown", "get same"), "unknown", "p on g0!", id="on its way still: kept"),
        pytest.param(("post unknown", "get unknown"), "unknown", "p on g0!", id="nor can it be read: kept"),
        pytest.param(("post unknown", "get bound"), "bound", "p on g0", id="it was bound"),
        pytest.param(
            ("post unknown", "get elsewhere"), "refused", "p on m0", id="another scheduler bound it"
        ),
        pytest.param(("post unknown", "get gone"), "refused", "", id="it is gone"),
        pytest.param(("post unknown", "get deleting"), "refused", "", id="it is being deleted"),
        pytest.param(
            ("post unknown", "get changed", "turn ok", "put ok", "post ok"),
            "bound",
            "p on g0",
            id="it changed, so that it was not bound: once more",
        ),
        pytest.param(
            ("post 409", "get changed", "turn ok", "put ok", "post ok"), "bound", "p on g0", id="as after 409"
        ),
        pytest.param(
            ("post 409", "get changed", "turn ok", "put ok", "post 409", "get again"),
            "failed",
            "",
            id="and not a third time",
        ),
        pytest.param(
            ("post 409", "get same", "turn ok", "put ok", "post ok"),
            "bound",
            "p on g0",
            id="409, and yet nothing changed: once more, too",
        ),
        pytest.param(("post 409", "get bound"), "bound", "p on g0", id="409: an earlier try had bound it"),
    ],
)
def test_the_binding(told: tuple[str, ...], kind: str, holds: str) -> None:
    driven = Driven().knows()
    result = driven.bind(*FENCED, *told)
    assert (result.kind, bool(result.error)) == (kind, kind != "bound")
    assert driven.holds() == holds


@pytest.mark.parametrize(
    ("told", "kind", "holds"),
    [
        pytest.param(("turn unsent",), "failed", "", id="others took all the time"),
        pytest.param(("turn ok", "read unknown"), "failed", "", id="the written value cannot be read"),
        pytest.param(("turn ok", "read none", "list unknown"), "failed", "", id="nor a bound one"),
        pytest.param(("turn ok", "read none", "list none", "put unknown"), "failed", "", id="nor written"),
        pytest.param(("turn ok", "read none", "list none", "put 403"), "failed", "", id="nor may it be"),
        pytest.param((*FENCED, "post ok"), "bound", "p on g0", id="no write yet: its best node"),
        pytest.param(
            ("turn ok", "read q", "list none", "put ok", "post ok"),
            "bound",
            "p on g1, q on g0!",
            id="another is coming there: on the other GPU",
        ),
        pytest.param(
            ("turn ok", "read none", "list q", "put ok", "post ok"),
            "bound",
            "p on g1, q on g0",
            id="another was bound there",
        ),
        pytest.param(
            ("turn ok", "read q, r", "list none"), "conflict", "q on g0!, r on g1!", id="both taken"
        ),
        pytest.param(
            ("turn ok", "read mine", "list none", "put ok", "post ok"),
            "bound",
            "p on g1",
            id="another extender is binding it: to the same GPU",
        ),
        pytest.param(
            ("turn ok", "read mine", "list none", "put ok", "post 403"),
            "failed",
            "p on g1!",
            id="refused to us, it may be bound by the other still",
        ),
        pytest.param(
            ("turn ok", "read none", "list none", "put 409", "read q", "list none", "put ok", "post ok"),
            "bound",
            "p on g1, q on g0!",
            id="another writer was faster: read, and decided again",
        ),
        pytest.param(
            ("turn ok", "read q", "list none", "put 404", "read none", "list none", "put ok", "post ok"),
            "bound",
            "p on g0",
            id="it was deleted with its content",
        ),
        pytest.param(
            ("turn ok", *("read none", "list none", "put 409") * 4), "failed", "", id="four times, no more"
        ),
    ],
)
def test_the_fence(told: tuple[str, ...], kind: str, holds: str) -> None:
    driven = Driven().knows()
    result = driven.bind(*told)
    assert (result.kind, bool(result.error)) == (kind, kind != "bound")
    assert driven.holds() == holds


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        pytest.param(("get same", *FENCED, "post ok"), "bound", id="it waits: kube-scheduler knew it first"),
        pytest.param(("get bound",), "repeated", id="it is bound there"),
        pytest.param(("get elsewhere",), "refused", id="it is bound elsewhere"),
        pytest.param(("get gone",), "refused", id="it is gone"),
        pytest.param(("get finished",), "refused", id="it has finished"),
        pytest.param(("get deleting",), "refused", id="it is being deleted"),
        pytest.param(("get unknown",), "failed", id="no answer"),
    ],
)
def test_a_pod_without_an_event_is_read(told: tuple[str, ...], kind: str) -> None:
    assert Driven().bind(*told).kind == kind


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"scheduler_name": "another"}, "scheduler 'another', not of ours", id="not ours"),
        pytest.param({"pod": replace(SETTING.bound(P), terminating=True)}, "being deleted", id="going"),
        pytest.param({"invalid": "what is that"}, "what is that", id="asks what cannot be meant"),
    ],
)
def test_a_pod_that_is_not_to_be_bound_is_refused(fields: dict[str, Any], why: str) -> None:
    driven = Driven().knows(**fields)
    result = driven.bind()
    assert result.kind == "refused"
    assert why in result.error
    assert driven.holds() == ""


def test_the_second_bind_on_a_node_reads_nothing() -> None:
    driven = Driven().knows().knows(Pod("q-1", 1))
    driven.bind(*FENCED, "post ok")
    assert driven.bind("turn ok", "put ok", "post ok", name="q") == BindResult("bound")
    written = driven.written()
    # A bound pod is removed with the next write.
    assert [[intent.uid for intent in wanted.intents] for wanted in written] == [["p-1"], ["q-1"]]
    assert [wanted.resource_version for wanted in written] == [None, "10"]
    assert len({wanted.stamp for wanted in written}) == 2


def test_asked_again_it_says_where_the_pod_is() -> None:
    driven = Driven().knows()
    driven.bind(*FENCED, "post ok")
    assert driven.bind() == BindResult("repeated")
    elsewhere = driven.bind(node="m")
    assert elsewhere.kind == "refused"
    assert "is bound to node n already, not to m" in elsewhere.error


def test_where_nothing_fits_nothing_is_asked() -> None:
    driven = Driven().knows()
    for name, gpu in (("q", "g0"), ("r", "g1")):
        driven.locked.cache.confirm(SETTING.bound(Pod(f"{name}-1", 2, "n", gpu)), "n", 0.0)
    result = driven.bind()
    assert result.kind == "conflict"
    assert "pod ns/p no longer fits on node n: " in result.error
    assert driven.counts == {"gone": 1}
    assert Driven().knows().bind(node="nowhere").kind == "conflict"


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        pytest.param(("post ok",), {}, id="none"),
        pytest.param(("post 409", "get bound"), {"pod": 1}, id="the pod is another"),
    ],
)
def test_conflicts_are_counted(told: tuple[str, ...], counts: dict[str, int]) -> None:
    driven = Driven().knows()
    driven.bind(*FENCED, *told)
    assert driven.counts == counts


WHOLE_POD = replace(SETTING.bound(P), request=GpuRequest(units=(UnitRequest(WHOLE, 1),)), devices={})
MIG_POD = replace(WHOLE_POD, request=GpuRequest(units=(UnitRequest(ONE_G, 1, "1g.10gb"),)))


def test_the_only_instance_is_fenced_like_a_share_and_promised_once() -> None:
    driven = Driven().knows(pod=MIG_POD)
    driven.knows(Pod("q-1", 1), pod=replace(MIG_POD, uid="q-1", name="q"))
    assert driven.bind(*FENCED, "post unknown", "get same", node="mig").kind == "unknown"
    [[intent]] = [written.intents for written in driven.written()]
    assert (intent.pod.request.units, intent.pod.devices) == (MIG_POD.request.units, {})
    assert driven.bind(name="q", node="mig").kind == "conflict"
    assert driven.holds() == "p on mig!"


def test_a_pod_that_asks_nothing_of_a_gpu_is_bound_without_more() -> None:
    driven = Driven().knows(pod=replace(WHOLE_POD, request=GpuRequest()))
    assert driven.bind("post ok").kind == "bound"


def test_a_pod_without_a_gpu_request_is_not_written_with_others() -> None:
    driven = Driven().knows(pod=replace(WHOLE_POD, request=GpuRequest())).knows(Pod("q-1", 1))
    driven.locked.fence(Reservation("n", resource_version="5"), ())
    assert driven.bind("post unknown", "get same").kind == "unknown"
    assert driven.bind("turn ok", "put ok", "post ok", name="q").kind == "bound"
    [written] = driven.written()
    assert [intent.uid for intent in written.intents] == ["q-1"]


def test_a_whole_gpu_stays_promised_while_an_earlier_binding_is_open() -> None:
    driven = Driven().knows(pod=WHOLE_POD)
    driven.bind(*FENCED, "post unknown", "get same")
    assert driven.bind("turn ok", "put ok", "post unsent").kind == "failed"
    assert driven.holds() == "p on n!"
    [(node, intent)] = driven.locked.cache.assumed()
    assert driven.drive(driven.binding.settle(node, intent), "get changed")
    assert driven.holds() == ""


@pytest.mark.parametrize(
    ("told", "known", "holds"),
    [
        pytest.param("get same", False, "p on g0!", id="still open"),
        pytest.param("get unknown", False, "p on g0!", id="not to be read"),
        pytest.param("get changed", True, "", id="changed: that Binding comes too late"),
        pytest.param("get bound", True, "p on g0", id="bound"),
        pytest.param("get gone", True, "", id="gone"),
        pytest.param("get another", True, "", id="another of its name"),
    ],
)
def test_an_open_promise_is_settled_by_the_state_of_its_pod(told: str, known: bool, holds: str) -> None:
    driven = Driven().knows()
    driven.bind(*FENCED, "post unknown", "get same")
    [(node, intent)] = driven.locked.cache.assumed()
    assert driven.drive(driven.binding.settle(node, intent), told) is known
    assert driven.holds() == holds
    assert (driven.locked.cache.assumed() == []) is known


class TestWaitingForATurn:
    """The bind of q begins before the intent of p is written."""

    def both(self, driven: Driven) -> tuple[Steps[BindResult], Steps[BindResult]]:
        first, second = driven.asked("p"), driven.asked("q")
        for steps in (first, second):
            assert isinstance(steps.send(None), OneWriter)
        return first, second

    @pytest.fixture
    def driven(self) -> Driven:
        return Driven().knows().knows(Pod("q-1", 1))

    def written(self, steps: Steps[BindResult], outcome: Outcome[Any]) -> PutReservation:
        """The next write."""
        call = steps.send(outcome)
        assert isinstance(call, PutReservation)
        return call

    def test_both_see_that_the_gpus_are_taken(self, driven: Driven) -> None:
        first, second = self.both(driven)
        assert isinstance(first.send(Done(None)), GetReservation)
        read = SETTING.reservation("n", Written(5, (Held("r-1", "1", "g0", "you"),)))
        assert isinstance(first.send(Done(read)), PodsOn)
        assert ended(first, Done((SETTING.bound(Pod("s-1", 2, "n", "g1")),))).kind == "conflict"
        assert ended(second, Done(None)).kind == "conflict"

    def test_one_write_is_enough_for_both(self, driven: Driven) -> None:
        driven.locked.fence(Reservation("n", resource_version="5"), ())
        first, second = self.both(driven)
        wrote = self.written(first, Done(None))
        assert [intent.uid for intent in wrote.wanted.intents] == ["q-1", "p-1"]
        assert isinstance(first.send(Done(replace(wrote.wanted, resource_version="6"))), PostBinding)
        posted = second.send(Done(None))
        assert isinstance(posted, PostBinding)
        assert posted.reserved.devices == {"main": ("g1",)}

    def test_a_pod_placed_before_the_reservation_was_read_is_left_out(self, driven: Driven) -> None:
        first, second = self.both(driven)
        assert isinstance(first.send(Done(None)), GetReservation)
        assert isinstance(first.send(Done(None)), PodsOn)
        wrote = self.written(first, Done(()))
        assert [intent.uid for intent in wrote.wanted.intents] == ["p-1"]
        first.send(Done(replace(wrote.wanted, resource_version="6")))
        again = self.written(second, Done(None))
        assert [intent.uid for intent in again.wanted.intents] == ["p-1", "q-1"]

    def test_a_written_pod_without_time_left_holds_nothing(self, driven: Driven) -> None:
        driven.locked.fence(Reservation("n", resource_version="5"), ())
        first, second = self.both(driven)
        wrote = self.written(first, Done(None))
        first.send(Done(replace(wrote.wanted, resource_version="6")))
        assert ended(second, Unsent("")).kind == "failed"
        assert driven.holds() == "p on g0!"

    def test_where_the_write_failed_the_next_writes_for_itself(self, driven: Driven) -> None:
        driven.locked.fence(Reservation("n", resource_version="5"), ())
        first, second = self.both(driven)
        self.written(first, Done(None))
        ended(first, Unknown(""))
        assert isinstance(second.send(Done(None)), GetReservation)

    def test_no_more_are_written_than_there_is_room_for(self, driven: Driven) -> None:
        units = GpuRequest(units=(UnitRequest(WHOLE, 1),))
        held = tuple(
            Intent(replace(WHOLE_POD, uid=f"s-{i}", request=GpuRequest()), "1", "you")
            for i in range(MAX_INTENTS - 1)
        )
        driven.locked.fence(Reservation("n", "", "5", held), ())
        driven.knows(pod=replace(WHOLE_POD, request=units))
        driven.knows(Pod("q-1", 1), pod=replace(WHOLE_POD, uid="q-1", name="q", request=units))
        first, second = self.both(driven)
        wrote = self.written(first, Done(None))
        assert len(wrote.wanted.intents) == MAX_INTENTS
        assert wrote.wanted.intents[-1].uid == "p-1"
        first.send(Done(replace(wrote.wanted, resource_version="6")))
        assert ended(second, Done(None)) == BindResult(
            "failed", "pod ns/q was not bound: too many pods are being bound to node n"
        )
        assert "q on" not in driven.holds()
