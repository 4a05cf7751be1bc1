"""The commands on a real terminal, and as processes with a broken output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from scheduler_ext.cli.group import LazyCommands
from scheduler_ext.main import main
from tests.cli.commands import CLUSTER, Written, run, serving
from tests.kube_objects import SHARE, gpu, gpu_node, inventory, node, pod
from tests.pages import SAMPLE

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROGRAM = [sys.executable, "-m", "scheduler_ext"]


@contextlib.contextmanager
def stdout_at(descriptor: int) -> Iterator[None]:
    """Standard output of this process goes to a descriptor."""
    with open(descriptor, "w", closefd=False) as output, contextlib.redirect_stdout(output):
        yield


def on_terminal(*arguments: str | Path, columns: int = 80, env: dict[str, str] | None = None) -> str:
    """The output of a command on a terminal of this width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pieces: list[bytes] = []
    reader = threading.Thread(target=_read_to_end, args=(ours, pieces))
    reader.start()
    try:
        with (
            patch.dict(os.environ, {"TERM": "xterm-256color", **(env or {})}),
            stdout_at(theirs),
            contextlib.suppress(SystemExit),
        ):
            main.main([str(argument) for argument in arguments], "scheduler-ext")
    finally:
        os.close(theirs)
        reader.join(60)
        os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read_to_end(terminal: int, pieces: list[bytes]) -> None:
    # Linux reports the end of a terminal as an error.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 1 << 16):
            pieces.append(piece)


def piped(*arguments: str | Path) -> str:
    return run(*arguments).stdout


@pytest.mark.parametrize(("columns", "form"), [(120, "table"), (40, "wide"), (200, "wide")])
def test_a_table_is_the_same_on_a_terminal_but_for_its_colours(
    cluster: Path, columns: int, form: str
) -> None:
    arguments = ("inventory", "--inventory", cluster, "-o", form)
    shown = on_terminal(*arguments, columns=columns)
    assert COLOUR.sub("", shown) == piped(*arguments)
    assert shown.startswith("\x1b[1mNODE\x1b[0m ")
    assert ("\x1b[31mUnhealthy\x1b[0m" if form == "wide" else "\x1b[32mFresh\x1b[0m") in shown


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "a dumb terminal"])
def test_colours_can_be_done_without(cluster: Path, env: dict[str, str]) -> None:
    arguments = ("inventory", "--inventory", cluster)
    assert on_terminal(*arguments, env=env, columns=120) == piped(*arguments)


def test_tables_shrink_to_the_terminal() -> None:
    shown = COLOUR.sub("", on_terminal("inventory", "--inventory", SAMPLE, columns=60))
    table = shown[shown.index("NODE ") : shown.index("Note: ")].splitlines()
    assert len(table) > 2
    assert max(map(len, table)) <= 60


@pytest.mark.parametrize("columns", [40, 200])
def test_no_summary_of_a_command_is_cut_off(columns: int) -> None:
    help_text = CliRunner().invoke(main, ["--help"], terminal_width=columns).output
    listed = " ".join(help_text.split())
    assert isinstance(main.commands, LazyCommands)
    for each in chain.from_iterable(main.commands.sections.values()):
        assert f" {each.name} {each.summary}" in listed
    assert max(len(line) for line in help_text.splitlines()) <= columns


def test_a_bar_is_coloured_by_runs(tmp_path: Path) -> None:
    with serving(*CLUSTER) as server:
        arguments = ("node", "shared-1", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
        shown, plain = (show(*arguments, "--from", "cluster") for show in (on_terminal, piped))
    assert COLOUR.sub("", shown) == plain
    runs = [("\x1b[34m", "#" * 10), ("\x1b[31m", "!" * 5)]
    assert "".join(f"{colour}{cells}\x1b[0m" for colour, cells in runs) in shown


@pytest.mark.parametrize(
    "arguments",
    [
        "explain --inventory {cluster} -f {fits}",
        "explain --inventory {cluster} -f {large}",
        "capacity --inventory {cluster} -f {fits}",
        "inventory --inventory {cluster}",
    ],
)
def test_names_do_not_act_on_a_terminal(written: Written, arguments: str) -> None:
    hostile = "x\x1b[2J\u202e"
    objects = gpu_node(hostile, [gpu(0)]), node(hostile, {SHARE: "73728"})
    path = written("inventory.json", inventory(*objects))
    fits, large = (written(f"{mib}.yaml", pod(hostile, {SHARE: str(mib)})) for mib in (30_000, 9_000_000))
    shown = on_terminal(*arguments.format(cluster=path, fits=fits, large=large).split())
    shown = COLOUR.sub("", shown)
    assert "x\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.process
def test_a_reader_that_goes_away_ends_it_silently(cluster: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*PROGRAM, "inventory", "--inventory", str(cluster)],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.process
def test_an_output_that_is_full_is_one_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "reasons"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "Error: standard output: No space left on device\n")
