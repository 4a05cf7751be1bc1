"""Requests with whole Node objects: judged by their content and the inventory, which stays unchanged."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, Literal

import pytest

from scheduler_ext.core.errors import RequestError
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, InventorySection
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, inventory, node, nodes_body, pod

WHOLE = "nvidia.com/gpu"
ONE = pod("p", {WHOLE: "1"})
TWO = pod("p", {WHOLE: "2"})
SHORT = "Insufficient nvidia.com/gpu per device"
STALE = "node(s) had no fresh GPU inventory"

KNOWN = [
    node("n", {WHOLE: "2", SHARE: "70000"}, uid="u1"),
    gpu_node("n", [gpu(0, holders=[holder("a")]), gpu(1)]),
    pod("a", {WHOLE: "1"}, on="n"),
    gpu_node("no-node-object", [gpu(0)]),
]


@pytest.fixture
def extender() -> Extender:
    built = Extender(Configuration())
    built.replace_nodes(assemble(read_objects(inventory(*KNOWN)), Configuration().resource_names()).values())
    return built


def filtered(extender: Extender, asking: Json, *nodes: Json) -> tuple[list[Any], dict[str, str]]:
    """(the Node objects that fit, the names of the others with reasons); the snapshot stays the same."""
    before = extender.snapshot
    reply: dict[str, Any] = json.loads(extender.filter(nodes_body(asking, nodes), time.monotonic() + 60).body)
    assert reply["NodeNames"] is None
    assert (reply["FailedNodes"], reply["Error"]) == ({}, "")
    assert extender.snapshot is before
    return reply["Nodes"]["items"], reply["FailedAndUnresolvableNodes"]


def test_a_known_node_is_judged_with_our_devices_and_holdings(extender: Extender) -> None:
    sent = node("n", {WHOLE: "2"}, uid="u1", labels=GFD_H100 | {"nvidia.com/gpu.memory": "81920"})
    assert filtered(extender, ONE, sent) == ([sent], {})
    assert filtered(extender, TWO, sent) == ([], {"n": SHORT})
    model = pod("p", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/model": "A100"})
    assert filtered(extender, model, sent) == ([sent], {})


@pytest.mark.parametrize("freshness", ["Stale", "Missing"])
def test_a_sent_node_is_judged_by_the_age_of_our_report(extender: Extender, freshness: str) -> None:
    infos = assemble(read_objects(inventory(*KNOWN)), Configuration().resource_names()).values()
    extender.replace_nodes(replace(info, freshness=freshness) for info in infos)
    fitting, refused = filtered(extender, ONE, node("n", {WHOLE: "2"}, uid="u1"), node("new", {WHOLE: "2"}))
    assert [item["metadata"]["name"] for item in fitting] == ["new"]
    assert refused == {"n": "node(s) had no fresh GPU inventory"}


def test_a_sent_node_is_limited_by_its_sent_allocatable(extender: Extender) -> None:
    assert filtered(extender, ONE, node("n", {WHOLE: "1"}, uid="u1")) == ([], {"n": SHORT})
    assert filtered(extender, ONE, node("n", {}, uid="u1")) == ([], {"n": SHORT})
    share = pod("p", {SHARE: "60000"})
    assert filtered(extender, share, node("n", {SHARE: "60000"}, uid="u1"))[1] == {}
    assert filtered(extender, share, node("n", {SHARE: "59999"}, uid="u1"))[1] == {
        "n": "Insufficient GPU memory on one device"
    }


def test_a_sent_node_is_judged_by_its_sent_labels(extender: Extender) -> None:
    sent = node("n", {WHOLE: "2"}, uid="u1", labels={"nvidia.com/mig.config.state": "pending"})
    assert filtered(extender, ONE, sent) == ([], {"n": "node(s) had a GPU change in progress"})


def test_a_node_of_the_same_name_but_another_uid_is_what_its_labels_say(extender: Extender) -> None:
    template = node("n", {WHOLE: "8"}, uid="template", labels=GFD_H100)
    assert filtered(extender, pod("p", {WHOLE: "8"}), template) == ([template], {})
    assert filtered(extender, pod("p", {WHOLE: "9"}), template) == ([], {"n": SHORT})
    assert filtered(extender, pod("p", {SHARE: "100"}), template) == ([], {"n": STALE})


def test_an_unknown_template_is_estimated_from_its_labels(extender: Extender) -> None:
    h100 = pod("p", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/model": "H100"})
    template = node("template-1", {WHOLE: "8"}, labels=GFD_H100)
    other = node("template-2", {WHOLE: "1"}, labels=GFD_H100 | {"nvidia.com/gpu.product": "Tesla-T4"})
    assert filtered(extender, h100, template, other) == (
        [template],
        {"template-2": "node(s) didn't match the requested GPU model"},
    )


@pytest.mark.parametrize("unreported", ["allow", "refuse"])
def test_a_template_takes_instances_where_nodes_without_a_report_do(
    unreported: Literal["allow", "refuse"],
) -> None:
    built = Extender(Configuration(inventory=InventorySection(unreported=unreported)))
    built.replace_nodes(assemble(read_objects(inventory(*KNOWN)), Configuration().resource_names()).values())
    template = node("template", {"nvidia.com/mig-1g.10gb": "7"})
    asking = pod("p", {"nvidia.com/mig-1g.10gb": "1"})
    expected = ([template], {}) if unreported == "allow" else ([], {"template": STALE})
    assert filtered(built, asking, template) == expected


def test_a_template_without_gpus_is_refused_with_the_missing_field(extender: Extender) -> None:
    assert filtered(extender, ONE, node("cpu")) == ([], {"cpu": SHORT})


def test_where_our_inventory_knows_no_uid_the_name_decides(extender: Extender) -> None:
    sent = node("no-node-object", {WHOLE: "1"}, uid="any")
    model = pod("p", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/model": "A100"})
    assert filtered(extender, model, sent) == ([sent], {})


def test_prioritize_answers_for_exactly_the_nodes_sent(extender: Extender) -> None:
    sent = [node("template", {WHOLE: "8"}, labels=GFD_H100), node("n", {WHOLE: "2"}, uid="u1"), node("cpu")]
    before = extender.snapshot
    reply = json.loads(extender.prioritize(nodes_body(ONE, sent), time.monotonic() + 60).body)
    assert [entry["Host"] for entry in reply] == ["template", "n", "cpu"]
    scores = {entry["Host"]: entry["Score"] for entry in reply}
    # An estimated node never ranks above a reported one.
    assert scores["n"] == 10
    assert scores["template"] < 10
    assert scores["cpu"] == 0
    assert extender.snapshot is before


def test_sent_bytes_are_forgotten(extender: Extender) -> None:
    filtered(extender, ONE, node("template", {WHOLE: "8"}, labels=GFD_H100))
    body = json.dumps({"Pod": ONE, "NodeNames": ["template", "n"]}).encode()
    reply = json.loads(extender.filter(body, time.monotonic() + 60).body)
    assert reply["NodeNames"] == ["n"]
    assert reply["FailedAndUnresolvableNodes"] == {"template": STALE}


def test_an_invalid_pod_is_refused_on_every_node_sent(extender: Extender) -> None:
    items, refused = filtered(extender, pod("p", {WHOLE: "-1"}), node("n", uid="u1"), node("m"))
    assert items == []
    assert refused == dict.fromkeys(("n", "m"), "pod's GPU request is invalid")


@pytest.mark.parametrize("amount", ["many", "--1", True, ["1"]])
def test_an_unreadable_amount_of_a_node_is_the_callers_fault(extender: Extender, amount: Any) -> None:
    with pytest.raises(RequestError, match=r"^Nodes\.items\[1\]\.status: nvidia\.com/gpu: ") as refusal:
        extender.filter(nodes_body(ONE, [node("a"), node("b", {WHOLE: amount})]), time.monotonic() + 60)
    assert refusal.value.status == 400


def test_amounts_of_other_resources_are_never_looked_at(extender: Extender) -> None:
    sent = node("n", {WHOLE: "2", "cpu": "lots", "example.com/x": []}, uid="u1")
    assert filtered(extender, ONE, sent) == ([sent], {})
