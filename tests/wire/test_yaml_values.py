"""YAML from outside: the meaning of its scalars, and the limits on values."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import yaml

from scheduler_ext.core.errors import DocumentError
from scheduler_ext.wire import yaml_values as module
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.yaml_values import CONFIGURATION, FILE, POSTED, YamlLimits, yaml_values
from tests.wire.bounded_child import read_in_child
from tests.wire.hostile_texts import BOMBS, POD, SCALARS, alias_bomb, string_bomb


def value_of(text: str, limits: YamlLimits = FILE) -> Any:
    (value,) = yaml_values(text.encode(), limits)
    return value


def refusal(text: str, limits: YamlLimits = FILE) -> str:
    with pytest.raises(DocumentError) as error:
        list(json_documents(text.encode(), limits))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    return str(error.value)


@pytest.fixture(params=["C", "Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of PyYAML: without libyaml there is the second alone."""
    monkeypatch.setattr(module, "_LOADER", yaml.SafeLoader if request.param == "Python" else yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="nothing is null"),
        pytest.param("1:30", "1:30", id="a number to the base of 60 is text"),
        pytest.param("190:20:30.15", "190:20:30.15", id="so is a float to the base of 60"),
        pytest.param("2026-13-45", "2026-13-45", id="a date is text"),
        pytest.param("'1'", "1", id="quoted values are text"),
        pytest.param("!!str 1", "1", id="so are values tagged as text"),
        pytest.param("! 1", "1", id="by either tag"),
        pytest.param("!!float 1", 1.0, id="a whole number tagged as a float"),
        pytest.param("!!int '7'", 7, id="a quoted number tagged as one"),
        pytest.param("{1: a, 1.5: b, '': c}", {"1": "a", "1.5": "b", "": "c"}, id="keys as they are written"),
        pytest.param("{a: 1, a: 2}", {"a": 2}, id="of equal keys the last one"),
        pytest.param("{'<<': {a: 1}}", {"<<": {"a": 1}}, id="a quoted merge key is a key"),
    ],
)
@pytest.mark.usefixtures("parser")
def test_scalars_are_read_by_yaml_1_1(text: str, value: Any) -> None:
    read = value_of(f"--- {text}\n")
    assert (read, type(read)) == (value, type(value))


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("text", SCALARS, ids=lambda text: repr(text[:40]))
def test_every_scalar_is_read_or_refused_in_one_line(text: str) -> None:
    whole = f"{POD}x: {text}\n"
    if SCALARS[text]:
        assert len(list(json_documents(whole.encode(), FILE))) == 1
    else:
        refusal(whole)


SAME = """
a, 1, -1, +1, -17, 0.5, 1., 1.e+5, 6.8523e+5, _1, 1_, 1_000, 0b1, 0b11, yes, No, on, Off, y, ~, null,
NULL, <, +.5, -0x1f, 0x1F, 0777, 010, 0o10, 08, 1e5, 1.5e3, .e1, .5, +, ., '-', -., 1__0, 0x, 0b, 0_7, -0, 0,
00, 1.5e-3, -1_0.5, True, tRUE, yEs, nULL, N, 0.1.2, 1.2e+, 0x1g, 1-2
"""


@pytest.mark.usefixtures("parser")
def test_values_are_those_of_pyyaml_where_json_has_them() -> None:
    read, expected = value_of(f"[{SAME}]"), yaml.safe_load(f"[{SAME}]")
    assert [(value, type(value)) for value in read] == [(value, type(value)) for value in expected]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("idle: {after: 4h}\ncost: {}\nidle: {reclaim: {mode: evict}}\n", id="a section"),
        pytest.param("groups:\n- name: a\n  max: 1\n  name: b\n", id="a field of an item"),
    ],
)
def test_a_key_of_a_configuration_is_there_once(text: str) -> None:
    line = text.count("\n")
    assert refusal(text, CONFIGURATION).startswith(f"YAML, line {line}: key '")
    assert refusal(text, CONFIGURATION).endswith("' is there twice; keep one")
    assert list(json_documents(text.encode(), FILE))


@pytest.mark.parametrize("limits", [FILE, CONFIGURATION], ids=["a file", "a configuration"])
def test_merge_keys_are_read_as_by_pyyaml(limits: YamlLimits) -> None:
    """A key beside a merge key is there once."""
    text = """
base: &base {a: 1, b: {c: 2}}
other: &other {a: 9, d: 3}
first: {<<: *base, a: 5}
after: {a: 5, <<: *base}
both: {<<: [*base, *other], e: 4}
nested: &nested {<<: *base, x: 1}
twice: {<<: *nested}
"""
    assert value_of(text, limits) == yaml.safe_load(text)


@pytest.mark.usefixtures("parser")
def test_aliases_of_files_repeat_values_and_keys() -> None:
    assert value_of("a: &a x\nb: [*a, {*a : 1}]\n") == {"a": "x", "b": ["x", {"x": 1}]}
    assert value_of("a: &a 1\nb: &a 2\nc: *a\n") == {"a": 1, "b": 2, "c": 2}, "the last anchor before it"
    assert "alias 'a': no anchor of this name" in refusal("a: &a x\n---\nb: *a\n"), "in its own document"
    assert "alias 'k': no anchor of this name" in refusal("a: {&k <<: {b: c}}\nd: *k\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: &a x\nb: *a\n", "YAML, line 2: alias 'a'", id="an alias"),
        pytest.param("a: &a x\nb: {*a : 1}\n", "YAML, line 2: alias 'a'", id="an alias as a key"),
        pytest.param("a: {<<: {b: c}}\n", "YAML, line 1: merge key <<", id="a merge key"),
        pytest.param("%TAG !a! b\n---\na: b\n", "YAML: directive '%TAG !a! b'", id="a directive"),
        pytest.param("a: b\n...\n%YAML 1.1\n---\n", "YAML: directive '%YAML 1.1'", id="a later directive"),
        pytest.param("[" * 101 + "]" * 101, "YAML, line 1: nested deeper than 100 levels", id="depth"),
    ],
)
@pytest.mark.usefixtures("parser")
def test_unneeded_yaml_in_a_posted_manifest_is_refused(text: str, problem: str) -> None:
    assert refusal(text, POSTED).startswith(problem)


@pytest.mark.parametrize(("text", "line"), [("a: [" + "x," * 60 + "]", 1), ("---\n" * 60, 52)])
@pytest.mark.usefixtures("parser")
def test_more_values_than_the_limit_are_refused(text: str, line: int) -> None:
    assert refusal(text, replace(POSTED, values=50)).startswith(f"YAML, line {line}: more than 50 values")


def test_an_anchor_alone_and_text_with_stars_are_read_of_posted_manifests() -> None:
    text = "a: &a x\nb: '*a'\nc: [\"*.example\", 2*3]\nd: |\n  *a\n  << : b\n"
    read = {"a": "x", "b": "*a", "c": ["*.example", "2*3"], "d": "*a\n<< : b\n"}
    assert value_of(text, POSTED) == read


@pytest.fixture(scope="module", params=["inventory", "pods", "posted", "configuration"])
def outcomes(request: pytest.FixtureRequest) -> dict[str, str]:
    """What came of each bomb, read as one kind of text."""
    return dict(zip(BOMBS, read_in_child(request.param, list(BOMBS.values())), strict=True))


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_before_they_are_built(outcomes: dict[str, str], bomb: str) -> None:
    assert outcomes[bomb].startswith("YAML, line ")
    assert "\n" not in outcomes[bomb]


def test_a_bomb_of_depth_by_aliases_is_refused() -> None:
    lines = ["x0: &x0 [a]", *(f"x{i}: &x{i} [*x{i - 1}]" for i in range(1, 600))]
    assert "nested deeper than 500 levels" in refusal("\n".join(lines))


def test_repetition_by_aliases_is_bounded_by_memory_not_by_number() -> None:
    limit = FILE.repeated_bytes or 0
    times = math.ceil(limit / 100_032)
    assert len(value_of(string_bomb(100_000, times - 1))["b"]) == times - 1
    assert "aliases unfold to more than 128 MiB" in refusal(string_bomb(100_000, times))
    # Values of short texts take memory, too.
    assert "aliases unfold to more than 128 MiB" in refusal(alias_bomb(8, 10))
    assert "aliases unfold to more than 1 MiB" in refusal(alias_bomb(6, 10), CONFIGURATION)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", ["name: größe\n", '{"name": "größe"}'], ids=["YAML", "JSON"])
def test_files_of_other_encodings_are_read_by_their_mark(text: str, encoding: str) -> None:
    ((_, document),) = json_documents(text.encode(encoding))
    assert json.loads(document) == {"name": "größe"}


def test_directives_in_another_encoding_are_seen() -> None:
    text = "a: b\n...\n%TAG !a! b\n---\n"
    with pytest.raises(DocumentError, match="directive"):
        list(json_documents(text.encode("utf-16"), POSTED))
