"""Node selector terms: every operator, malformed requirements, fields, and the logic of several terms."""

from __future__ import annotations

import pytest

from scheduler_ext.core.intree import NodeSelectorTerm, PreferredTerm, Requirement, preference_of

LABELS = {"zone": "b", "gpus": "8", "empty": "", "huge": "9223372036854775808"}
FIELDS = {"metadata.name": "node-1"}


def requirement(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(requirement("rack", "In", ""), False, id="an absent label is not an empty one"),
        pytest.param(requirement("zone", "In"), False, id="In without values is malformed"),
        pytest.param(requirement("zone", "NotIn"), False, id="NotIn without values is malformed"),
        pytest.param(requirement("zone", "NotIn", "not a label"), False, id="a value no label can have"),
        pytest.param(requirement("zone", "NotIn", "x" * 64), False, id="a value longer than labels are"),
        pytest.param(requirement("zone", "In", "b", "-"), False, id="one bad value spoils a matching one"),
        pytest.param(requirement("empty", "Exists"), True, id="Exists with an empty label value"),
        pytest.param(requirement("zone", "Exists", "b"), False, id="Exists with values is malformed"),
        pytest.param(requirement("rack", "DoesNotExist", "b"), False, id="DoesNotExist with values"),
        pytest.param(requirement("gpus", "Gt", "007"), True, id="Gt reads leading zeros"),
        pytest.param(requirement("huge", "Gt", "1"), False, id="Gt on a label beyond 64 bits"),
        pytest.param(requirement("gpus", "Gt", "1", "2"), False, id="Gt with two values is malformed"),
        pytest.param(requirement("gpus", "Gt", "seven"), False, id="Gt with a bound that is no integer"),
        pytest.param(requirement("gpus", "Gt", "-1"), False, id="a negative bound is no label value"),
        pytest.param(requirement("zone", "in", "b"), False, id="operators are case-sensitive"),
    ],
)
def test_expression_on_labels(candidate: Requirement, expected: bool) -> None:
    assert candidate.matches(LABELS) is expected


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(requirement("metadata.name", "In", "node-1"), True, id="In with the node's name"),
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
        pytest.param((), (NAMED,), True, id="fields alone"),
        pytest.param((IN_ZONE,), (MISNAMED,), False, id="a field not met beside a met expression"),
        pytest.param((ELSEWHERE,), (NAMED,), False, id="an expression not met beside a met field"),
    ],
)
def test_term(expressions: tuple[Requirement, ...], fields: tuple[Requirement, ...], expected: bool) -> None:
    assert NodeSelectorTerm(expressions, fields).matches(LABELS, FIELDS) is expected


def test_a_term_reads_as_a_sentence() -> None:
    term = NodeSelectorTerm((requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")), (NAMED,))
    assert str(term) == "zone In [a, b] and gpu Exists and metadata.name In [node-1]"


def test_the_weights_of_all_terms_that_are_met_add_up() -> None:
    terms = [(7, (IN_ZONE,), ()), (7, (IN_ZONE,), ()), (5, (ELSEWHERE,), ()), (3, (), (NAMED,))]
    preferred = [PreferredTerm(weight, NodeSelectorTerm(on, named)) for weight, on, named in terms]
    assert preference_of(preferred, "node-1", LABELS) == 17


def meets(operator: str, values: tuple[str, ...], label: str | None) -> bool:
    """One expression, in the words of the API's documentation."""
    if operator in ("Gt", "Lt"):
        if label is None or not label.isdecimal():
            return False
        return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])
    return {
        "In": label in values,
        "NotIn": label not in values,
        "Exists": label is not None,
        "DoesNotExist": label is None,
    }[operator]


@pytest.mark.parametrize("label", [None, "a", "1", "3", "10"])
@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", ("a", "3")),
        ("NotIn", ("a", "3")),
        ("Exists", ()),
        ("DoesNotExist", ()),
        ("Gt", ("3",)),
        ("Lt", ("3",)),
    ],
)
def test_a_label_meets_an_expression(operator: str, values: tuple[str, ...], label: str | None) -> None:
    labels = {} if label is None else {"x": label}
    assert Requirement("x", operator, values).matches(labels) is meets(operator, values, label)
