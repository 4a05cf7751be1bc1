"""The commands on a real terminal, and as processes with a broken output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

from scheduler_ext.cli import main
from scheduler_ext.cli.plugin import plugin
from scheduler_ext.cli.simulate import simulate
from tests.cli.commands import CLUSTER, WHOLE, Written, run, serving
from tests.kube_objects import SHARE, gpu, gpu_node, inventory, node, pod
from tests.pages import ROOT, SAMPLE

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
THREE = str(ROOT / "manifests" / "samples" / "three-a100.yaml")
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


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["inventory", "--inventory", str(SAMPLE)], id="the inventory"),
        pytest.param(["explain", "-f", THREE, "--inventory", str(SAMPLE)], id="a pod that fits nowhere"),
        pytest.param(["explain", "-f", "{one}", "--inventory", str(SAMPLE)], id="a pod that fits"),
    ],
)
def test_tables_shrink_to_the_terminal(
    tmp_path: Path, written: Written, arguments: list[str], columns: int
) -> None:
    one = written("pod.yaml", pod("p", {WHOLE: "1"}))
    assert_tables_fit(
        on_terminal(*(argument.format(one=one) for argument in arguments), columns=columns), columns
    )


@pytest.mark.process
def test_the_table_of_the_demo_shrinks_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo handles SIGTERM; the process of the tests must not.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert_tables_fit(on_terminal("demo", "--once", "--port", "0", columns=60), 60)


def assert_tables_fit(shown: str, columns: int) -> None:
    tables = [
        part.splitlines()
        for part in COLOUR.sub("", shown).split("\n\n")
        if part.split()[0] in ("NODE", "POD")
    ]
    assert tables
    assert max(len(line) for table in tables for line in table) <= columns


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("group", [main, plugin, simulate], ids=["main", "plugin", "simulate"])
def test_no_summary_of_a_command_is_cut_off(group: click.Group, columns: int) -> None:
    help_text = CliRunner().invoke(group, ["--help"], terminal_width=columns).output
    listed = " ".join(help_text.split("Commands:")[1].split())
    first = {
        name: " ".join((group.commands[name].help or "").split("\n\n")[0].split())
        for name in group.list_commands(click.Context(group))
    }
    assert listed == " ".join(f"{name} {text}" for name, text in first.items())
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
        pytest.param(["explain", "--inventory", "{cluster}", "-f", "{fits}"], id="where a pod fits"),
        pytest.param(["explain", "--inventory", "{cluster}", "-f", "{large}"], id="why a pod fits nowhere"),
        pytest.param(["capacity", "--inventory", "{cluster}", "-f", "{fits}"], id="how many fit"),
        pytest.param(
            ["simulate", "cluster", "--cluster", "{cluster}", "--pods", "{fits}"], id="a simulation"
        ),
        pytest.param(["inventory", "--inventory", "{cluster}"], id="the inventory"),
    ],
)
def test_names_do_not_act_on_a_terminal(tmp_path: Path, written: Written, arguments: list[str]) -> None:
    hostile = "x\x1b[2J\u202e"
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node(hostile, [gpu(0)]), node(hostile, {SHARE: "73728"})))
    files = {
        "cluster": path,
        "fits": written("fits.yaml", pod(hostile, {SHARE: "30000"})),
        "large": written("large.yaml", pod(hostile, {SHARE: "9000000"})),
    }
    shown = COLOUR.sub("", on_terminal(*(argument.format(**files) for argument in arguments)))
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
