"""Exit codes and errors of all commands, by kind: one line on stderr that names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_ext import __version__
from tests.cli.commands import CONFIGURED, WHOLE, Written, error_of, run
from tests.kube_objects import gpu, gpu_node, node, pod
from tests.wire.hostile_texts import BOMBS

GONE = "No such file or directory"
# The files that {names} in arguments mean.
FILES = {
    "bomb": BOMBS[min(BOMBS)],
    "broken": "kind: [",
    "empty": "",
    "no_pods": "{kind: List, items: []}",
    "pod": json.dumps(pod("p", {WHOLE: "1"})),
    "words": json.dumps(pod("p", {"cpu": "lots"})),
    "truth": json.dumps(pod("p", {WHOLE: True})),
    "unquoted": "kind: Pod\nmetadata: {name: p, labels: {a: on}}\n",
    "amount": json.dumps(node("n", {WHOLE: "many"})),
    "type": json.dumps(gpu_node("n", [gpu(0, computeCapability=8.0)])),
    "typo": json.dumps(CONFIGURED | {"filter": {"maxCandidate": 5}}),
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("check-config {missing}", f"{{missing}}: {GONE}"),
        ("explain -f {missing} --inventory {cluster}", f"{{missing}}: {GONE}"),
        ("inventory --inventory {broken}", "{broken}: neither YAML nor JSON"),
        ("inventory --inventory {bomb}", "{bomb}: YAML, line "),
        ("inventory --inventory {type}", "{type}: GPUNode n: status.devices[0].computeCapability: Expected"),
        ("inventory --inventory {amount}", "{amount}: Node n: status: nvidia.com/gpu:"),
        (
            "explain -f {pod} --inventory {no_pods}",
            "{no_pods}: no Node and no GPUNode in it; `kubectl get gpunodes,nodes,pods",
        ),
        (
            "explain -f {empty} --inventory {cluster}",
            "{empty}: empty; expected a Pod, a workload such as a Deployment, or a List of them",
        ),
        ("explain -f {words} --inventory {cluster}", "{words}: Pod default/p: cpu: quantity 'lots'"),
        (
            "explain -f {truth} --inventory {cluster}",
            "{truth}: Pod default/p: container 'main': nvidia.com/gpu",
        ),
        (
            "explain -f {unquoted} --inventory {cluster}",
            "{unquoted}: document 1: metadata.labels[...]: Expected",
        ),
        ("inventory --inventory {cluster} --config {typo}", "{typo}: filter.maxCandidate: unknown key"),
        ("inventory --kubeconfig {missing}", f"kubeconfig {{missing}}: {{missing}}: {GONE}"),
    ],
)
def test_errors_are_one_line(
    cluster: Path, written: Written, tmp_path: Path, arguments: str, problem: str
) -> None:
    files = {name: written(f"{name}.yaml", text) for name, text in FILES.items()}
    files |= {"cluster": cluster, "missing": tmp_path / "missing"}
    message = error_of(run(*(each.format_map(files) for each in arguments.split())))
    assert message.startswith(problem.format_map(files))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("bogus", "No such command 'bogus'"),
        (
            "explain -f - --inventory -",
            "-: standard input can be read only once; give a file for one of the two",
        ),
        ("serve", "nothing to read from: give one of --inventory, --kubeconfig, --in-cluster"),
        ("serve --inventory x --kubeconfig y", "--inventory and --kubeconfig are too many"),
        (
            "serve --inventory -",
            "--inventory -: serve reads its inventory again when it changes; give a file",
        ),
        ("serve --inventory x --listen 8888", "'8888'"),
        ("serve --inventory x --listen 127.0.0.1:70000", "127.0.0.1:70000"),
        (
            "serve --inventory x --lease a/b",
            "--lease: an inventory file has no cluster to lead; leave it out",
        ),
        ("serve --kubeconfig x --lease b", "'b' is no NAMESPACE/NAME"),
        ("serve --kubeconfig x --lease /b", "'/b' is no NAMESPACE/NAME"),
        ("inventory", "nothing to read from: give one of --inventory, --kubeconfig"),
        ("inventory --inventory x --context y", "--context: an inventory file has no contexts"),
        ("nodes", "no kubeconfig: give --kubeconfig, or set KUBECONFIG"),
        ("demo --port 65534", "65534 is not in the range 0<=x<=65533"),
        ("replay x", "nothing to explain: give one of --pod, -f"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: str, problem: str) -> None:
    result = run(*arguments.split(), stdin=json.dumps(pod("p")).encode())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: scheduler-ext")
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["explain -f", "capacity -f"])
@pytest.mark.parametrize("asked", ["64", "two"])
def test_a_pod_that_would_not_fit_or_cannot_be_read_is_exit_3(
    cluster: Path, written: Written, command: str, asked: str
) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: asked}, schedulerName="gpu-scheduler"))
    result = run(*command.split(), asking, "--inventory", cluster)
    assert (result.exit_code, result.stderr) == (3, "")


def test_a_configuration_that_is_fine_with_a_note_on_a_model_that_the_table_lacks(written: Written) -> None:
    path = written("config.yaml", CONFIGURED | {"values": {"h100": 2, "H100-80GB": 3, "H10": 4, "A100": 1}})
    result = run("check-config", path)
    assert (result.exit_code, result.stdout) == (0, f"{path}: ok\n")
    assert result.stderr.splitlines() == [
        "Note: values.H10: the shipped table has no such model; it counts for GPUs of this name"
    ]


def test_version() -> None:
    assert run("--version").stdout == f"scheduler-ext, version {__version__}\n"
