"""The commands, run in this process on a small cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from scheduler_ext.cli import main
from tests.kube_objects import GFD_H100, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"
FORMS: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load}
Written = Callable[[str, Any], Path]
CLUSTER = [
    gpu_node("a100-1", [gpu(0), gpu(1, health={"state": "Unhealthy", "reason": "XID 79"})]),
    gpu_node("a100-2", [gpu(0, holders=[holder("busy")])]),
    pod("busy", {WHOLE: "1"}, on="a100-2"),
    gpu_node(
        "mig-1",
        [
            gpu(
                0,
                mig={
                    "enabled": True,
                    "instances": [{"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1}],
                },
            )
        ],
    ),
    node("labels-1", {WHOLE: "8"}, labels=GFD_H100),
    node("cpu-1"),
]


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    """The output of a command line, and its exit code."""
    return CliRunner().invoke(main, [str(arg) for arg in args], input=stdin, prog_name="scheduler-ext")


def error_of(result: Result, code: int = 1) -> str:
    """The single line of an error on stderr."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip("\n")
