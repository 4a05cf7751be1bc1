"""Node selector terms: every operator, absent labels, malformed requirements, and the logic of several
terms.
"""

from __future__ import annotations

import pytest

from scheduler_ext.core.intree.affinity import NodeSelectorTerm, Requirement

LABELS = {"zone": "b", "gpus": "8", "model": "A100-SXM4-80GB", "empty": "", "huge": "9223372036854775808"}
FIELDS = {"metadata.name": "node-1"}


def requirement(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(requirement("zone", "In", "a", "b"), True, id="In with the label among the values"),
        pytest.param(requirement("rack", "In", "a"), False, id="In with the label absent"),
        pytest.param(requirement("rack", "In", ""), False, id="an absent label is not an empty one"),
        pytest.param(requirement("zone", "In"), False, id="In without values is malformed"),
        pytest.param(requirement("zone", "NotIn", "a", "c"), True, id="NotIn with the label elsewhere"),
        pytest.param(
            requirement("zone", "NotIn", "a", "b"), False, id="NotIn with the label among the values"
        ),
        pytest.param(requirement("rack", "NotIn", "a"), True, id="NotIn with the label absent"),
        pytest.param(requirement("zone", "NotIn"), False, id="NotIn without values is malformed"),
        pytest.param(requirement("zone", "NotIn", "not a label"), False, id="a value no label can have"),
        pytest.param(requirement("zone", "NotIn", "x" * 64), False, id="a value longer than labels are"),
        pytest.param(requirement("zone", "In", "b", "-"), False, id="one bad value spoils a matching one"),
        pytest.param(requirement("zone", "Exists"), True, id="Exists with the label present"),
        pytest.param(requirement("empty", "Exists"), True, id="Exists with an empty label value"),
        pytest.param(requirement("rack", "Exists"), False, id="Exists with the label absent"),
        pytest.param(requirement("zone", "Exists", "b"), False, id="Exists with values is malformed"),
        pytest.param(requirement("rack", "DoesNotExist"), True, id="DoesNotExist with the label absent"),
        pytest.param(requirement("zone", "DoesNotExist"), False, id="DoesNotExist with the label present"),
        pytest.param(requirement("rack", "DoesNotExist", "b"), False, id="DoesNotExist with values"),
        pytest.param(requirement("gpus", "Gt", "7"), True, id="Gt with a larger label"),
        pytest.param(requirement("gpus", "Gt", "8"), False, id="Gt with an equal label"),
        pytest.param(requirement("gpus", "Gt", "10"), False, id="Gt compares numbers, not text"),
        pytest.param(requirement("gpus", "Gt", "007"), True, id="Gt reads leading zeros"),
        pytest.param(requirement("gpus", "Lt", "9"), True, id="Lt with a smaller label"),
        pytest.param(requirement("gpus", "Lt", "8"), False, id="Lt with an equal label"),
        pytest.param(requirement("gpus", "Lt", "10"), True, id="Lt compares numbers, not text"),
        pytest.param(requirement("zone", "Lt", "1"), False, id="Lt on a label that is no integer"),
        pytest.param(requirement("huge", "Gt", "1"), False, id="Gt on a label beyond 64 bits"),
        pytest.param(requirement("rack", "Gt", "1"), False, id="Gt with the label absent"),
        pytest.param(requirement("rack", "Lt", "1"), False, id="Lt with the label absent"),
        pytest.param(requirement("gpus", "Gt", "1", "2"), False, id="Gt with two values is malformed"),
        pytest.param(requirement("gpus", "Gt", "seven"), False, id="Gt with a bound that is no integer"),
        pytest.param(requirement("gpus", "Gt", "-1"), False, id="a negative bound is no label value"),
        pytest.param(requirement("zone", "in", "b"), False, id="operators are case-sensitive"),
        pytest.param(requirement("zone", "Equals", "b"), False, id="an unknown operator"),
    ],
)
def test_expression_on_labels(candidate: Requirement, expected: bool) -> None:
    assert candidate.matches(LABELS) is expected


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(requirement("metadata.name", "In", "node-1"), True, id="In with the node's name"),
        pytest.param(requirement("metadata.name", "In", "node-2"), False, id="In with another name"),
        pytest.param(requirement("metadata.name", "NotIn", "node-2"), True, id="NotIn with another name"),
        pytest.param(requirement("metadata.name", "NotIn", "node-1"), False, id="NotIn with the node's name"),
        pytest.param(requirement("metadata.name", "In", "node-1", "node-2"), False, id="In with two names"),
        pytest.param(requirement("metadata.name", "In"), False, id="In without a name"),
        pytest.param(requirement("metadata.name", "Exists"), False, id="fields know no Exists"),
        pytest.param(requirement("metadata.uid", "In", "x"), False, id="an unknown field is not a value"),
        pytest.param(requirement("metadata.uid", "NotIn", "x"), True, id="an unknown field reads as empty"),
    ],
)
def test_match_on_fields(candidate: Requirement, expected: bool) -> None:
    assert candidate.matches_field(FIELDS) is expected


IN_ZONE = requirement("zone", "In", "b")
ELSEWHERE = requirement("zone", "In", "a")
NAMED = requirement("metadata.name", "In", "node-1")
MISNAMED = requirement("metadata.name", "In", "node-2")


@pytest.mark.parametrize(
    ("expressions", "fields", "expected"),
    [
        pytest.param((), (), False, id="an empty term matches nothing"),
        pytest.param((IN_ZONE, ELSEWHERE), (), False, id="all expressions must be met"),
        pytest.param((), (NAMED,), True, id="fields alone"),
        pytest.param((IN_ZONE,), (NAMED,), True, id="expressions and fields met"),
        pytest.param((IN_ZONE,), (MISNAMED,), False, id="a field not met beside a met expression"),
        pytest.param((ELSEWHERE,), (NAMED,), False, id="an expression not met beside a met field"),
    ],
)
def test_term(expressions: tuple[Requirement, ...], fields: tuple[Requirement, ...], expected: bool) -> None:
    assert NodeSelectorTerm(expressions, fields).matches(LABELS, FIELDS) is expected


def test_a_term_reads_as_a_sentence() -> None:
    term = NodeSelectorTerm((requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")), (NAMED,))
    assert str(term) == "zone In [a, b] and gpu Exists and metadata.name In [node-1]"
