"""Answers of Kubernetes' own CEL, recorded by tests/e2e/selector_answers, beside those of this product."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion, parse_version
from scheduler_ext.features.claims.cel.device_expression import Outcome
from scheduler_ext.features.claims.cel.device_selector import DeviceSelector

SELECTORS: Final = Path(__file__).with_name("golden")
CASES: Final = json.loads((SELECTORS / "cases.json").read_text())
ANSWERS: Final = json.loads((SELECTORS / "answers.json").read_text())
# kube-scheduler treats an expression that does not compile like one that fails.
ALLOWED: Final = {
    "admits": {Outcome.ADMITS, Outcome.UNKNOWN},
    "rejects": {Outcome.REJECTS, Outcome.UNKNOWN},
    "fails": {Outcome.FAILS, Outcome.UNKNOWN},
    "invalid": {Outcome.FAILS, Outcome.UNKNOWN},
}


def facts(device: dict[str, Any]) -> DeviceFacts:
    def value(written: dict[str, Any]) -> bool | int | str | SemanticVersion:
        ((kind, found),) = written.items()
        read: bool | int | str | SemanticVersion = parse_version(found) if kind == "version" else found
        return read

    attributes = {name: value(written) for name, written in device.get("attributes", {}).items()}
    capacity = {name: written["value"] for name, written in device.get("capacity", {}).items()}
    return DeviceFacts(device["driver"], attributes, capacity, device.get("allowMultipleAllocations", False))


DEVICES: Final = {name: facts(device) for name, device in CASES["devices"].items()}


@cache
def outcomes() -> list[tuple[str, str, str, Outcome]]:
    """(expression, device, Kubernetes' answer, outcome) of all cases."""
    return [
        (expression, name, ANSWERS[expression][name], DeviceSelector([expression]).answer(device).outcome)
        for expression in CASES["expressions"]
        for name, device in DEVICES.items()
    ]


def test_no_answer_differs_from_that_of_kubernetes() -> None:
    assert [case for case in outcomes() if case[3] not in ALLOWED[case[2]]] == []


def test_few_answers_are_unknown() -> None:
    answered = Counter(
        outcome is not Outcome.UNKNOWN for _, _, answer, outcome in outcomes() if answer != "invalid"
    )
    assert len(CASES["expressions"]) >= 400
    assert answered[True] / answered.total() > 0.8


def test_every_problem_is_one_line_that_names_the_expression() -> None:
    problems = [DeviceSelector(["true", expression]).problem for expression in CASES["expressions"]]
    named = re.compile(r"selectors\[1\]\.cel\.expression: .+")
    assert [problem for problem in problems if problem is not None and not named.fullmatch(problem)] == []
