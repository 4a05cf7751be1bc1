"""Printed tables, data and errors: text of other authors cannot control a terminal."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.cli.output import print_structured, print_table
from tests.cli.commands import error_of, run

HOSTILE = "größe\u202e\u200b\x1b[2J"


TEXTS = st.text(st.sampled_from("ab-, "), max_size=60)


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1)))
def test_a_table_fits_120_columns_and_loses_nothing(rows: list[list[str]]) -> None:
    out = printed([f"C{i}" for i in range(len(rows[0]))], rows, wide=False)
    assert max(map(len, out)) <= 120
    text = re.compile(r"[^ab,-]")
    assert sorted(text.sub("", "".join(out))) == sorted(text.sub("", "".join(map("".join, rows))))


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3)))
def test_a_wide_table_has_a_line_for_each_row(rows: list[list[str]]) -> None:
    lines = printed(["A", "B", "C"], rows, wide=True)
    assert len(lines) == 1 + len(rows)
    assert all(cell.strip() in line for row, line in zip(rows, lines[1:], strict=True) for cell in row)


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        pytest.param("x" * 150, ["x" * 110, "x" * 40], id="a word that is too long is broken anywhere"),
        pytest.param(f"{'x' * 60}-{'y' * 60}", [f"{'x' * 60}-", "y" * 60], id="after a hyphen"),
        pytest.param(f"a-b {'x' * 60} {'y' * 50}", [f"a-b {'x' * 60}", "y" * 50], id="rather after a space"),
        pytest.param(
            f"1 {'x' * 60}, 1 {'y' * 60}", [f"1 {'x' * 60},", f"1 {'y' * 60}"], id="rather after a comma"
        ),
    ],
)
def test_where_a_cell_is_broken(cell: str, lines: list[str]) -> None:
    name = "node-1.b"
    header, first, *rest = printed(["NODE", "WHY"], [[name, cell]], wide=False)
    assert header == "NODE      WHY"
    assert [first.removeprefix(name).strip(), *(line.strip() for line in rest)] == lines


def printed(header: list[str], rows: list[list[str]], *, wide: bool) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        print_table(header, rows, wide=wide)
    return out.getvalue().split("\n")[:-1]


def test_text_of_other_authors_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NODE", "GPU"], [["größe", "GPU-\x1b[2J\r\n"], [None, "GPU-1"]])
    assert capsys.readouterr().out == "NODE    GPU\ngröße   GPU-\\x1b[2J\\r\\n\n        GPU-1\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_escapes_other_characters_than_ascii(capsys: pytest.CaptureFixture[str], form: str) -> None:
    print_structured({"name": HOSTILE}, form)
    out = capsys.readouterr().out
    assert out.isascii()
    assert (json.loads(out) if form == "json" else yaml.safe_load(out)) == {"name": HOSTILE}
    assert "\x1b" not in out


def test_an_error_escapes_what_acts_on_a_terminal() -> None:
    assert error_of(run("check-config", f"/nowhere/{HOSTILE}")) == (
        "/nowhere/größe\\u202e\\u200b\\x1b[2J: No such file or directory"
    )
