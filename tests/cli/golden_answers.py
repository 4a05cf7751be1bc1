"""Golden answers of commands that print data: exit status, data, names and tables, compared whole. They are
in the folder `golden` beside the tests of a command; with RENEW_GOLDEN they are written again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from scheduler_ext.main import main
from tests.cli.commands import CLUSTER, FORMS, WHOLE, Written, run, serving
from tests.kube_objects import SHARE, Json, pod

FILE, LIVE = ["--inventory", "CLUSTER"], ["--kubeconfig", "KUBECONFIG", "--from", "cluster"]
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
    """The formats of each command that prints data."""
    found: dict[str, list[str]] = {}
    for name, command in main.commands.items():
        below = command.commands if isinstance(command, click.Group) else {"": command}
        for word, each in below.items():
            for option in each.params:
                if option.name == "output" and isinstance(option.type, click.Choice):
                    found[f"{name} {word}".strip()] = list(option.type.choices)
    return {name: known for name, known in found.items() if "json" in known}


def answers(
    test: str,
    command: str,
    arguments: Sequence[str],
    cluster: Path,
    written: Written,
    *,
    files: Mapping[str, Path] | None = None,
    tables: bool = True,
) -> tuple[Json, Json]:
    """The answer of a command, and the golden one beside a test, which is given by its file. In the
    arguments, words in capitals stand for `files` and for those below; `tables`: no form of the output
    depends on the time."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["labels-1"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    one = pod("p", {WHOLE: "1"}, affinity={"nodeAffinity": preferred})
    large = pod("large", {SHARE: "60000"})
    with serving(*CLUSTER) as server:
        named = {
            "KUBECONFIG": server.kubeconfig(cluster.with_name("kubeconfig")),
            "CLUSTER": cluster,
            "POD": written("pod.json", one),
            "LARGE": written("large.json", large),
            "PODS": written("pods.json", {"kind": "List", "items": [one, large]}),
            **(files or {}),
        }
        words = [*command.split(), *(str(named.get(each, each)) for each in arguments)]
        done = {form: run(*words, "-o", form) for form in forms()[command]}
    found: dict[str, Any] = {"exit": done["json"].exit_code, "stderr": done["json"].stderr.splitlines()}
    found["json"] = _lasting(FORMS["json"](done["json"].stdout))
    if "wide" in done and tables:
        # Reports on a simulation have means and standard errors, which sim/ tests.
        found |= {form: done[form].stdout.splitlines() for form in ("table", "wide", "name")}
    assert {each.exit_code for each in done.values()} == {found["exit"]}
    if "yaml" in done:
        assert _lasting(FORMS["yaml"](done["yaml"].stdout)) == found["json"]
    text = json.dumps(found, indent=1).replace(str(cluster.parent), "DIR") + "\n"
    golden = Path(test).with_name("golden") / f"{command.replace(' ', '-')}.json"
    if os.environ.get("RENEW_GOLDEN"):
        golden.write_text(text)
    return json.loads(text), json.loads(golden.read_text())


def _lasting(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: "VOLATILE" if key in VOLATILE and each is not None else _lasting(each)
            for key, each in value.items()
        }
    return [_lasting(each) for each in value] if isinstance(value, list) else value
