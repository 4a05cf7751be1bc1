"""scheduler-ext explain: its forms, its exit codes, and the pods it cannot use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import FORMS, WHOLE, Written, error_of, run
from tests.kube_objects import SHARE, Json, inventory, pod
from tests.pages import SAMPLE


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_fits(cluster: Path, written: Written, form: str) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    result = run("explain", "-f", asking, "--inventory", cluster, "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    explanation = FORMS[form](result.stdout)
    assert (explanation["kind"], explanation["fits"]) == ("Explanation", True)
    assert explanation["nodes"][0]["node"] in explanation["best"]


@pytest.mark.parametrize(
    "asking",
    [
        pytest.param(pod("p", {WHOLE: "64"}), id="too many GPUs"),
        pytest.param(pod("p", {SHARE: "8Gi"}), id="an invalid share"),
        pytest.param(pod("p", {WHOLE: "two"}), id="an unreadable quantity"),
    ],
)
@pytest.mark.parametrize("form", ["json", "table", "wide"])
def test_would_not_fit(cluster: Path, written: Written, asking: Json, form: str) -> None:
    result = run("explain", "-f", written("pod.yaml", asking), "--inventory", cluster, "-o", form)
    assert (result.exit_code, result.stderr) == (3, "")
    if form == "json":
        assert json.loads(result.stdout)["fits"] is False
    else:
        assert "Fits nowhere: " in result.stdout


def test_a_cluster_without_nodes_is_reported(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory())
    result = run("explain", "-f", written("pod.yaml", pod("p", {WHOLE: "1"})), "--inventory", path)
    assert error_of(result).startswith(f"{path}: no Node and no GPUNode in it; ")


def test_standard_input(cluster: Path) -> None:
    text = json.dumps(pod("from-stdin", {WHOLE: "1"})).encode()
    result = run("explain", "-f", "-", "--inventory", cluster, "-o", "json", stdin=text)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["pod"] == {"namespace": "default", "name": "from-stdin"}


def test_the_table_has_the_numbers(cluster: Path, written: Written) -> None:
    asking = written("pod.yaml", pod("p", {SHARE: "60000"}))
    output = run("explain", "-f", asking, "--inventory", cluster, "-o", "wide").stdout
    assert "Pod default/p asks 60000 MiB for main" in output
    assert "Fits; best: a100-1" in output
    rows = {line.split()[0]: line for line in reversed(output.splitlines()) if line}
    assert "main: GPU-0 60000 MiB" in rows["a100-1"]
    assert "Insufficient GPU memory on one device" in rows["a100-2"]
    assert "labels only" in rows["labels-1"]


def test_the_table_has_the_preference_of_a_pod_that_states_one(cluster: Path, written: Written) -> None:
    def table(**spec: Any) -> list[list[str]]:
        asking = written("pod.yaml", pod("p", {WHOLE: "1"}, **spec))
        output = run("explain", "-f", asking, "--inventory", cluster, "-o", "wide").stdout
        return [line.split() for line in output.splitlines() if line.startswith(("NODE", "labels-1"))]

    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["labels-1"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert "PREFERENCE" not in table()[0]
    header, row, *_ = table(affinity=affinity)
    assert (header[:3], row[:3]) == (["NODE", "VERDICT", "PREFERENCE"], ["labels-1", "fits", "100"])


def test_the_table_has_the_terms_that_have_a_weight(written: Written) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}, tolerations=[{"operator": "Exists"}]))
    explanation = json.loads(run("explain", "-f", asking, "--inventory", SAMPLE, "-o", "json").stdout)
    output = run("explain", "-f", asking, "--inventory", SAMPLE, "-o", "wide").stdout
    columns = {f"{term['name']} x{term['weight']:.2f}" for term in explanation["nodes"][0]["terms"]}
    weightless = {column for column in columns if column.endswith(" x0.00")}
    assert weightless, "every score of this pod has a weight: take another pod"
    assert all((column in output) == (column not in weightless) for column in columns)


def test_the_table_has_model_and_free_gpus_of_each_node(cluster: Path, written: Written) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    output = run("explain", "-f", asking, "--inventory", cluster, "-o", "wide").stdout
    header, *rows = output.split("\n\n")[1].splitlines()
    start, end = header.index("MODEL"), header.index("REASON OR DEVICES")
    assert {row.split()[0]: " ".join(row[start:end].split()) for row in rows} == {
        # One of the two GPUs is sick.
        "a100-1": "A100-80GB 1 of 2",
        "a100-2": "A100-80GB 0 of 1",
        "labels-1": "H100-80GB 8 of 8",
        "mig-1": "A100-80GB 1 of 1",
        "cpu-1": "- 0 of 0",
    }


def test_notes_are_printed(cluster: Path, written: Written) -> None:
    asking = pod("p", {}, annotations={"gpu.scheduler-ext.io/modle": "T4"}, schedulingGates=[{"name": "g"}])
    output = run("explain", "-f", written("pod.yaml", asking), "--inventory", cluster).stdout
    assert "Note: annotation gpu.scheduler-ext.io/modle: unknown, does nothing" in output
    assert "Note: not modelled here, kube-scheduler may decide otherwise: scheduling gates" in output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("kind: [", "neither YAML nor JSON", id="broken YAML"),
        pytest.param("", "empty", id="an empty file"),
        pytest.param("kind: Service", "no Pod in it; a Service has no pod template", id="no pod"),
        pytest.param(yaml.safe_dump_all([pod("a"), pod("b")]), "2 pods in it; choose one: a, b", id="two"),
    ],
)
def test_pod_files_that_cannot_be_used(cluster: Path, written: Written, text: str, problem: str) -> None:
    path = written("pod.yaml", text)
    message = error_of(run("explain", "-f", path, "--inventory", cluster))
    assert message.startswith(f"{path}: ")
    assert problem in message


def test_quantities_of_the_wrong_type_are_an_error(cluster: Path, written: Written) -> None:
    path = written("pod.yaml", pod("p", {WHOLE: True}))
    message = error_of(run("explain", "-f", path, "--inventory", cluster))
    assert message.startswith(f"{path}: Pod default/p: container 'main': nvidia.com/gpu: expected a quantity")


def test_names_do_not_act_on_the_terminal(cluster: Path, written: Written) -> None:
    asking = pod("x\x1b[2J\nFits; best: a100-1", {WHOLE: "64"})
    asking["metadata"]["annotations"] = {"gpu.scheduler-ext.io/mo\x1b[31mdel\n": "T4"}
    lines = run("explain", "-f", written("pod.yaml", asking), "--inventory", cluster).stdout.splitlines()
    assert lines[0] == r"Pod default/x\x1b[2J\nFits; best: a100-1 asks nvidia.com/gpu=64"
    assert lines[1].startswith(r"Note: annotation gpu.scheduler-ext.io/mo\x1b[31mdel\n: unknown")


def test_a_pod_of_many_shares_fits_in_a_line(cluster: Path, written: Written) -> None:
    containers = [{"name": f"c{i}", "resources": {"limits": {SHARE: "90000"}}} for i in range(60)]
    asking = written("pod.yaml", pod("p", containers=containers))
    first = run("explain", "-f", asking, "--inventory", cluster).stdout.splitlines()[0]
    assert first.endswith("90000 MiB for c7, and 52 more shares")


def test_many_models_fit_in_a_line(cluster: Path, written: Written) -> None:
    models = ",".join(f"GTX-{i}" for i in range(300))
    asking = pod("p", {WHOLE: "1"}, annotations={"gpu.scheduler-ext.io/model": models})
    output = run("explain", "-f", written("pod.yaml", asking), "--inventory", cluster).stdout
    told = output.split("\n\n")[0].splitlines()
    named = ",".join(f"GTX-{i}" for i in range(8))
    assert f"  - No node has a GPU of model {named} and 292 more" in told
    assert max(map(len, told)) < 300
