"""Node selector terms: the score of the preferred ones, malformed requirements, and fields."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


_Part = tuple[str, str, list[str]]
_values = st.sampled_from(("a", "1", "3", "10"))
_parts: st.SearchStrategy[_Part] = st.one_of(
    st.tuples(st.sampled_from(("x", "y")), st.sampled_from(("In", "NotIn")), st.lists(_values, min_size=1)),
    st.tuples(st.sampled_from(("x", "y")), st.sampled_from(("Exists", "DoesNotExist")), st.just([])),
    st.tuples(st.sampled_from(("x", "y")), st.sampled_from(("Gt", "Lt")), st.just(["3"])),
)


def meets(part: _Part, labels: dict[str, str]) -> bool:
    """One expression, in the words of the API's documentation."""
    key, operator, values = part
    has = key in labels
    if operator in ("Gt", "Lt"):
        if not has or not labels[key].isdecimal():
            return False
        return int(labels[key]) > 3 if operator == "Gt" else int(labels[key]) < 3
    return {
        "In": has and labels[key] in values,
        "NotIn": not has or labels[key] not in values,
        "Exists": has,
        "DoesNotExist": not has,
    }[operator]


@given(
    st.lists(st.tuples(st.integers(1, 100), st.lists(_parts, max_size=3)), max_size=4),
    st.dictionaries(st.sampled_from(("x", "y")), _values),
)
def test_the_score_equals_a_count_term_by_term(
    terms: Sequence[tuple[int, Sequence[_Part]]], labels: dict[str, str]
) -> None:
    expected = 0
    for weight, parts in terms:
        if parts and all(meets(part, labels) for part in parts):
            expected += weight
    preferred = [
        PreferredTerm(weight, NodeSelectorTerm(tuple(Requirement(k, o, tuple(v)) for k, o, v in parts), ()))
        for weight, parts in terms
    ]
    assert preference_of(preferred, "n", labels) == expected
