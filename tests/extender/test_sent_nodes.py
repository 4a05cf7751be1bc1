"""Requests with whole Node objects, as cluster-autoscaler sends the templates of its groups: judged by their
content and the inventory, which stays unchanged.

It copies a node of the group. The copy has another name, uid and hostname, one label more, and no startup
taints (simulator/node_info_utils.go).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest

from scheduler_ext.core.errors import RequestError
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, InventorySection
from tests.extender.preempting import extender_on, infos_of, until
from tests.kube_objects import (
    ANNOTATION,
    GFD_H100,
    SHARE,
    Json,
    gpu,
    gpu_node,
    holder,
    names_body,
    node,
    nodes_body,
    pod,
)

WHOLE = "nvidia.com/gpu"
HALF = "nvidia.com/mig-3g.40gb"
ONE = pod("p", {WHOLE: "1"})
STALE = "node(s) had no fresh GPU inventory"
MODEL = "node(s) didn't match the requested GPU model"
PLACES = "node(s) had no free MIG placement"
SHORT = "Insufficient nvidia.com/gpu per device"
MEMORY = "Insufficient GPU memory on one device"

KNOWN = [
    node("n", {WHOLE: "2", SHARE: "70000"}, uid="u1"),
    gpu_node("n", [gpu(0, holders=[holder("a")]), gpu(1)]),
    pod("a", {WHOLE: "1"}, on="n"),
    gpu_node("no-node-object", [gpu(0)]),
]


@pytest.fixture
def extender() -> Extender:
    return extender_on(*KNOWN)


def filtered(extender: Extender, asking: Json, *nodes: Json) -> tuple[list[Any], dict[str, str]]:
    """(the Node objects that fit, the names of the others with reasons); the snapshot stays the same."""
    before = extender.snapshot
    reply: dict[str, Any] = json.loads(extender.filter(nodes_body(asking, nodes), until()).body)
    assert reply["NodeNames"] is None
    assert (reply["FailedNodes"], reply["Error"]) == ({}, "")
    assert extender.snapshot is before
    return reply["Nodes"]["items"], reply["FailedAndUnresolvableNodes"]


def reason(extender: Extender, asking: Json, sent: Json) -> str:
    """Empty if the node takes the pod."""
    _, refused = filtered(extender, asking, sent)
    return refused.get(sent["metadata"]["name"], "")


def model(name: str, limits: Json) -> Json:
    return pod("p", limits, annotations={f"{ANNOTATION}model": name})


def test_a_known_node_is_judged_with_our_devices_and_holdings(extender: Extender) -> None:
    sent = node("n", {WHOLE: "2"}, uid="u1", labels=GFD_H100 | {"nvidia.com/gpu.memory": "81920"})
    assert filtered(extender, ONE, sent) == ([sent], {})
    assert filtered(extender, pod("p", {WHOLE: "2"}), sent) == ([], {"n": SHORT})
    assert filtered(extender, model("A100", {WHOLE: "1"}), sent) == ([sent], {})


@pytest.mark.parametrize("freshness", ["Stale", "Missing"])
def test_a_sent_node_is_judged_by_the_age_of_our_report(extender: Extender, freshness: str) -> None:
    extender.replace_nodes(replace(info, freshness=freshness) for info in infos_of(*KNOWN).values())
    fitting, refused = filtered(extender, ONE, node("n", {WHOLE: "2"}, uid="u1"), node("new", {WHOLE: "2"}))
    assert [item["metadata"]["name"] for item in fitting] == ["new"]
    assert refused == {"n": STALE}


@pytest.mark.parametrize(
    ("asking", "allocatable", "labels", "expected"),
    [
        pytest.param(ONE, {WHOLE: "1"}, {}, SHORT, id="one of two GPUs, which is held"),
        pytest.param(ONE, {}, {}, SHORT, id="no GPU"),
        pytest.param(pod("p", {SHARE: "60000"}), {SHARE: "60000"}, {}, "", id="enough for a share"),
        pytest.param(pod("p", {SHARE: "60000"}), {SHARE: "59999"}, {}, MEMORY, id="too little for a share"),
        pytest.param(
            ONE,
            {WHOLE: "2"},
            {"nvidia.com/mig.config.state": "pending"},
            "node(s) had a GPU change in progress",
            id="the labels of a change",
        ),
        # Amounts of other resources are never looked at.
        pytest.param(ONE, {WHOLE: "2", "cpu": "lots", "example.com/x": []}, {}, "", id="what nobody reads"),
    ],
)
def test_a_sent_node_is_limited_by_what_it_says(
    extender: Extender, asking: Json, allocatable: Json, labels: Json, expected: str
) -> None:
    assert reason(extender, asking, node("n", allocatable, uid="u1", labels=labels)) == expected


def test_a_node_of_the_same_name_but_another_uid_is_what_its_labels_say(extender: Extender) -> None:
    template = node("n", {WHOLE: "8"}, uid="template", labels=GFD_H100)
    assert reason(extender, pod("p", {WHOLE: "8"}), template) == ""
    assert reason(extender, pod("p", {WHOLE: "9"}), template) == SHORT
    assert reason(extender, pod("p", {SHARE: "100"}), template) == STALE


def test_where_our_inventory_knows_no_uid_the_name_decides(extender: Extender) -> None:
    sent = node("no-node-object", {WHOLE: "1"}, uid="any")
    assert reason(extender, model("A100", {WHOLE: "1"}), sent) == ""


@pytest.mark.parametrize("unreported", ["allow", "refuse"])
def test_a_template_takes_instances_where_nodes_without_a_report_do(
    unreported: Literal["allow", "refuse"],
) -> None:
    built = extender_on(*KNOWN, config=Configuration(inventory=InventorySection(unreported=unreported)))
    template = node("template", {"nvidia.com/mig-1g.10gb": "7"})
    asking = pod("p", {"nvidia.com/mig-1g.10gb": "1"})
    assert reason(built, asking, template) == ("" if unreported == "allow" else STALE)


def test_prioritize_answers_for_exactly_the_nodes_sent(extender: Extender) -> None:
    sent = [node("template", {WHOLE: "8"}, labels=GFD_H100), node("n", {WHOLE: "2"}, uid="u1"), node("cpu")]
    before = extender.snapshot
    reply = json.loads(extender.prioritize(nodes_body(ONE, sent), until()).body)
    assert [entry["Host"] for entry in reply] == ["template", "n", "cpu"]
    scores = {entry["Host"]: entry["Score"] for entry in reply}
    # An estimated node never ranks above a reported one.
    assert scores["n"] == 10
    assert scores["template"] < 10
    assert scores["cpu"] == 0
    assert extender.snapshot is before


def test_sent_nodes_are_forgotten(extender: Extender) -> None:
    filtered(extender, ONE, node("template", {WHOLE: "8"}, labels=GFD_H100))
    reply = json.loads(extender.filter(names_body(ONE, ["template", "n"]), until()).body)
    assert reply["NodeNames"] == ["n"]
    assert reply["FailedAndUnresolvableNodes"] == {"template": STALE}


@pytest.mark.parametrize("amount", ["many", "--1", True, ["1"]])
def test_an_unreadable_amount_of_a_node_is_the_callers_fault(extender: Extender, amount: Any) -> None:
    with pytest.raises(RequestError, match=r"^Nodes\.items\[1\]\.status: nvidia\.com/gpu: ") as refusal:
        extender.filter(nodes_body(ONE, [node("a"), node("b", {WHOLE: amount})]), until())
    assert refusal.value.status == 400


def template(group: str, allocatable: Json, labels: Json) -> Json:
    """The template of a group, from the labels and resources of its nodes."""
    name = f"template-node-for-{group}-5577006791947779410"
    own = {"kubernetes.io/hostname": name, "cluster-autoscaler.kubernetes.io/template-node": "true"}
    return node(name, allocatable, uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8", labels=labels | own)


A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
SHARED = A100 | {"gpu.scheduler-ext.io/sharing": "memory", "nvidia.com/gpu.count": "2"}
# Two GPUs less their headroom.
SHARED_MIB = "147456"
TEMPLATES = {
    "h100": template("h100", {WHOLE: "2"}, GFD_H100 | {"nvidia.com/gpu.count": "2"}),
    "halves": template("mig", {HALF: "4", WHOLE: "0"}, A100 | {"nvidia.com/mig.strategy": "mixed"}),
    "shares": template("shares", {SHARE: SHARED_MIB}, SHARED),
}
on_templates = pytest.mark.parametrize(
    ("sent", "asking", "expected"),
    [
        pytest.param("h100", pod("p", {WHOLE: "2"}), "", id="its GPUs are free"),
        pytest.param("h100", pod("p", {WHOLE: "3"}), SHORT, id="more GPUs than a node has"),
        pytest.param("h100", model("T4", {WHOLE: "1"}), MODEL, id="another model"),
        pytest.param("halves", pod("p", {HALF: "4"}), "", id="all its instances"),
        pytest.param("halves", pod("p", {HALF: "5"}), PLACES, id="more instances"),
        pytest.param("halves", model("H100", {HALF: "1"}), MODEL, id="instances of another model"),
        pytest.param("shares", pod("p", {SHARE: "73728"}), "", id="a share of a whole GPU"),
        pytest.param("shares", pod("p", {SHARE: "73729"}), MEMORY, id="a share that needs two GPUs"),
        pytest.param("shares", model("H100", {SHARE: "8192"}), MODEL, id="a share of another model"),
    ],
)


@on_templates
def test_a_template_is_the_empty_node_that_it_stands_for(
    extender: Extender, sent: str, asking: Json, expected: str
) -> None:
    assert reason(extender, asking, TEMPLATES[sent]) == expected


@pytest.mark.parametrize(
    "sent",
    [
        # kube-scheduler with nodeCacheCapable false sends it without the label of a template.
        pytest.param(
            node("s", {SHARE: SHARED_MIB}, labels=SHARED), id="a node that exists, without a report"
        ),
        pytest.param(
            template("shares", {SHARE: SHARED_MIB}, {"gpu.scheduler-ext.io/sharing": "memory"}),
            id="a group whose labels lack the memory",
        ),
    ],
)
def test_no_shares_on(extender: Extender, sent: Json) -> None:
    assert reason(extender, pod("p", {SHARE: "8192"}), sent) == STALE
