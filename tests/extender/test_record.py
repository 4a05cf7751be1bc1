"""The record of decisions: its content for each answered request, and its bounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_ext.extender.answer import RecordedBind
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.record import Record, Recorded
from scheduler_ext.wire.config import Configuration, InspectionSection
from scheduler_ext.wire.redacted import read_redacted
from tests.extender.preempting import extender_on
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, names_body, node, pod

WHOLE = "nvidia.com/gpu"
FOREVER = float("inf")
NODES = [
    *(gpu_node("small", [gpu(0)]), node("small", {WHOLE: "1"})),
    *(gpu_node("large", [gpu(i) for i in range(8)]), node("large", {WHOLE: "8"})),
    *(gpu_node("other", [gpu(0, model="T4")]), node("other", {WHOLE: "1"})),
]
NAMES = ["small", "large", "other", "stranger"]


def ask(extender: Extender, asking: Json, names: list[str] | None = None) -> None:
    """kube-scheduler's requests for a pod: filter, then prioritize for the nodes that passed."""
    answer = extender.filter(names_body(asking, names or NAMES), FOREVER)
    extender.record.answered("filter", answer)
    passed = json.loads(answer.body)["NodeNames"]
    if passed:
        answer = extender.prioritize(names_body(asking, passed), FOREVER)
        extender.record.answered("prioritize", answer)


def kept(extender: Extender, name: str = "p") -> Recorded:
    found = extender.record.of("default", name)
    assert found is not None
    return found


def test_a_decision_is_remembered_with_its_reasons_and_its_best_nodes() -> None:
    extender = extender_on(*NODES)
    ask(extender, pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "A100-80GB"}))
    found = kept(extender)
    assert (found.filters, found.generation, found.nodes_in, found.nodes_out) == (1, 1, 4, 2)
    assert found.rejected == {
        "node(s) didn't match the requested GPU model": 1,
        "node(s) had no fresh GPU inventory": 1,
    }
    assert [candidate.node for candidate in found.candidates] == ["small", "large"]
    best = found.candidates[0]
    assert best.of == 2
    assert best.total == pytest.approx(sum(term.weight * term.value for term in best.terms))
    assert best.strongest[0].ahead >= best.strongest[-1].ahead > 0
    assert found.bound is None


def test_nodes_that_fit_are_counted_beyond_the_returned_ones() -> None:
    extender = extender_on(*NODES)
    asking = pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "A100-80GB"})
    extender.record.answered("filter", extender.filter(names_body(asking, NAMES), FOREVER, best_only=True))
    found = kept(extender)
    assert (found.nodes_out, found.fitting) == (1, 2)
    assert [candidate.node for candidate in found.candidates] == ["small", "large"]


def test_the_record_has_the_nodes_of_the_request() -> None:
    extender = extender_on(*NODES)
    ask(extender, pod("p", {WHOLE: "1"}), ["large", "stranger"])
    found = kept(extender)
    assert found.offered is not None
    asked = {name: (name in found.offered, found.offered.knows(name)) for name in NAMES}
    assert asked == {
        "small": (False, True),
        "large": (True, True),
        "other": (False, True),
        "stranger": (False, False),
    }


def test_the_next_try_replaces_the_last_one_and_is_counted() -> None:
    extender = extender_on(*NODES)
    ask(extender, pod("p", {WHOLE: "9"}))
    ask(extender, pod("p", {WHOLE: "9"}), ["small"])
    found = kept(extender)
    assert (found.filters, found.nodes_in, found.nodes_out, found.candidates) == (2, 1, 0, ())
    assert found.main_reason == "Insufficient nvidia.com/gpu per device"


def test_a_pod_of_the_same_name_is_another_one() -> None:
    extender = extender_on(*NODES)
    for uid in ("uid-1", "uid-2"):
        asking = pod("p", {WHOLE: "1"})
        asking["metadata"]["uid"] = uid
        ask(extender, asking)
    found = kept(extender)
    assert found.uid == "uid-2"
    assert extender.record.of_uid("uid-1") is not None


def test_the_pod_is_kept_without_what_no_decision_reads() -> None:
    extender = extender_on(*NODES)
    asking = pod("p", {SHARE: "8192"}, annotations={ANNOTATION + "model": "A100", "team": "SECRET"})
    asking["metadata"]["labels"] = {"a": "SECRET"}
    asking["spec"]["containers"][0] |= {
        "env": [{"name": "TOKEN", "value": "SECRET"}],
        "command": ["SECRET"],
        "image": "SECRET",
    }
    asking["spec"]["volumes"] = [
        {"name": "v", "secret": {"secretName": "SECRET"}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "SECRET"}},
    ]
    ask(extender, asking)
    found = kept(extender)
    assert b"SECRET" not in found.pod
    ask(extender, json.loads(found.pod))
    again = kept(extender)
    assert (again.pod, again.rejected, again.candidates) == (found.pod, found.rejected, found.candidates)
    assert read_redacted(found.pod).spec is not None


def bound(kind: str, node: str = "large", at: float = 1.0) -> RecordedBind:
    return RecordedBind(at, node, kind, "" if kind in ("bound", "repeated") else "why", {})


@pytest.mark.parametrize(
    ("kinds", "last"),
    [
        pytest.param(["bound"], "bound", id="it was bound"),
        pytest.param(["conflict", "bound"], "bound", id="a later bind goes on top"),
        pytest.param(["bound", "repeated"], "bound", id="a repeated one says less than the one before"),
        pytest.param(["repeated"], "repeated", id="unless nothing was before"),
    ],
)
def test_how_binds_ended_is_remembered(kinds: list[str], last: str) -> None:
    extender = extender_on(*NODES)
    ask(extender, pod("p", {WHOLE: "1"}))
    record = extender.record
    found = kept(extender)
    for kind in kinds:
        record.bound(found.uid, "default", "p", bound(kind))
    found = kept(extender)
    assert found.bound == bound(last)
    assert found.nodes_in == 4


def test_recent_entries_are_the_changed_ones_with_the_latest_first() -> None:
    extender = extender_on(*NODES)
    for name in ("a", "b", "c"):
        ask(extender, pod(name, {WHOLE: "1"}))
    record = extender.record
    assert [entry.name for entry in record.recent()] == ["c", "b", "a"]
    seen = record.recent(most=1)[0].number
    assert record.recent(seen) == []
    ask(extender, pod("a", {WHOLE: "1"}))
    assert [entry.name for entry in record.recent(seen)] == ["a"]
    assert [entry.name for entry in record.recent(most=2)] == ["a", "c"]


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    config = Configuration(inspection=InspectionSection(decisions=0))
    extender = extender_on(*NODES, config=config)
    ask(extender, pod("p", {WHOLE: "1"}))
    extender.record.bound("uid-p", "default", "p", bound("bound"))
    assert len(extender.record) == 0
    extender.record.start()
    extender.record.stop(1.0)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 60_000), st.booleans()), max_size=40),
    st.integers(1, 5),
    st.integers(2**16, 2**18),
)
def test_there_are_never_more_entries_nor_bytes_than_allowed(
    asked: list[tuple[int, int, bool]], most: int, most_bytes: int
) -> None:
    record = Record(most, most_bytes)
    extender = extender_on(*NODES)
    extender.record = record
    for number, padding, binds in asked:
        asking = pod(f"p{number}", {WHOLE: "1"}, annotations={ANNOTATION + "model": "x" * padding})
        ask(extender, asking, ["small"])
        if binds:
            record.bound(asking["metadata"]["uid"], "default", f"p{number}", bound("bound"))
        kept = list(record)
        assert len(kept) <= most
        assert sum(entry.size for entry in kept) <= most_bytes
        # Only existing pods are found by name.
        found = [record.of("default", f"p{i}") for i in range(13)]
        assert {entry.uid for entry in found if entry is not None} == {entry.uid for entry in kept}


def test_a_flood_between_two_readings_loses_the_oldest_alone() -> None:
    extender = extender_on(*NODES)
    for i in range(600):
        answer = extender.filter(names_body(pod(f"p{i}", {WHOLE: "1"}), ["small"]), FOREVER)
        extender.record.answered("filter", answer)
    names = [entry.name for entry in extender.record.recent(most=1000)]
    assert names == [f"p{i}" for i in reversed(range(88, 600))]
