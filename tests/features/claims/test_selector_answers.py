"""Recorded answers of Kubernetes' own CEL beside those of this product."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Final

from scheduler_ext.features.claims.cel.device_expression import Outcome
from scheduler_ext.features.claims.cel.device_selector import DeviceSelector
from tests.wire.dra.recorded_selectors import ANSWERS, CASES, DEVICES

# kube-scheduler treats an expression that does not compile like one that fails.
ALLOWED: Final = {
    "admits": {Outcome.ADMITS, Outcome.UNKNOWN},
    "rejects": {Outcome.REJECTS, Outcome.UNKNOWN},
    "fails": {Outcome.FAILS, Outcome.UNKNOWN},
    "invalid": {Outcome.FAILS, Outcome.UNKNOWN},
}


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
