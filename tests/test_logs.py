"""Log lines: whatever a name or an error holds, it looks like no other line."""

from __future__ import annotations

import logging
import sys

import pytest

from scheduler_ext.logs import JsonFormatter, TextFormatter

SHOWN = "%(message)s"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("größe-1", "größe-1", id="a letter of any script"),
        pytest.param("a\nINFO b", "a\\nINFO b", id="a line break"),
        pytest.param("a\u2028b\x85c", "a\\u2028b\\x85c", id="the other line breaks of Unicode"),
        pytest.param("a\x1b[2J\x9b2J", "a\\x1b[2J\\x9b2J", id="commands to a terminal"),
        pytest.param(
            "a\u202eb\u2066c\u200fd\u200e", "a\\u202eb\\u2066c\\u200fd\\u200e", id="directions of writing"
        ),
        pytest.param("a\u200bb\ufeff", "a\\u200bb\\ufeff", id="characters without a width"),
    ],
)
def test_a_text_in_a_line(text: str, expected: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (text,), None)
    assert TextFormatter(SHOWN).format(record) == expected
    assert JsonFormatter().format(record).isascii()


def test_an_error_in_a_traceback() -> None:
    try:
        raise ValueError("a\u202eb\x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    lines = TextFormatter(SHOWN).format(record).split("\n")
    assert (lines[0], lines[-1]) == ("failed", "ValueError: a\\u202eb\\x1b[2J")
