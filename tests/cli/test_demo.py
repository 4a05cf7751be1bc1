"""The demo as a process: its end by itself, and its output while it serves."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import WHOLE, Written, run
from tests.kube_objects import pod
from tests.server.process.server_process import eventually

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


def shows_its_pods(shown: str) -> bool:
    """Whether the page has the pods that fit, those that wait, and the past before them."""
    page = re.search(
        r"page at (http://\S+) shows 10 of these pods on their GPUs, the 5 others waiting", shown
    )
    assert page is not None
    found: dict[str, Any] = {}

    def complete() -> bool:
        with urllib.request.urlopen(f"{page[1]}page/events", timeout=10) as reply:
            data = next(line for line in reply if line.startswith(b"data: "))
        found.update(json.loads(data[6:]))
        return bool(found.get("pending", {}).get("total") == 5)

    eventually(complete)
    assert len(found["samples"]) > 300
    assert found["samples"][-2][0] - found["samples"][0][0] > 3600
    nearest = {line["name"]: line["nearest"] for line in found["pending"]["lines"]}
    assert "unit-forgotten" in nearest
    # The busy A100s, and no node with other GPUs.
    assert nearest["three-a100"].startswith("a100-01 has 0 of 3 nvidia.com/gpu free; would fit if pod ")
    assert "train-8" in {each["name"] for each in found["decisions"]}
    return True


@pytest.mark.process
def test_a_demo_that_serves_on_shows_no_warning_about_its_own_pods(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with open(tmp_path / "stderr", "wb") as log, subprocess.Popen(DEMO, stdout=theirs, stderr=log) as demo:
        os.close(theirs)
        try:
            shown = ""
            while SERVES not in shown:
                shown += os.read(ours, 65536).decode()
            assert shows_its_pods(shown)
            demo.send_signal(signal.SIGINT)
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
