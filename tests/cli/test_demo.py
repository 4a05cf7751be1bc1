"""The demo as a process: its end by itself, and its output while it serves."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
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


@pytest.mark.process
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=lambda end: f"ended by {end.name}")
def test_a_demo_that_serves_on_shows_no_warning_about_its_own_pods(
    tmp_path: Path, end: signal.Signals
) -> None:
    ours, theirs = os.openpty()
    with open(tmp_path / "stderr", "wb") as log, subprocess.Popen(DEMO, stdout=theirs, stderr=log) as demo:
        os.close(theirs)
        try:
            shown = ""
            while SERVES not in shown:
                shown += os.read(ours, 65536).decode()
            # Later output of the demo's pods arrives at once.
            while select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536).decode()
            demo.send_signal(end)
            assert demo.wait(30) == 0
        finally:
            demo.kill()
    os.close(ours)
    assert shown.rstrip().endswith(SERVES)
    assert (tmp_path / "stderr").read_text() == ""
    server = re.search(r"nodes at http://127\.0\.0\.1:(\d+)", shown)
    assert server is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server[1])), 5)
