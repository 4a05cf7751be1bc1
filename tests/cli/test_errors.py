"""Exit codes and errors of all commands, by kind: one line on stderr that names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scheduler_ext import __version__
from tests.cli.commands import CONFIGURED, WHOLE, Written, error_of, run
from tests.kube_objects import SHARE, gpu, gpu_node, node, pod
from tests.wire.hostile_texts import BOMBS

NO_NODE = "no Node and no GPUNode in it; `kubectl get gpunodes,nodes,pods"
GONE = "No such file or directory"
EXPECTED = "empty; expected a Pod, a workload such as a Deployment, or a List of them"
# The files that {names} in arguments mean.
FILES = {
    "broken": "kind: [",
    "empty": "",
    "service": "kind: Service",
    "no_name": "kind: Node",
    "no_pods": "{kind: List, items: []}",
    "pod": json.dumps(pod("p", {WHOLE: "1"})),
    "two": yaml.safe_dump_all([pod("a"), pod("b")]),
    "twice": yaml.safe_dump_all([pod("a"), pod("a")]),
    "bound": json.dumps(pod("busy", {WHOLE: "1"})),
    "words": json.dumps(pod("p", {"cpu": "lots"})),
    "truth": json.dumps(pod("p", {WHOLE: True})),
    "unquoted": "kind: Pod\nmetadata: {name: p, labels: {a: on}}\n",
    "sixty": "kind: Pod\nmetadata: {name: p}\nspec: {containers: "
    "[{name: c, resources: {limits: {cpu: 1:30}}}]}\n",
    "amount": json.dumps(node("n", {WHOLE: "many"})),
    "contradiction": json.dumps(gpu_node("n", [gpu(0), gpu(0, "GPU-1")])),
    "type": json.dumps(gpu_node("n", [gpu(0, computeCapability=8.0)])),
    "typo": json.dumps(CONFIGURED | {"filter": {"maxCandidate": 5}}),
    "bounds": json.dumps(CONFIGURED | {"memory": {"headroomPercent": 91}}),
    "duration": json.dumps(CONFIGURED | {"inventory": {"staleAfter": "soon"}}),
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        # A file that is not there.
        ("inventory --inventory {missing}", f"{{missing}}: {GONE}"),
        ("check-config {missing}", f"{{missing}}: {GONE}"),
        ("inventory --inventory {cluster} --config {missing}", f"{{missing}}: {GONE}"),
        ("explain -f {missing} --inventory {cluster}", f"{{missing}}: {GONE}"),
        ("simulate cluster --pods {missing} --cluster {cluster}", f"{{missing}}: {GONE}"),
        (
            "simulate cluster --pods {pod} --cluster {cluster} --out {missing}/out",
            "--out {missing}/out: cannot",
        ),
        # An inventory that cannot be read, or has nothing in it.
        ("inventory --inventory {broken}", "{broken}: neither YAML nor JSON"),
        ("explain -f {pod} --inventory {broken}", "{broken}: neither YAML nor JSON"),
        ("inventory --inventory {no_name}", "{no_name}: document 1: Node without metadata.name"),
        (
            "inventory --inventory {contradiction}",
            "{contradiction}: GPUNode n: status.devices[1].index: 0 is",
        ),
        ("inventory --inventory {type}", "{type}: GPUNode n: status.devices[0].computeCapability: Expected"),
        ("inventory --inventory {amount}", "{amount}: Node n: status: nvidia.com/gpu:"),
        ("inventory --inventory {no_pods}", f"{{no_pods}}: {NO_NODE}"),
        ("explain -f {pod} --inventory {no_pods}", f"{{no_pods}}: {NO_NODE}"),
        ("capacity -f {pod} --inventory {no_pods}", f"{{no_pods}}: {NO_NODE}"),
        ("simulate cluster --pods {pod} --cluster {no_pods}", f"{{no_pods}}: {NO_NODE}"),
        ("inventory --inventory {service}", f"{{service}}: {NO_NODE}"),
        (
            "simulate cluster --pods {pod} --cluster {cpu} --policy fgd",
            "{cpu}: no node has a GPU that can be",
        ),
        # Pods that cannot be used.
        ("explain -f {broken} --inventory {cluster}", "{broken}: neither YAML nor JSON"),
        ("explain -f {empty} --inventory {cluster}", f"{{empty}}: {EXPECTED}"),
        (
            "explain -f {service} --inventory {cluster}",
            "{service}: no Pod in it; a Service has no pod template",
        ),
        ("explain -f {two} --inventory {cluster}", "{two}: 2 pods in it; choose one: a, b"),
        ("explain -f {words} --inventory {cluster}", "{words}: Pod default/p: cpu: quantity 'lots'"),
        (
            "explain -f {truth} --inventory {cluster}",
            "{truth}: Pod default/p: container 'main': nvidia.com/gpu",
        ),
        (
            "explain -f {sixty} --inventory {cluster}",
            "{sixty}: Pod default/p: cpu: quantity '1:30' cannot be",
        ),
        (
            "explain -f {unquoted} --inventory {cluster}",
            "{unquoted}: document 1: metadata.labels[...]: Expected",
        ),
        ("simulate cluster --pods {no_pods} --cluster {cluster}", "{no_pods}: no Pod in it"),
        (
            "simulate cluster --pods {twice} --cluster {cluster}",
            "{twice}: Pod default/a is in the file twice",
        ),
        (
            "simulate cluster --pods {bound} --cluster {cluster}",
            "{bound}: Pod default/busy is on node a100-2",
        ),
        (
            "simulate cluster --pods {bound} --cluster {cluster} --policy fgd",
            "{bound}: Pod default/busy is on node a100-2",
        ),
        # A configuration with mistakes.
        ("check-config {typo}", "{typo}: filter.maxCandidate: unknown key"),
        ("check-config {bounds}", "{bounds}: memory.headroomPercent: Expected"),
        (
            "inventory --inventory {cluster} --config {duration}",
            "{duration}: inventory.staleAfter: 'soon' is no",
        ),
        # No cluster.
        ("inventory --kubeconfig {missing}", f"kubeconfig {{missing}}: {{missing}}: {GONE}"),
        ("nodes --kubeconfig {missing}", f"kubeconfig {{missing}}: {{missing}}: {GONE}"),
    ],
)
def test_errors_are_one_line(
    cluster: Path, written: Written, tmp_path: Path, arguments: str, problem: str
) -> None:
    files = {name: written(f"{name}.yaml", text) for name, text in FILES.items()}
    files |= {
        "cluster": cluster,
        "missing": tmp_path / "missing",
        "cpu": written("cpu.yaml", json.dumps(node("cpu-1"))),
    }
    message = error_of(run(*(each.format_map(files) for each in arguments.split())))
    assert message.startswith(problem.format_map(files))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("bogus", "No such command 'bogus'"),
        ("simulate nothing", "No such command 'nothing'"),
        ("check-config", "Missing argument"),
        ("inventory --inventory x --bogus", "No such option"),
        ("inventory --inventory x -o xml", "'xml' is not one of"),
        ("explain --inventory x", "Missing option '-f'"),
        (
            "explain -f - --inventory -",
            "-: standard input can be read only once; give a file for one of the two",
        ),
        ("serve", "nothing to read from: give one of --inventory, --kubeconfig, --in-cluster"),
        ("serve --inventory x --kubeconfig y", "--inventory and --kubeconfig are too many"),
        ("serve --kubeconfig y --in-cluster", "--kubeconfig and --in-cluster are too many"),
        (
            "serve --inventory -",
            "--inventory -: serve reads its inventory again when it changes; give a file",
        ),
        ("serve --inventory x --listen 8888", "'8888'"),
        ("serve --inventory x --listen 127.0.0.1:70000", "127.0.0.1:70000"),
        ("serve --inventory x --log-format xml", "'xml' is not one of"),
        (
            "serve --inventory x --lease a/b",
            "--lease: an inventory file has no cluster to lead; leave it out",
        ),
        ("serve --kubeconfig x --lease b", "'b' is no NAMESPACE/NAME"),
        ("serve --kubeconfig x --lease a/b/c", "'a/b/c' is no NAMESPACE/NAME"),
        ("serve --kubeconfig x --lease /b", "'/b' is no NAMESPACE/NAME"),
        ("inventory", "nothing to read from: give one of --inventory, --kubeconfig"),
        ("inventory --inventory x --kubeconfig y", "--inventory and --kubeconfig are too many"),
        ("inventory --inventory x --context y", "--context: an inventory file has no contexts"),
        ("nodes", "no kubeconfig: give --kubeconfig, or set KUBECONFIG"),
        ("simulate cluster --pods x", "give one of --cluster, --kubeconfig"),
        ("simulate cluster --pods x --cluster y --kubeconfig z", "give one of --cluster, --kubeconfig"),
        ("replay x", "nothing to explain: give one of --pod, -f"),
        ("demo --port 65534", "65534 is not in the range 0<=x<=65533"),
        ("completion cmd", "'cmd' is not one of"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: str, problem: str) -> None:
    result = run(*arguments.split(), stdin=json.dumps(pod("p")).encode())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: scheduler-ext")
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["explain -f", "capacity -f", "simulate cluster --pods"])
@pytest.mark.parametrize("asked", [{WHOLE: "64"}, {SHARE: "8Gi"}, {WHOLE: "two"}])
def test_a_pod_that_would_not_fit_or_cannot_be_read_is_exit_3(
    cluster: Path, written: Written, command: str, asked: dict[str, str]
) -> None:
    flag = "--cluster" if "simulate" in command else "--inventory"
    result = run(*command.split(), written("pod.yaml", pod("p", asked)), flag, cluster)
    assert (result.exit_code, result.stderr) == (3, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "-f", "BOMB", "--inventory", "CLUSTER"),
        ("inventory", "--inventory", "BOMB"),
        ("check-config", "BOMB"),
    ],
)
def test_bombs_end_in_one_line(cluster: Path, written: Written, arguments: tuple[str, ...]) -> None:
    path = written("bomb.yaml", BOMBS[min(BOMBS)])
    given = ({"BOMB": str(path), "CLUSTER": str(cluster)}.get(each, each) for each in arguments)
    assert error_of(run(*given)).startswith(f"{path}: YAML, line ")


def test_a_configuration_that_is_fine_with_a_note_on_a_model_that_the_table_lacks(written: Written) -> None:
    path = written("config.yaml", CONFIGURED | {"values": {"h100": 2, "H100-80GB": 3, "H10": 4, "A100": 1}})
    result = run("check-config", path)
    assert (result.exit_code, result.stdout) == (0, f"{path}: ok\n")
    assert result.stderr.splitlines() == [
        "Note: values.H10: the shipped table has no such model; it counts for GPUs of this name"
    ]


def test_version() -> None:
    assert run("--version").stdout == f"scheduler-ext, version {__version__}\n"
