"""The golden answers of the kernel's commands, and that no command lacks one.

`RENEW_GOLDEN=1 make test ARGS="-k golden_one"` writes those of all commands again; review the difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_ext.core.filters import REASONS
from tests.cli.commands import FORMS, WHOLE, Written, run
from tests.cli.golden_answers import FILE, LIVE, answers, forms
from tests.cli.test_replay import snapshot
from tests.kube_objects import gpu, gpu_node, inventory, pod
from tests.pages import ROOT

ASKED = {
    "why": ["waits", *LIVE],
    "nodes": LIVE,
    "node": ["mig-1", *LIVE],
    "pods": ["-A", *LIVE],
    "inventory": FILE,
    "explain": ["-f", "POD", *FILE],
    "capacity": ["-f", "POD", *FILE],
    "replay": ["SNAPSHOT", "-f", "LARGE"],
}


@pytest.mark.parametrize("command", ASKED)
def test_the_answer_is_the_golden_one(cluster: Path, written: Written, command: str) -> None:
    files = {"SNAPSHOT": written("snapshot.json", json.dumps(snapshot(cluster)))}
    found, golden = answers(__file__, command, ASKED[command], cluster, written, files=files)
    assert found == golden


def test_every_command_that_prints_data_has_a_golden_answer() -> None:
    there = {path.stem for path in (ROOT / "tests").rglob("golden/*.json")}
    assert {name for name in forms() if name.replace(" ", "-") not in there} == {"reasons"}


@pytest.mark.parametrize("form", ["json", "yaml", "table"])
def test_every_reason_is_explained(form: str) -> None:
    out = run("reasons", "-o", form).stdout
    texts = [reason.text for reason in REASONS]
    if form == "table":
        assert [line for line in out.splitlines() if line in texts] == texts
        assert out.count("means: ") == out.count("do:    ") == len(texts)
    else:
        items = FORMS[form](out)["items"]
        assert [item["reason"] for item in items] == texts
        assert all(item["meaning"] and item["remedy"] for item in items)


def test_nodes_that_take_none_are_many_and_shown_on_request(written: Written) -> None:
    nodes = [gpu_node(f"n{i:02}", [gpu(0, f"GPU-{i}")]) for i in range(25)]
    asked = ("capacity", "-f", written("pod.json", pod("p", {WHOLE: "2"})), "--inventory", "-")
    short, wide = (run(*asked, "-o", form, stdin=inventory(*nodes)).stdout for form in ("table", "wide"))
    assert "and 15 nodes that take none; -o wide shows them" in short
    assert ("n24" in short, "n24" in wide) == (False, True)
