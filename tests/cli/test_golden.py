"""One golden answer of each command that prints data: exit status, data, names and tables, compared whole.

`RENEW_GOLDEN=1 make test ARGS=tests/cli/test_golden.py` writes golden/ again; review the difference."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from scheduler_ext.core.filters import REASONS
from scheduler_ext.main import main
from tests.cli.commands import CLUSTER, FORMS, WHOLE, Written, run, serving
from tests.cli.test_replay import snapshot
from tests.features.autoscaling.node_groups.tables import SHARES, group, table_bytes
from tests.kube_objects import SHARE, gpu, gpu_node, inventory, pod

GOLDEN = Path(__file__).with_name("golden")
FILE, LIVE = ["--inventory", "CLUSTER"], ["--kubeconfig", "KUBECONFIG", "--from", "cluster"]
# Every command that prints data.
ASKED = {
    "why": ["waits", *LIVE],
    "nodes": LIVE,
    "node": ["mig-1", *LIVE],
    "pods": ["-A", *LIVE],
    "queue": LIVE,
    "idle": FILE,
    "inventory": FILE,
    "explain": ["-f", "POD", *FILE],
    "capacity": ["-f", "POD", *FILE],
    "defrag": ["--for", "waits", *FILE],
    "cost": FILE,
    "recommend": ["--min-age", "1h", *FILE],
    "simulate cluster": ["--pods", "PODS", "--cluster", "CLUSTER"],
    "simulate trace": ["--generate", "2", "--seeds", "1", "--jobs", "1"],
    "simulate mig": ["--gpus", "2", "--arrivals", "20", "--seeds", "1"],
    "replay": ["SNAPSHOT", "-f", "LARGE"],
    "autoscaler-config": ["--for", "cluster-autoscaler", "-f", "GROUPS"],
}
# They depend on the time, on the speed, or on the machine.
VOLATILE = {
    "machine",
    "decisionsPerSecond",
    "p99Ms",
    "ageSeconds",
    "earliest",
    "latest",
    "median",
    "waitingSeconds",
}


def forms() -> dict[str, list[str]]:
    """The formats of each command."""
    found: dict[str, list[str]] = {}
    for name, command in main.commands.items():
        below = command.commands if isinstance(command, click.Group) else {"": command}
        for word, each in below.items():
            for option in each.params:
                if option.name == "output" and isinstance(option.type, click.Choice):
                    found[f"{name} {word}".strip()] = list(option.type.choices)
    return {name: known for name, known in found.items() if "json" in known}


def test_nodes_that_take_none_are_many_and_shown_on_request(written: Written) -> None:
    nodes = [gpu_node(f"n{i:02}", [gpu(0, f"GPU-{i}")]) for i in range(25)]
    asked = ("capacity", "-f", written("pod.json", pod("p", {WHOLE: "2"})), "--inventory", "-")
    short, wide = (run(*asked, "-o", form, stdin=inventory(*nodes)).stdout for form in ("table", "wide"))
    assert "and 15 nodes that take none; -o wide shows them" in short
    assert ("n24" in short, "n24" in wide) == (False, True)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving(*CLUSTER) as server:
        yield server.kubeconfig(tmp_path_factory.mktemp("golden") / "kubeconfig")


def test_every_command_that_prints_data_is_asked() -> None:
    assert {*forms()} - {*ASKED} == {"reasons"}


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


def lasting(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: "VOLATILE" if key in VOLATILE and each is not None else lasting(each)
            for key, each in value.items()
        }
    return [lasting(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", ASKED)
def test_the_answer_is_the_golden_one(
    kubeconfig: Path, cluster: Path, written: Written, command: str
) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["labels-1"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    one = pod("p", {WHOLE: "1"}, affinity={"nodeAffinity": preferred})
    large = pod("large", {SHARE: "60000"})
    files = {
        "KUBECONFIG": kubeconfig,
        "CLUSTER": cluster,
        "POD": written("pod.json", one),
        "LARGE": written("large.json", large),
        "PODS": written("pods.json", {"kind": "List", "items": [one, large]}),
        "SNAPSHOT": written("snapshot.json", json.dumps(snapshot(cluster))),
        "GROUPS": written("groups.json", table_bytes(group(**SHARES))),
    }
    arguments = [str(files.get(each, each)) for each in ASKED[command]]
    done = {form: run(*command.split(), *arguments, "-o", form) for form in forms()[command]}
    found: dict[str, Any] = {"exit": done["json"].exit_code, "stderr": done["json"].stderr.splitlines()}
    found["json"] = lasting(FORMS["json"](done["json"].stdout))
    # The queue's rows have the time that pods have waited; see waiting/.
    if "wide" in done and command != "queue":
        # Reports on a simulation have means and standard errors, which sim/ tests.
        found |= {form: done[form].stdout.splitlines() for form in ("table", "wide", "name")}
    assert {each.exit_code for each in done.values()} == {found["exit"]}
    if "yaml" in done:
        assert lasting(FORMS["yaml"](done["yaml"].stdout)) == found["json"]
    text = json.dumps(found, indent=1).replace(str(cluster.parent), "DIR") + "\n"
    golden = GOLDEN / f"{command.replace(' ', '-')}.json"
    if os.environ.get("RENEW_GOLDEN"):
        golden.write_text(text)
    assert json.loads(text) == json.loads(golden.read_text())
