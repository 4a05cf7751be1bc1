"""A node with impossible data is a node without known GPUs, and does not affect others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.node.estimate import Estimate, estimate_from_labels
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from tests.core.reported import device, node
from tests.extender.preempting import filtered
from tests.kube_objects import pod

WHOLE = "nvidia.com/gpu"


def good(name: str) -> NodeInfo:
    return replace(node(device(0)), name=name, allocatable={WHOLE: 1})


def impossible(name: str) -> NodeInfo:
    """A node with more memory than a column can hold, as from a mistyped label."""
    estimate = estimate_from_labels({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}, {})
    assert isinstance(estimate, Estimate)
    return NodeInfo(name, uid="u", estimate=replace(estimate, memory_mib=2**40), allocatable={WHOLE: 1})


def fitting(extender: Extender) -> str:
    """Of the nodes a to e."""
    return "".join(filtered(extender, pod("p", {WHOLE: "1"}), "abcde")[0])


@pytest.fixture
def extender() -> Extender:
    return Extender(Configuration())


def test_an_impossible_node_from_the_start(extender: Extender, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = extender.replace_nodes([good("a"), impossible("b"), good("c")])
    assert fitting(extender) == "ac"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["node b"]
    assert (snapshot.nodes["b"].info.freshness, snapshot.nodes["b"].info.uid) == ("Missing", "u")


def test_a_node_that_becomes_impossible_later(extender: Extender) -> None:
    extender.replace_nodes([good(name) for name in "abcd"])
    extender.update_nodes({"b": impossible("b"), "d": None, "e": good("e")})
    assert fitting(extender) == "ace"
    # Once more among others: nothing of the first time remains.
    extender.update_nodes({"b": impossible("b")})
    extender.update_nodes({"c": None})
    assert fitting(extender) == "ae"
    extender.update_nodes({"b": good("b")})
    assert fitting(extender) == "abe"


def test_an_error_in_resolving_names_the_host(
    extender: Extender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resolved = extender._resolved

    def failing(info: NodeInfo) -> Node:
        if info.name == "b":
            raise ZeroDivisionError
        return resolved(info)

    monkeypatch.setattr(extender, "_resolved", failing)
    extender.replace_nodes([good("a"), good("b")])
    assert fitting(extender) == "a"
    extender.update_nodes({"b": good("b"), "c": good("c")})
    assert fitting(extender) == "ac"
    assert all("node b: cannot be resolved" in record.getMessage() for record in caplog.records)
