"""Recorded answers of Kubernetes' own CEL beside those of this product."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Final

from scheduler_ext.features.claims.cel.device_expression import read_expression
from scheduler_ext.wire.dra.plain_selector import SelectorOutcome
from tests.wire.dra.recorded_selectors import ANSWERS, CASES, DEVICES

# kube-scheduler treats an expression that does not compile like one that fails.
ALLOWED: Final = {
    "admits": {SelectorOutcome.ADMITS, SelectorOutcome.UNKNOWN},
    "rejects": {SelectorOutcome.REJECTS, SelectorOutcome.UNKNOWN},
    "fails": {SelectorOutcome.FAILS, SelectorOutcome.UNKNOWN},
    "invalid": {SelectorOutcome.FAILS, SelectorOutcome.UNKNOWN},
}


@cache
def outcomes() -> list[tuple[str, str, str, SelectorOutcome]]:
    """(expression, device, Kubernetes' answer, outcome) of all cases."""
    read = {text: read_expression(text) for text in CASES["expressions"]}
    return [
        (
            text,
            name,
            ANSWERS[text][name],
            SelectorOutcome.UNKNOWN if isinstance(found, str) else found.answer(device).outcome,
        )
        for text, found in read.items()
        for name, device in DEVICES.items()
    ]


def test_no_answer_differs_from_that_of_kubernetes() -> None:
    assert [case for case in outcomes() if case[3] not in ALLOWED[case[2]]] == []


def test_few_answers_are_unknown() -> None:
    answered = Counter(
        outcome is not SelectorOutcome.UNKNOWN for _, _, answer, outcome in outcomes() if answer != "invalid"
    )
    assert len(CASES["expressions"]) >= 400
    assert answered[True] / answered.total() > 0.8


def test_every_problem_is_one_line() -> None:
    problems = map(read_expression, CASES["expressions"])
    assert [each for each in problems if isinstance(each, str) and not re.fullmatch(".+", each)] == []
