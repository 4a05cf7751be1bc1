"""The features of an extender as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from scheduler_ext.core.node.node import NodeInfo, Wait
from scheduler_ext.extender.answer import Answer
from scheduler_ext.server.serving import AllFeatures, Facts, Serving
from scheduler_ext.sources.source_status import Problem, SourceStatus

NODE = NodeInfo("n")
STATUS = SourceStatus([], 0.0)


class Broken(Serving):
    """Fails whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        raise ZeroDivisionError


class Knows(Serving):
    """Has an answer of its own to everything."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[str] = []

    def changed(self) -> None:
        self.heard.append("changed")

    def answered(self, verb: str, answer: Answer) -> None:
        self.heard.append(verb)

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        return [self.name]

    def holds_back(self, uid: str) -> bool:
        return uid == self.name

    def wait_of(self, uid: str) -> Wait | None:
        return Wait(self.name) if uid == self.name else None

    def facts_of_nodes(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        return {info.name: {self.name: 1} for info in infos}

    def problems(self) -> Sequence[Problem]:
        return [Problem(self.name, "", 0.0)]


def test_the_others_are_asked_though_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    first, last = Knows("a"), Knows("b")
    features = AllFeatures([first, Broken(), last])
    features.answered("filter", Answer(b"", 0, 0))
    features.changed()
    assert first.heard == last.heard == ["filter", "changed"]
    assert "Broken does not answer; it counts as off" in caplog.text
    assert features.goes_first(NODE) == {"a", "b"}
    assert [features.holds_back(uid) for uid in "ab?"] == [True, True, False]
    assert [features.wait_of(uid) for uid in "ab?"] == [Wait("a"), Wait("b"), None]
    assert features.facts_of_nodes([NODE], STATUS, 0.0) == {"n": {"a": 1, "b": 1}}
    assert [problem.what for problem in features.problems()] == ["a", "b"]


def test_without_features_every_answer_is_that_of_one_that_is_off() -> None:
    features = AllFeatures([])
    assert (features.goes_first(NODE), features.holds_back("a"), features.wait_of("a")) == (
        set(),
        False,
        None,
    )
    assert (features.facts_of_pods([NODE], STATUS, 0.0), features.problems()) == ({}, [])
