"""Events in, the state of each node out: against a model of a few dictionaries, and case by case."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.core.node.estimate import Caps, Estimate
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from tests.core.cache.seen import MISSING_S, STALE_S, cache_with, info_of
from tests.core.reported import SHARE, WHOLE, bound, device, wants

ONE, TWO = Report((device(0),)), Report((device(0), device(1)))
ESTIMATE = Estimate("nvidia", canonical_model("H100"), 8)
RECORDS = (
    NodeRecord("first", {WHOLE: 2}),
    NodeRecord("first", {WHOLE: 2}, ESTIMATE),
    NodeRecord("second", {WHOLE: 1}, ESTIMATE, caps=Caps(count=1)),
    NodeRecord("second", {}, replace(ESTIMATE, vendor="amd"), spot=True),
    NodeRecord(None, {}, changing=True),
)
REPORTS = (ONE, TWO, replace(ONE, sequence=7, reported_at="later"))
NAMES = st.sampled_from(("a", "b"))
UIDS = st.sampled_from("pqrstu")
AGES_S = st.sampled_from((0.0, 1.0, 100.0, 149.0, 150.0, 299.0, 300.0, 1000.0))


def pod(uid: str, count: int) -> BoundPod:
    return replace(bound(uid, wants(count, WHOLE)), uid=uid)


@dataclass
class Told:
    """A report as the model keeps it."""

    report: Report
    received_at: float
    owner: str | None


class Model(RuleBasedStateMachine):
    """The last value of every object, and the consequences by the rules of the reference."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.allow = False
        self.inventory = Cache(STALE_S, MISSING_S)
        self.records: dict[str, NodeRecord] = {}
        self.since: dict[str, float] = {}
        self.reports: dict[str, Told] = {}
        self.pods: dict[str, tuple[str, BoundPod]] = {}
        self.gone: set[str] = set()
        self.departed: dict[str, tuple[str, BoundPod, float]] = {}
        self.shown: dict[str, NodeInfo | None] = {}

    @initialize(allow=st.booleans())
    def begin(self, allow: bool) -> None:
        self.allow = allow
        self.inventory = Cache(STALE_S, MISSING_S, allow_unreported=allow)

    @rule(name=NAMES, record=st.sampled_from(RECORDS))
    def update_node(self, name: str, record: NodeRecord) -> None:
        if name not in self.records or self.records[name].uid != record.uid:
            self.since[name] = self.now
        self.records[name] = record
        self.inventory.update_node(name, record, self.now)

    @rule(name=NAMES)
    def remove_node(self, name: str) -> None:
        self.records.pop(name, None)
        self.inventory.remove_node(name)

    @rule(
        name=NAMES,
        report=st.sampled_from(REPORTS),
        age_s=AGES_S,
        owner=st.sampled_from((None, "first", "second")),
    )
    def update_report(self, name: str, report: Report, age_s: float, owner: str | None) -> None:
        self.reports[name] = Told(report, self.now - age_s, owner)
        self.inventory.update_report(name, report, self.now - age_s, self.now, owner)
        self.arrived(name, self.now - age_s)

    def arrived(self, name: str, received_at: float) -> None:
        """A report from before a pod's departure does not confirm it; nor does one from the moment after."""
        for uid, (node, _, gone_at) in list(self.departed.items()):
            if node == name and received_at >= gone_at + 2.0:
                del self.departed[uid]

    @rule(name=NAMES)
    def remove_report(self, name: str) -> None:
        if self.reports.pop(name, None) is not None:
            self.arrived(name, float("inf"))
        self.inventory.remove_report(name, self.now)

    @rule(uid=UIDS, node=NAMES, count=st.integers(1, 2))
    def confirm(self, uid: str, node: str, count: int) -> None:
        if uid not in self.gone:
            self.pods[uid] = (node, pod(uid, count))
        self.inventory.confirm(pod(uid, count), node, self.now)

    @rule(uid=UIDS)
    def remove_pod(self, uid: str) -> None:
        if uid in self.pods:
            node, left = self.pods.pop(uid)
            self.gone.add(uid)
            if node in self.reports:
                self.departed[uid] = (node, replace(left, departed=True), self.now)
        self.inventory.remove_pod(uid, self.now)

    @rule(seconds=st.sampled_from((1.0, 49.0, 150.0, 151.0, 300.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.inventory.tick(self.now)

    def told(self, name: str) -> Told | None:
        """The report that counts; a report of a former node of that name does not."""
        told, record = self.reports.get(name), self.records.get(name)
        if told is None or (record is not None and told.owner not in (None, record.uid)):
            return None
        return told

    def expected(self, name: str) -> NodeInfo | None:
        record, told = self.records.get(name), self.told(name)
        if record is None:
            return None
        left = {uid: (node, pod) for uid, (node, pod, _) in self.departed.items()}
        pods = sorted((uid, pod) for uid, (node, pod) in (left | self.pods).items() if node == name)
        freshness = "Fresh"
        if told is not None:
            age_s = self.now - told.received_at
            freshness = "Fresh" if age_s < STALE_S else "Stale" if age_s < MISSING_S else "Missing"
        elif record.estimate is not None and record.estimate.vendor == "nvidia":
            freshness = "Fresh" if self.now - self.since[name] < MISSING_S else "Missing"
        report = told.report if told is not None else None
        if report is not None and record.caps.count is not None:
            report = replace(report, devices=report.devices[: record.caps.count])
        return NodeInfo(
            name,
            uid=record.uid,
            report=report,
            estimate=record.estimate if told is None else None,
            freshness=freshness,
            allocatable=record.allocatable,
            spot=record.spot,
            changing=record.changing,
            pods=tuple(pod for _, pod in pods),
            by_allocatable=self.allow
            and (told is not None or record.estimate is not None)
            and (told is None or freshness != "Fresh"),
            agent_label=record.agent_label,
            capacity=record.capacity,
        )

    @invariant()
    def agrees(self) -> None:
        for name in "ab":
            assert self.inventory.info(name) == self.expected(name)
            told = self.told(name)
            age_s = self.inventory.ages(self.now).get(name)
            assert age_s == (None if told is None else self.now - told.received_at)
        assert {info.name for info in self.inventory.infos()} == self.inventory.nodes() == set(self.records)
        assert self.inventory.reports() == set(self.reports)
        assert self.inventory.holding() == {uid: node for uid, (node, _) in self.pods.items()}

    @invariant()
    def tells_every_change(self) -> None:
        """A reader of the changes alone sees the whole state."""
        for name in self.inventory.take_changes():
            self.shown[name] = self.inventory.info(name)
        for name in "ab":
            shown, real = self.shown.get(name), self.inventory.info(name)
            assert (shown is None) == (real is None)
            if shown is not None and real is not None:
                assert _undated(shown) == _undated(real)

    @invariant()
    def forgets(self) -> None:
        assert set(self.inventory._entries) == {*self.records, *self.reports}
        left = {node for node, _, _ in self.departed.values()}
        assert set(self.inventory._accounts) == {*left, *(node for node, _ in self.pods.values())}


def _undated(info: NodeInfo) -> NodeInfo:
    """Without the report's own times, which do not affect decisions."""
    report = info.report and replace(info.report, sequence=None, reported_at=None)
    return replace(info, report=report)


Model.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestAgainstAModel = Model.TestCase


class TestCauses:
    """The reason for a node's change decides who is notified."""

    def inventory(self) -> Cache:
        return cache_with(device(0), pods=[pod("p", 1)])

    def test_nothing_new_is_no_change(self) -> None:
        built = self.inventory()
        built.update_node("a", NodeRecord("uid-a", {WHOLE: 1}), 30.0)
        built.update_report("a", replace(ONE, sequence=8, reported_at="now"), 30.0, 30.0)
        built.confirm(pod("p", 1), "a", 0.0)
        built.remove_pod("unheard of", 30.0)
        built.remove_node("unheard of")
        built.remove_report("unheard of", 30.0)
        built.tick(30.0)
        assert built.take_changes() == {}

    def test_readings_alone_are_no_change(self) -> None:
        built = self.inventory()
        built.update_report("a", ONE, 30.0, 30.0, readings=(Readings("GPU-0", 93),))
        assert built.take_changes() == {}
        assert built.readings() == {"a": (Readings("GPU-0", 93),)}
        built.remove_report("a", 30.0)
        assert built.readings() == {}

    def test_every_kind_of_change_has_its_cause(self) -> None:
        built = self.inventory()
        built.update_report("a", TWO, 0.0, 0.0)
        assert built.take_changes() == {"a": Cause.REPORT}
        built.tick(STALE_S)
        assert built.take_changes() == {"a": Cause.AGE}
        built.update_report("a", TWO, STALE_S, STALE_S)
        assert built.take_changes() == {"a": Cause.AGE}
        built.remove_pod("p", 0.0)
        assert built.take_changes() == {"a": Cause.POD}
        built.update_node("a", RECORDS[0], STALE_S)
        built.confirm(pod("q", 1), "b", 0.0)
        assert built.take_changes() == {"a": Cause.NODE, "b": Cause.POD}

    def test_several_causes_add_up(self) -> None:
        built = self.inventory()
        built.remove_pod("p", 0.0)
        built.update_report("a", TWO, 1.0, 1.0)
        built.remove_node("a")
        assert built.take_changes() == {"a": Cause.POD | Cause.REPORT | Cause.NODE}

    def test_the_same_report_may_turn_out_to_be_of_this_node(self) -> None:
        built = self.inventory()
        built.update_report("a", ONE, 0.0, 0.0, "another")
        assert built.take_changes() == {"a": Cause.REPORT}
        built.update_report("a", ONE, 0.0, 0.0, "uid-a")
        assert built.take_changes() == {"a": Cause.REPORT}


def test_a_node_that_is_seen_late_gets_no_more_time() -> None:
    built = Cache(STALE_S, MISSING_S)
    for name, created_at in (("old", -3600.0), ("new", -299.0), ("unknown", None), ("to come", 50.0)):
        built.update_node(name, RECORDS[1], 0.0, created_at)
    states = {info.name: info.freshness for info in built.infos()}
    assert states == {"old": "Missing", "new": "Fresh", "unknown": "Fresh", "to come": "Fresh"}
    # What it was created with is not asked again.
    built.update_node("old", RECORDS[1], 10.0, 10.0)
    built.tick(300.0)
    assert {info.freshness for info in built.infos()} == {"Missing"}


@pytest.mark.parametrize(
    ("record", "enforced"),
    [
        pytest.param(NodeRecord("n", {SHARE: 5000}, share_node=True), 5000, id="a node of shares"),
        pytest.param(NodeRecord("n", {SHARE: 5000}), 0, id="one that is not labelled"),
        pytest.param(NodeRecord("n", {WHOLE: 1}), None, id="one that advertises none"),
        pytest.param(NodeRecord("n", {"my/mib": 5000, SHARE: 5000}), 0, id="under another name"),
    ],
)
def test_where_shares_are_bound_only_nodes_of_shares_have_any(
    record: NodeRecord, enforced: int | None
) -> None:
    """An amount on any other node belongs to another pod, or is not removed yet."""
    name = "my/mib" if "my/mib" in record.allocatable else SHARE
    for enforcing in (True, False):
        built = Cache(STALE_S, MISSING_S, ResourceNames(share=name), enforcing)
        built.update_node("a", record, 0.0)
        changed = {} if enforced is None or not enforcing else {name: enforced}
        assert info_of(built).allocatable == {**record.allocatable, **changed}


def test_several_bindings_of_one_pod_hold_the_same_devices_once() -> None:
    """At most one of them succeeds; those with other devices count beside it."""
    inventory = cache_with(device(0), device(1))
    for version in ("1", "2"):
        inventory.assume(Intent(pod("p", 1), version, "me"), "a")
    assert [each.uid for each in info_of(inventory).pods] == ["p"]
    elsewhere = replace(pod("p", 1), devices={"main": ("GPU-1",)})
    inventory.update_intents("a", [Intent(elsewhere, "3", "you")])
    assert [each.devices for each in info_of(inventory).pods] == [{}, {"main": ("GPU-1",)}]
