"""The demo as a process: its end by itself, and its output while it serves."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import WHOLE, Written, run
from tests.kube_objects import pod

DEMO = [sys.executable, "-m", "scheduler_ext", "demo", "--port", "0"]
SERVES = "Ctrl-C ends."


@pytest.mark.process
def test_a_demo_that_ends_by_itself_prints_the_next_steps(written: Written) -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    command = shlex.split(done.stdout.splitlines()[-1])
    assert command[:2] == ["scheduler-ext", "explain"]
    mine = written("pod.yaml", pod("mine", {WHOLE: "1"}, tolerations=[{"operator": "Exists"}]))
    answer = run(*(str(mine) if word == "POD.yaml" else word for word in command[1:]))
    assert answer.exit_code == 0
    assert "Pod default/mine asks nvidia.com/gpu=1" in answer.stdout


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A demo that serves on, as what it has printed by then; it ends at Ctrl-C, without a warning."""
    ours, theirs = os.openpty()
    with open(folder / "stderr", "wb") as log, subprocess.Popen(DEMO, stdout=theirs, stderr=log) as demo:
        os.close(theirs)
        try:
            shown = ""
            while SERVES not in shown:
                shown += os.read(ours, 65536).decode()
            yield shown
            demo.send_signal(signal.SIGINT)
            assert demo.wait(30) == 0
        finally:
            demo.kill()
    os.close(ours)
    assert shown.rstrip().endswith(SERVES)
    assert (folder / "stderr").read_text() == ""


@pytest.mark.process
def test_a_demo_that_serves_on_ends_with_its_server(tmp_path: Path) -> None:
    with serving(tmp_path) as shown:
        server = re.search(r"nodes at http://127\.0\.0\.1:(\d+)", shown)
        assert server is not None
        socket.create_connection(("127.0.0.1", int(server[1])), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server[1])), 5)
