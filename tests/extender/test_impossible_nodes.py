"""A node with impossible data is a node without known GPUs, and does not affect others."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from scheduler_ext.core.node.estimate import Estimate, estimate_from_labels
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from tests.core.reported import device, node
from tests.kube_objects import names_body, pod

WHOLE = "nvidia.com/gpu"


def good(name: str) -> NodeInfo:
    return replace(node(device(0)), name=name, allocatable={WHOLE: 1})


def impossible(name: str) -> NodeInfo:
    """A node with more memory than a column can hold, as from a mistyped label."""
    estimate = estimate_from_labels({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}, {})
    assert isinstance(estimate, Estimate)
    return NodeInfo(name, uid="u", estimate=replace(estimate, memory_mib=2**40), allocatable={WHOLE: 1})


class Asked:
    """An extender, and its answers about the nodes a to e."""

    def __init__(self) -> None:
        self.extender = Extender(Configuration())

    def fitting(self) -> str:
        body = names_body(pod("p", {WHOLE: "1"}), list("abcde"))
        return "".join(json.loads(self.extender.filter(body, time.monotonic() + 60).body)["NodeNames"])


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_an_impossible_node_from_the_start(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = asked.extender.replace_nodes([good("a"), impossible("b"), good("c")])
    assert asked.fitting() == "ac"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["node b"]
    assert (snapshot.nodes["b"].info.freshness, snapshot.nodes["b"].info.uid) == ("Missing", "u")


def test_a_node_that_becomes_impossible_later(asked: Asked) -> None:
    asked.extender.replace_nodes([good(name) for name in "abcd"])
    asked.extender.update_nodes({"b": impossible("b"), "d": None, "e": good("e")})
    assert asked.fitting() == "ace"
    # Once more among others: nothing of the first time remains.
    asked.extender.update_nodes({"b": impossible("b")})
    asked.extender.update_nodes({"c": None})
    assert asked.fitting() == "ae"
    asked.extender.update_nodes({"b": good("b")})
    assert asked.fitting() == "abe"


def test_an_error_in_resolving_names_the_host(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resolved = asked.extender._resolved

    def failing(info: NodeInfo) -> Node:
        if info.name == "b":
            raise ZeroDivisionError
        return resolved(info)

    monkeypatch.setattr(asked.extender, "_resolved", failing)
    asked.extender.replace_nodes([good("a"), good("b")])
    assert asked.fitting() == "a"
    asked.extender.update_nodes({"b": good("b"), "c": good("c")})
    assert asked.fitting() == "ac"
    assert all("node b: cannot be resolved" in record.getMessage() for record in caplog.records)
