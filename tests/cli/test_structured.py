"""JSON and YAML of every command begin with their kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from scheduler_ext.cli import main
from tests.cli.commands import CLUSTER, FORMS, WHOLE, Written, run
from tests.cli.test_replay import snapshot
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import pod
from tests.pages import ROOT

# Every command that prints data: its arguments, and the kind of its answer.
ASKED: dict[str, tuple[list[str], str]] = {
    "why": (["waits", "--kubeconfig", "KUBECONFIG"], "Explanation"),
    "nodes": (["--kubeconfig", "KUBECONFIG"], "InventoryList"),
    "node": (["labels-1", "--kubeconfig", "KUBECONFIG"], "GPUNodeHoldings"),
    "pods": (["--kubeconfig", "KUBECONFIG"], "GPUPodList"),
    "queue": (["--kubeconfig", "KUBECONFIG"], "QueueList"),
    "idle": (["--kubeconfig", "KUBECONFIG"], "IdlePodList"),
    "inventory": (["--kubeconfig", "KUBECONFIG"], "InventoryList"),
    "explain": (["-f", "POD", "--kubeconfig", "KUBECONFIG"], "Explanation"),
    "capacity": (["-f", "POD", "--kubeconfig", "KUBECONFIG"], "Capacity"),
    "defrag": (["--for", "waits", "--kubeconfig", "KUBECONFIG"], "DefragmentationPlan"),
    "cost": (["--kubeconfig", "KUBECONFIG"], "Cost"),
    "recommend": (["--kubeconfig", "KUBECONFIG"], "RecommendationList"),
    "simulate cluster": (["--pods", "POD", "--kubeconfig", "KUBECONFIG"], "Simulation"),
    "simulate trace": (["--generate", "2", "--seeds", "1", "--jobs", "1"], "SimulationReport"),
    "simulate mig": (["--gpus", "2", "--arrivals", "20", "--seeds", "1"], "SimulationReport"),
    "replay": (["SNAPSHOT", "-f", "POD"], "Explanation"),
    "reasons": ([], "ReasonList"),
    "autoscaler-config": (
        ["--for", "cluster-autoscaler", "-f", str(ROOT / "config" / "node-groups.yaml")],
        "ClusterAutoscalerSettings",
    ),
}


def forms() -> dict[str, list[str]]:
    """The data formats of each command."""
    found: dict[str, list[str]] = {}
    for name, command in main.commands.items():
        below = command.commands if isinstance(command, click.Group) else {"": command}
        for word, each in below.items():
            for option in each.params:
                if option.name == "output" and isinstance(option.type, click.Choice):
                    found[f"{name} {word}".strip()] = [form for form in option.type.choices if form in FORMS]
    return found


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with ApiServer() as server:
        for path, kind in ((NODES, "Node"), (GPU_NODES, "GPUNode"), (PODS, "Pod")):
            server.store.put_all(path, [each for each in CLUSTER if each["kind"] == kind])
        server.store.put(PODS, pod("waits", {WHOLE: "1"}))
        yield server.kubeconfig(tmp_path / "kubeconfig")


def test_every_command_that_prints_data_is_asked() -> None:
    assert sorted(forms()) == sorted(ASKED)


@pytest.mark.parametrize(
    ("command", "form"),
    [
        pytest.param(command, form, id=f"{command} -o {form}")
        for command, known in forms().items()
        for form in known
    ],
)
def test_data_begins_with_its_version_and_kind(
    kubeconfig: Path, cluster: Path, written: Written, command: str, form: str
) -> None:
    files = {
        "KUBECONFIG": kubeconfig,
        "POD": written("pod.yaml", pod("p", {WHOLE: "1"})),
        "SNAPSHOT": written("snapshot.json", json.dumps(snapshot(cluster))),
    }
    arguments, kind = ASKED[command]
    done = run(*command.split(), *(files.get(each, each) for each in arguments), "-o", form)
    assert done.exit_code == 0, done.output
    assert list(FORMS[form](done.stdout).items())[:2] == [
        ("apiVersion", "cli.scheduler-ext.io/v1alpha1"),
        ("kind", kind),
    ]
