"""The extender's promises to kube-scheduler for any request."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.filters import REASONS
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, FilterSection
from tests.extender.preempting import asks_shares, extender_on, on_share, share_node, tell, until
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, names_body, node, pod

WHOLE = "nvidia.com/gpu"
INVALID = "pod's GPU request is invalid"
UNKNOWN = "node(s) had no fresh GPU inventory"
TEXTS = {reason.text for reason in REASONS}

CLUSTER: list[Json] = [
    *(gpu_node(f"a100-{i}", [gpu(0), gpu(1)]) for i in range(4)),
    *(gpu_node(f"t4-{i}", [gpu(0, model="T4", total=15360)]) for i in range(3)),
    gpu_node("busy", [gpu(0, holders=[holder("p")]), gpu(1)]),
    pod("p", {WHOLE: "1"}, on="busy"),
    gpu_node("sick", [gpu(0, health={"state": "Unhealthy", "reason": "XID 79"})]),
    node("cpu"),
]
KNOWN = sorted(item["metadata"]["name"] for item in CLUSTER if item["kind"] != "Pod")


def filtered(extender: Extender, body: bytes, *, best_only: bool = False) -> tuple[list[str], dict[str, str]]:
    """(nodes that fit, nodes that do not with reasons)"""
    reply: dict[str, Any] = json.loads(extender.filter(body, until(), best_only=best_only).body)
    assert (reply["Nodes"], reply["FailedNodes"], reply["Error"]) == (None, {}, "")
    return reply["NodeNames"], reply["FailedAndUnresolvableNodes"]


def scored(extender: Extender, body: bytes) -> list[tuple[str, int]]:
    return [(entry["Host"], entry["Score"]) for entry in json.loads(extender.prioritize(body, until()).body)]


ASKS = [
    pod("whole", {WHOLE: "1"}),
    pod("two", {WHOLE: "2"}),
    pod("share", {SHARE: "14000"}),
    pod("big-share", {SHARE: "60000"}),
    pod("slice", {"nvidia.com/mig-1g.10gb": "1"}),
    pod("wish", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/model": "T4"}),
    pod("none"),
    pod("soft", {WHOLE: "1"}, topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]),
    pod("bad", {WHOLE: "-1"}),
]
NAMES = st.lists(st.sampled_from([*KNOWN, "unknown", "", "ü" * 100]), max_size=30)


@settings(max_examples=60)
@given(asking=st.sampled_from(ASKS), names=NAMES, max_candidates=st.sampled_from([0, 1, 2, 100]))
def test_every_node_asked_about_gets_exactly_one_answer(
    asking: Json, names: list[str], max_candidates: int
) -> None:
    extender = extender_on(
        *CLUSTER, config=Configuration(filter=FilterSection(max_candidates=max_candidates))
    )
    body = names_body(asking, names)
    fitting, refused = filtered(extender, body)
    assert set(refused.values()) <= TEXTS
    assert not set(fitting) & set(refused)
    withheld = len(names) - len(fitting) - sum(name in refused for name in names)
    if max_candidates == 0 or asking["metadata"]["name"] in ("none", "soft"):
        # A pod without a GPU request fits every node, and kube-scheduler decides by soft preferences.
        assert fitting == [name for name in names if name not in refused]
        assert withheld == 0
    else:
        in_order = iter(names)
        assert all(name in in_order for name in fitting)
        assert len(fitting) <= max_candidates
        assert withheld == 0 or len(fitting) == max_candidates
    assert [name for name, _ in scored(extender, body)] == names


@settings(max_examples=60)
@given(asking=st.sampled_from(ASKS), names=NAMES)
def test_the_best_nodes_are_those_with_ten_points(asking: Json, names: list[str]) -> None:
    extender = extender_on(*CLUSTER)
    body = names_body(asking, names)
    fitting, refused = filtered(extender, body)
    best, refused_too = filtered(extender, body, best_only=True)
    assert refused_too == refused
    if asking["metadata"]["name"] in ("none", "soft"):
        # kube-scheduler decides among all nodes.
        assert best == fitting
    else:
        assert best == [name for name, score in scored(extender, body) if score == 10]


def test_nodes_that_differ_by_less_than_a_step_get_equal_points() -> None:
    """One more GPU is idle on the larger node, which is little for a share."""
    objects = [
        *share_node("small", 2),
        *share_node("large", 3),
        *(on_share(f"on-{name}", 20_000, name, 0) for name in ("small", "large")),
    ]
    body = names_body(asks_shares("p", 20_000), ["small", "large"])
    assert scored(extender_on(*objects), body) == [("small", 10), ("large", 10)]


def test_an_invalid_pod_fits_nowhere_and_is_no_error() -> None:
    asking = pod("p", {SHARE: "8Gi"})
    extender = extender_on(*CLUSTER)
    names = ["a100-0", "cpu", "unknown"]
    answer = extender.filter(names_body(asking, names), until())
    assert json.loads(answer.body)["FailedAndUnresolvableNodes"] == dict.fromkeys(names, INVALID)
    assert (answer.nodes_in, answer.nodes_out, answer.rejected) == (3, 0, {INVALID: 3})
    assert answer.problem is not None
    assert answer.problem.startswith("pod default/p: ")
    assert "8192 means 8 GiB" in answer.problem
    assert scored(extender, names_body(asking, names)) == [(name, 0) for name in names]


def test_reply_and_counts_name_the_resource_of_the_pod() -> None:
    answer = extender_on(*CLUSTER).filter(names_body(pod("p", {"amd.com/gpu": "1"}), ["cpu"]), until())
    assert json.loads(answer.body)["FailedAndUnresolvableNodes"] == {
        "cpu": "Insufficient amd.com/gpu per device"
    }
    assert answer.rejected == {"Insufficient amd.com/gpu per device": 1}


def test_a_valid_pod_has_no_problem() -> None:
    answer = extender_on(*CLUSTER).filter(names_body(ASKS[0], ["a100-0", "sick", "cpu"]), until())
    assert answer == Answer(
        answer.body, 3, 1, {"node(s) had unhealthy GPUs": 1, "Insufficient nvidia.com/gpu per device": 1}
    )


ASKED = names_body(ASKS[0], ["a100-0"])
WRONG_TYPE = names_body(pod("p", {WHOLE: True}), ["a100-0"])


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(
    ("extender", "body", "within_s", "status", "problem"),
    [
        pytest.param(Extender(Configuration()), ASKED, 60, 503, "no inventory yet", id="no inventory yet"),
        pytest.param(extender_on(*CLUSTER), ASKED, -0.001, 503, "deadline exceeded", id="past the deadline"),
        pytest.param(extender_on(*CLUSTER), b"{", 60, 400, "^body: ", id="a body that is no request"),
        pytest.param(
            extender_on(*CLUSTER),
            WRONG_TYPE,
            60,
            400,
            r"^Pod\.spec: container 'main': nvidia\.com/gpu: expected",
            id="JSON of the wrong type",
        ),
    ],
)
def test_a_request_that_gets_no_answer(
    extender: Extender, body: bytes, within_s: float, status: int, problem: str, verb: str
) -> None:
    with pytest.raises(RequestError, match=problem) as refusal:
        getattr(extender, verb)(body, time.monotonic() + within_s)
    assert refusal.value.status == status


def test_a_new_inventory_is_seen_at_once() -> None:
    body = names_body(pod("p", {WHOLE: "2"}), ["n"])
    extender = extender_on(gpu_node("n", [gpu(0), gpu(1)]))
    assert filtered(extender, body)[0] == ["n"]
    before = extender.snapshot
    tell(extender, gpu_node("n", [gpu(0), gpu(1, holders=[holder("stranger")])]))
    assert filtered(extender, body)[1] == {"n": "Insufficient nvidia.com/gpu per device"}
    assert scored(extender, body) == [("n", 0)]
    tell(extender)
    assert filtered(extender, body)[1] == {"n": UNKNOWN}
    assert before is not None
    assert extender.snapshot is not None
    assert extender.snapshot.generation == before.generation + 2


def test_a_hundred_thousand_long_names_are_answered() -> None:
    names = [f"{i:06}".ljust(253, "x") for i in range(100_000)]
    extender = extender_on(gpu_node(names[77], [gpu(0)]))
    body = names_body(ASKS[0], names)
    fitting, refused = filtered(extender, body)
    assert fitting == [names[77]]
    assert len(refused) == 99_999
    assert set(refused.values()) == {UNKNOWN}
    assert [name for name, score in scored(extender, body) if score == 10] == [names[77]]


def test_a_remembered_pod_is_distinguished_by_its_bytes() -> None:
    """Same uid and resourceVersion, another wish: never answered from memory."""
    extender = extender_on(*CLUSTER, config=Configuration(filter=FilterSection(max_candidates=0)))
    asked = pod("p", {WHOLE: "1"})
    asked["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    first = filtered(extender, names_body(asked, KNOWN))
    assert filtered(extender, names_body(asked, KNOWN)) == first
    asked["spec"]["containers"][0]["resources"]["limits"][WHOLE] = "1000"
    assert filtered(extender, names_body(asked, KNOWN))[0] == []
