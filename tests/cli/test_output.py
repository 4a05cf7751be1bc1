"""Tables as they are printed."""

from __future__ import annotations

import pytest

from scheduler_ext.cli.output import print_table


def test_what_others_wrote_does_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NODE", "GPU"], [["größe", "GPU-\x1b[2J\r\n"], [None, "GPU-1"]])
    assert capsys.readouterr().out == "NODE    GPU\ngröße   GPU-\\x1b[2J\\r\\n\n        GPU-1\n"
