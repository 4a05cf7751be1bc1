"""Expressions of the usual form have the same answers with CEL and without it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion
from scheduler_ext.features.claims.cel.device_expression import read_expression
from scheduler_ext.wire.dra.plain_selector import read_plain
from tests.examples import examples

SPACES = st.text(" \n\t\r\f", max_size=1)
DRIVERS = st.sampled_from(["gpu.nvidia.com", "dra.example.com", ""])
NAMES = st.sampled_from(["type", "index", "healthy", "_a1", "for", "true", "in"])
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'\"\\"), max_size=3)
NUMBERS = st.one_of(st.integers(-2, 2), st.integers(-(2**65), 2**65))
QUOTES = st.sampled_from("'\"")
DEVICES = st.builds(
    DeviceFacts,
    DRIVERS,
    st.dictionaries(
        st.one_of(NAMES, st.builds("{}/{}".format, DRIVERS, NAMES)),
        st.one_of(
            st.sampled_from(["gpu", "mig", "", True, False, SemanticVersion(1, 0, 0), "a" * 129, "\ud800"]),
            TEXTS,
            NUMBERS,
        ),
    ),
    st.just({}),
)


@st.composite
def quoted(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    quote = draw(QUOTES)
    return f"{quote}{draw(texts)}{quote}"


@st.composite
def equalities(draw: st.DrawFn) -> str:
    name = draw(st.one_of(st.builds(".{}".format, NAMES), st.builds("[{}]".format, quoted(NAMES))))
    of_driver = draw(st.booleans())
    left = "device.driver" if of_driver else f"device.attributes[{draw(quoted(DRIVERS))}]{name}"
    values = [quoted(st.one_of(TEXTS, DRIVERS, st.just("gpu")))]
    values += [] if of_driver else [NUMBERS.map(str), st.sampled_from(["true", "false"])]
    return f"{left}{draw(SPACES)}=={draw(SPACES)}{draw(st.one_of(values))}"


@st.composite
def conjunctions(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    joined = f"{draw(SPACES)}&&{draw(SPACES)}".join(parts)
    return f"({joined}{draw(SPACES)})" if draw(st.booleans()) else joined


EXPRESSIONS = st.recursive(equalities(), conjunctions, max_leaves=4)
# What makes another expression of it.
PIECES = st.sampled_from([*list("'\"\\()[]&|!=<>.,:?-+/ \n01eux_é"), "in", "null", "true", "&&", "||", "=="])


@st.composite
def changed(draw: st.DrawFn) -> str:
    """An expression with a few characters replaced."""
    text = draw(EXPRESSIONS)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(PIECES) + text[start + draw(st.integers(0, 2)) :]
    return text


@examples(60, 2000)
@given(st.one_of(EXPRESSIONS, changed()), st.lists(DEVICES, min_size=1, max_size=4))
def test_a_plain_expression_has_the_answers_of_cel(text: str, devices: list[DeviceFacts]) -> None:
    plain = read_plain(text)
    if plain is not None and not re.search(r"\bhas\b", text):  # which is never evaluated with CEL
        expression = read_expression(text)
        assert not isinstance(expression, str), expression
        assert [plain.answer(each) for each in devices] == [expression.answer(each) for each in devices]
