"""The score of kube-scheduler's NodeAffinity: the sum of the weights of the preferred terms that are met."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.intree import NodeSelectorTerm, PreferredTerm, Requirement, preference_of

LABELS = {"zone": "b", "gpus": "8"}


def on(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(key, operator, values),), ())


NAMED = NodeSelectorTerm((), (Requirement("metadata.name", "In", ("node-1",)),))
ZONE_B, ZONE_A = on("zone", "In", "b"), on("zone", "In", "a")


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([(100, ZONE_B)], 100, id="a term that is met"),
        pytest.param([(100, ZONE_A)], 0, id="a term that is not met"),
        pytest.param([(7, ZONE_B), (5, ZONE_A), (3, NAMED)], 10, id="weights of all met terms add up"),
        pytest.param([(7, ZONE_B), (7, ZONE_B)], 14, id="equal terms count twice"),
        pytest.param([(7, NodeSelectorTerm((), ()))], 0, id="an empty term is met by no node"),
        pytest.param([(7, on("zone", "Near", "b")), (3, ZONE_B)], 3, id="a malformed term counts nothing"),
    ],
)
def test_the_score_is(terms: list[tuple[int, NodeSelectorTerm]], expected: int) -> None:
    preferred = [PreferredTerm(weight, term) for weight, term in terms]
    assert preference_of(preferred, "node-1", LABELS) == expected


_Part = tuple[str, str, list[str]]
_values = st.sampled_from(("a", "b", "1", "5"))
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
