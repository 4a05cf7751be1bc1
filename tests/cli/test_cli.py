"""The command line: output forms, exit codes, and errors of one line that name file and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_ext import __version__
from scheduler_ext.core.filters import REASONS
from tests.cli.commands import FORMS, WHOLE, Written, error_of, run
from tests.kube_objects import Json, gpu, gpu_node, node, pod


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(["inventory"], ["a100-1", "a100-2", "labels-1", "mig-1"], id="nodes with GPUs"),
        pytest.param(["explain", "-f", "-"], ["labels-1"], id="where a pod fits, best first"),
        pytest.param(["capacity", "-f", "-"], ["labels-1"], id="what takes one more"),
    ],
)
def test_names_alone(cluster: Path, arguments: list[str], named: list[str]) -> None:
    asking = json.dumps(pod("p", {WHOLE: "4"})).encode()
    result = run(*arguments, "--inventory", cluster, "-o", "name", stdin=asking)
    assert (result.exit_code, result.stdout.splitlines()) == (0, [f"node/{name}" for name in named])


class TestInventory:
    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_structured(self, cluster: Path, form: str) -> None:
        result = run("inventory", "--inventory", cluster, "-o", form)
        assert (result.exit_code, result.stderr) == (0, "")
        listing = FORMS[form](result.stdout)
        assert (listing["apiVersion"], listing["kind"]) == ("cli.scheduler-ext.io/v1alpha1", "InventoryList")
        assert [item["node"] for item in listing["items"]] == ["a100-1", "a100-2", "labels-1", "mig-1"]

    def test_table(self, cluster: Path) -> None:
        result = run("inventory", "--inventory", cluster)
        header, *rows = [line.split("   ") for line in result.stdout.splitlines()]
        assert header[0] == "NODE"
        cells = {row[0].strip(): " ".join(" ".join(row[1:]).split()) for row in rows}
        assert cells == {
            "a100-1": "Fresh report 2 1 0 0 A100-80GB 81920 of 163840 -",
            "a100-2": "Fresh report 1 0 0 0 A100-80GB 0 of 81920 -",
            "labels-1": "Fresh labels 8 0 0 0 H100-80GB unknown -",
            "mig-1": "Fresh report 1 0 0 0 A100-80GB 81920 of 81920 1x1g.10gb",
        }

    def test_wide_has_a_row_per_gpu(self, cluster: Path) -> None:
        lines = run("inventory", "--inventory", cluster, "-o", "wide").stdout.splitlines()
        assert len(lines) == 1 + 2 + 1 + 8 + 1
        assert [line.split()[0] for line in lines[1:4]] == ["a100-1", "a100-1", "a100-2"]
        assert "Unhealthy" in lines[2]

    def test_wide_shows_what_gpus_do(self, written: Written) -> None:
        busy, idle = (
            gpu(0, utilizationPercent=97, idleSeconds=0),
            gpu(1, utilizationPercent=0, idleSeconds=7200),
        )
        path = written("doing.yaml", gpu_node("n", [busy, idle, gpu(2)]))
        header, *rows = run("inventory", "--inventory", path, "-o", "wide").stdout.splitlines()
        assert header.endswith("BUSY %   IDLE")
        assert [row.split()[-2:] for row in rows] == [["97", "0s"], ["0", "2h"], ["-", "-"]]

    def test_the_configuration_counts(self, cluster: Path, written: Written) -> None:
        config = written(
            "config.yaml",
            {
                "apiVersion": "config.scheduler-ext.io/v1alpha1",
                "kind": "ExtenderConfiguration",
                "resources": {"wholeGpu": ["example.com/gpu"]},
            },
        )
        listing = json.loads(
            run("inventory", "--inventory", cluster, "--config", config, "-o", "json").stdout
        )
        held = {item["node"]: item["devices"][0]["memory"]["requestedMiB"] for item in listing["items"]}
        # The sample pod requests a resource that this configuration lacks.
        assert held["a100-2"] == 0

    def test_an_empty_cluster(self, written: Written) -> None:
        path = written("empty.yaml", {"kind": "List", "items": []})
        problem = error_of(run("inventory", "--inventory", path, "-o", "json"))
        assert problem.startswith(f"{path}: no Node and no GPUNode in it; `kubectl get gpunodes,nodes,pods")


@pytest.mark.parametrize("command", ["inventory", "explain"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("kind: [", "neither YAML nor JSON", id="broken YAML"),
        pytest.param("kind: Node", "document 1: Node without metadata.name", id="no name"),
        pytest.param(
            json.dumps(gpu_node("n", [gpu(0), gpu(0, "GPU-1")])),
            "GPUNode n: status.devices[1].index: 0 is that of devices[0].index already",
            id="a report that contradicts itself",
        ),
        pytest.param(
            json.dumps(gpu_node("n", [gpu(0, computeCapability=8.0)])),
            "GPUNode n: status.devices[0].computeCapability: Expected",
            id="a field of the wrong type",
        ),
        pytest.param(
            json.dumps(node("n", {WHOLE: "many"})), "Node n: status: nvidia.com/gpu:", id="an amount"
        ),
    ],
)
def test_inventories_that_cannot_be_read_are_one_line(
    written: Written, command: str, text: str, problem: str
) -> None:
    path = written("inventory.yaml", text)
    asking: list[str | Path] = ["-f", written("pod.yaml", pod("p"))] if command == "explain" else []
    message = error_of(run(command, *asking, "--inventory", path))
    assert message.startswith(f"{path}: ")
    assert problem in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.yaml"
    assert error_of(run("inventory", "--inventory", path)) == f"{path}: No such file or directory"
    assert error_of(run("check-config", path)) == f"{path}: No such file or directory"


class TestCheckConfig:
    def test_ok(self, written: Written) -> None:
        path = written(
            "config.yaml",
            {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"},
        )
        result = run("check-config", path)
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}: ok\n", "")

    def test_values_of_models_that_the_table_lacks_are_noted(self, written: Written) -> None:
        kind = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
        path = written("config.yaml", kind | {"values": {"h100": 2, "H100-80GB": 3, "H10": 4, "A100": 1}})
        result = run("check-config", path)
        assert (result.exit_code, result.stdout) == (0, f"{path}: ok\n")
        said = "the shipped table has no such model; it counts for GPUs of this name"
        assert result.stderr == f"Note: values.H10: {said}\n"

    @pytest.mark.parametrize(
        ("section", "problem"),
        [
            pytest.param({"filter": {"maxCandidate": 5}}, "filter.maxCandidate: unknown key", id="a typo"),
            pytest.param(
                {"memory": {"headroomPercent": 91}}, "memory.headroomPercent: Expected", id="out of bounds"
            ),
            pytest.param(
                {"inventory": {"staleAfter": "soon"}}, "inventory.staleAfter: 'soon' is no", id="no duration"
            ),
        ],
    )
    @pytest.mark.parametrize("command", ["check-config", "inventory"])
    def test_mistakes(
        self, written: Written, cluster: Path, section: Json, problem: str, command: str
    ) -> None:
        header = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
        path = written("config.yaml", header | section)
        args: list[str | Path] = (
            [path] if command == "check-config" else ["--inventory", cluster, "--config", path]
        )
        message = error_of(run(command, *args))
        assert message.startswith(f"{path}: {problem}")


class TestReasons:
    def test_every_reason_is_explained(self) -> None:
        output = run("reasons").stdout
        lines = output.splitlines()
        assert [reason.text for reason in REASONS if reason.text not in lines] == []
        assert output.count("means: ") == output.count("do:    ") == len(REASONS)

    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_structured(self, form: str) -> None:
        listing = FORMS[form](run("reasons", "-o", form).stdout)
        assert (listing["apiVersion"], listing["kind"]) == ("cli.scheduler-ext.io/v1alpha1", "ReasonList")
        assert [item["reason"] for item in listing["items"]] == [reason.text for reason in REASONS]
        assert all(item["meaning"] and item["remedy"] for item in listing["items"])


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["bogus"], id="no such command"),
        pytest.param(["inventory"], id="no inventory"),
        pytest.param(["explain", "--inventory", "x"], id="no pod"),
        pytest.param(["inventory", "--inventory", "x", "-o", "xml"], id="no such form"),
        pytest.param(["inventory", "--inventory", "x", "--bogus"], id="no such option"),
        pytest.param(["check-config"], id="no file"),
        pytest.param(["serve"], id="serving nothing"),
        pytest.param(["serve", "--inventory", "x", "--listen", "8888"], id="a port without a host"),
        pytest.param(["serve", "--inventory", "x", "--listen", "127.0.0.1:70000"], id="a port that is none"),
        pytest.param(["serve", "--inventory", "x", "--log-format", "xml"], id="no such log format"),
    ],
)
def test_wrong_usage_is_exit_2(args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Usage: scheduler-ext")


def test_help_and_version() -> None:
    listed = run("--help").stdout
    for command in ("serve", "inventory", "explain", "reasons", "check-config"):
        assert command in listed
        assert run(command, "-h").exit_code == 0
    assert run("--version").stdout == f"scheduler-ext, version {__version__}\n"


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        pytest.param(
            b"", "-: empty; expected a Pod, a workload such as a Deployment, or a List of them", id="nothing"
        ),
        pytest.param(
            b"{}",
            "-: document 1: no kind; expected a Pod, a workload such as a Deployment, or a List of them",
            id="an object of no kind",
        ),
    ],
)
def test_other_kinds_get_a_list_of_the_accepted_ones(cluster: Path, stdin: bytes, problem: str) -> None:
    assert error_of(run("explain", "-f", "-", "--inventory", cluster, stdin=stdin)) == problem


def test_a_port_of_the_demo_leaves_room_for_the_next_two() -> None:
    result = run("demo", "--port", "65534")
    assert result.exit_code == 2
    assert "65534 is not in the range 0<=x<=65533" in result.stderr
    assert result.stderr.startswith("Usage: scheduler-ext demo ")
