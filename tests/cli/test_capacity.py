"""scheduler-ext capacity: its forms, its exit codes, and the content of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import FORMS, WHOLE, Written, error_of, run
from tests.kube_objects import SHARE, gpu, gpu_node, inventory, node, pod


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_how_many_fit(cluster: Path, written: Written, form: str) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    result = run("capacity", "-f", asking, "--inventory", cluster, "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    answer = FORMS[form](result.stdout)
    assert (answer["kind"], answer["total"]) == ("Capacity", sum(each["count"] for each in answer["nodes"]))
    assert answer["nodes"][0] == {
        "node": "labels-1",
        "count": 8,
        "gpus": 8,
        "limit": "Insufficient nvidia.com/gpu per device",
    }


@pytest.mark.parametrize("form", ["json", "table", "wide"])
@pytest.mark.parametrize("asked", [{WHOLE: "64"}, {SHARE: "8Gi"}])
def test_none_fits(cluster: Path, written: Written, form: str, asked: dict[str, str]) -> None:
    result = run("capacity", "-f", written("p.yaml", pod("p", asked)), "--inventory", cluster, "-o", form)
    assert (result.exit_code, result.stderr) == (3, "")


def test_a_cluster_without_nodes_is_reported(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory())
    result = run("capacity", "-f", written("pod.yaml", pod("p", {WHOLE: "1"})), "--inventory", path)
    assert error_of(result).startswith(f"{path}: no Node and no GPUNode in it; ")


def test_the_table_says_what_limits(tmp_path: Path, written: Written) -> None:
    cluster = tmp_path / "inventory.json"
    cluster.write_bytes(inventory(gpu_node("a100-1", [gpu(0)]), node("a100-1", {SHARE: "73728"})))
    asking = written("pod.yaml", pod("p", {SHARE: "30000"}))
    lines = run("capacity", "-f", asking, "--inventory", cluster).stdout.splitlines()
    assert lines[:4] == [
        "Pod default/p asks 30000 MiB for main",
        "Additional pods that fit: 2",
        "GPUs that they use: 1",
        "Next pod blocked by: Insufficient GPU memory on one device on a100-1 "
        "(GPU-0: needs 30000, has 13728 MiB)",
    ]
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines[5:]}
    assert rows["NODE"] == ["COUNT", "GPUS   LIMIT"]
    assert rows["a100-1"] == ["2", "1      Insufficient GPU memory on one device"]


def test_nodes_that_take_none_are_many_and_shown_on_request(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(inventory(*(gpu_node(f"n{i:02}", [gpu(0, f"GPU-{i}")]) for i in range(25))))
    asking = written("pod.yaml", pod("p", {WHOLE: "2"}))
    short, wide = (
        run("capacity", "-f", asking, "--inventory", path, "-o", o).stdout for o in ("table", "wide")
    )
    assert "and 15 nodes that take none; -o wide shows them" in short
    assert "n24" in wide
    assert "n24" not in short


def test_no_limit_and_notes_are_shown(cluster: Path, written: Written) -> None:
    asking = pod("p", {}, annotations={"gpu.scheduler-ext.io/modle": "T4"}, schedulingGates=[{"name": "g"}])
    output = run("capacity", "-f", written("pod.yaml", asking), "--inventory", cluster).stdout
    assert "Additional pods that fit: no limit is known" in output
    assert "Note: annotation gpu.scheduler-ext.io/modle: unknown, does nothing" in output
    assert "Note: not modelled here, kube-scheduler may decide otherwise: scheduling gates" in output


def test_names_do_not_act_on_the_terminal(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node("n\x1b[31m", [gpu(0, "GPU-\x1b]0;x")])))
    asking = written("pod.yaml", pod("p\x1b[2J", {SHARE: "30000"}))
    assert "\x1b" not in run("capacity", "-f", asking, "--inventory", path).stdout


def test_errors_name_the_file(cluster: Path, written: Written) -> None:
    missing = error_of(run("capacity", "-f", "/nowhere.yaml", "--inventory", cluster))
    assert missing == "/nowhere.yaml: No such file or directory"
    path = written("pod.yaml", pod("p", {"cpu": "lots"}))
    message = error_of(run("capacity", "-f", path, "--inventory", cluster))
    assert message.startswith(f"{path}: Pod default/p: cpu: quantity 'lots'")
    assert run("capacity", "-f", path).exit_code == 2
