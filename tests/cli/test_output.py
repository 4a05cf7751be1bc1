"""Tables, data and errors as they are printed: what others wrote does not act on a terminal."""

from __future__ import annotations

import json

import pytest
import yaml

from scheduler_ext.cli.output import print_structured, print_table
from tests.cli.commands import error_of, run

HOSTILE = "größe\u202e\u200b\x1b[2J"


def test_what_others_wrote_does_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NODE", "GPU"], [["größe", "GPU-\x1b[2J\r\n"], [None, "GPU-1"]])
    assert capsys.readouterr().out == "NODE    GPU\ngröße   GPU-\\x1b[2J\\r\\n\n        GPU-1\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_escapes_what_is_not_ascii(capsys: pytest.CaptureFixture[str], form: str) -> None:
    print_structured({"name": HOSTILE}, form)
    out = capsys.readouterr().out
    assert out.isascii()
    assert (json.loads(out) if form == "json" else yaml.safe_load(out)) == {"name": HOSTILE}
    assert "\x1b" not in out


def test_an_error_escapes_what_acts_on_a_terminal() -> None:
    assert error_of(run("check-config", f"/nowhere/{HOSTILE}")) == (
        "/nowhere/größe\\u202e\\u200b\\x1b[2J: No such file or directory"
    )
