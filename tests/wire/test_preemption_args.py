"""extender/v1 preempt bodies as Go writes them, and malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.wire.extender_args import Proposal, decode_preemption, encode_victims

GOLDEN = Path(__file__).parents[1] / "golden"


def body(**fields: Any) -> bytes:
    return json.dumps({"Pod": {}, "NodeNameToVictims": None, "NodeNameToMetaVictims": None} | fields).encode()


def meta(victims: Any) -> bytes:
    return body(NodeNameToMetaVictims={"n": victims})


def full(victims: Any) -> bytes:
    return body(NodeNameToVictims={"n": victims})


def refusal_of(sent: bytes) -> str:
    with pytest.raises(RequestError) as refusal:
        _ = decode_preemption(sent).pod
    assert refusal.value.status == 400
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def golden(case: str) -> Proposal:
    """What kube-scheduler proposed for the first of its eight nodes."""
    args = decode_preemption((GOLDEN / f"{case}-11-preempt.preempt.json").read_bytes())
    assert args.pod.metadata is not None
    assert args.pod.metadata.name == "high8"
    assert list(args.proposals) == [f"gpu-node-0{i}" for i in range(8)]
    return args.proposals["gpu-node-00"]


def test_kube_scheduler_sends_uids_where_nodes_are_cached_and_else_pods() -> None:
    uids = ("8fea3f13-a280-4b0b-b4ce-f859675dee52", "71582616-13d1-4118-95c6-9de0419cb02b")
    assert golden("cache") == Proposal(uids)
    first = golden("full")
    assert first.uids == ("4c6b3ed4-0a68-4fe1-b889-c3e3d6a975e6", "9c816b8d-6f57-4cd3-9877-323ec64a2627")
    assert [pod.spec.priority for pod in first.pods if pod.spec] == [100, 10]
    assert [pod.metadata.uid for pod in first.pods if pod.metadata] == list(first.uids)


@pytest.mark.parametrize(
    ("sent", "proposals"),
    [
        pytest.param(body(), {}, id="both forms null"),
        pytest.param(
            b'{"Pod":{},"NodeNameToVictims":{},"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}]}}}',
            {"n": Proposal(("u",))},
            id="one empty",
        ),
        pytest.param(meta(None), {"n": Proposal()}, id="null victims"),
        pytest.param(meta({"Pods": None, "NumPDBViolations": None}), {"n": Proposal()}, id="a null list"),
        pytest.param(
            meta({"Pods": [{"UID": "b"}, {"UID": "a"}], "NumPDBViolations": 2}),
            {"n": Proposal(("b", "a"), 2)},
            id="uids in their order, and violations",
        ),
        pytest.param(
            body(NodeNameToMetaVictims={"n": {"Pods": [{"UID": "a", "x": 1}], "y": []}}, Future=1),
            {"n": Proposal(("a",))},
            id="unknown fields are skipped",
        ),
    ],
)
def test_null_and_missing_parts_are_empty(sent: bytes, proposals: dict[str, Proposal]) -> None:
    assert decode_preemption(sent).proposals == proposals


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        pytest.param(b"{}", "Pod: missing; send an extender/v1 ExtenderPreemptionArgs", id="an empty object"),
        pytest.param(body(Pod={"spec": {"priority": "x"}}), "Pod.spec.priority", id="the pod's priority"),
        pytest.param(
            meta({"Pods": [{"UID": "a"}, {"UID": 5}]}), "NodeNameToMetaVictims.n.Pods[1].UID", id="a number"
        ),
        pytest.param(meta({"Pods": [{}]}), "NodeNameToMetaVictims.n.Pods[0].UID: missing", id="no uid"),
        pytest.param(
            meta({"NumPDBViolations": 2**31}),
            "NodeNameToMetaVictims.n.NumPDBViolations",
            id="more violations than pods",
        ),
        pytest.param(
            full({"NumPDBViolations": -1}),
            "NodeNameToVictims.n.NumPDBViolations",
            id="fewer violations than none",
        ),
        pytest.param(
            full({"Pods": [{}]}), "NodeNameToVictims.n.Pods[0].metadata.uid: missing", id="a pod without uid"
        ),
        pytest.param(
            full({"Pods": [{"metadata": {"uid": "a"}, "spec": {"containers": {}}}]}),
            "NodeNameToVictims.n.Pods[0].spec.containers",
            id="a victim's containers",
        ),
        pytest.param(
            body(NodeNameToMetaVictims={"n" * 9999: []}), "NodeNameToMetaVictims.nnn", id="a name of no end"
        ),
    ],
)
def test_an_unreadable_request_is_refused_with_the_path_of_the_field(sent: bytes, where: str) -> None:
    assert refusal_of(sent).startswith(where)


def test_the_reply_has_the_keys_of_go() -> None:
    assert encode_victims({"n": Victims(("b", "a"), 1), "m": Victims(("c",), 0)}) == (
        b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"b"},{"UID":"a"}],"NumPDBViolations":1},'
        b'"m":{"Pods":[{"UID":"c"}],"NumPDBViolations":0}}}'
    )


@given(
    st.dictionaries(
        st.text('aü"', max_size=5),
        st.builds(Victims, st.lists(st.text("bü\\", max_size=3), max_size=3).map(tuple), st.integers(0, 9)),
        max_size=4,
    )
)
def test_no_null_and_no_empty_list_is_ever_written(chosen: dict[str, Victims]) -> None:
    written = json.loads(encode_victims(chosen))["NodeNameToMetaVictims"]
    assert {name: tuple(pod["UID"] for pod in each["Pods"]) for name, each in written.items()} == {
        name: victims.uids for name, victims in chosen.items() if victims.uids
    }
