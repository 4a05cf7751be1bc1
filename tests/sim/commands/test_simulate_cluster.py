"""scheduler-ext simulate cluster: its forms, exit codes, order, and refused files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import WHOLE, Written, error_of, run
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod


def lot(*pods: Json) -> str:
    return yaml.safe_dump_all(pods)


def test_wide_names_all_the_pods_of_a_note(cluster: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(*(pod(f"p{n}", schedulingGates=[{"name": "g"}]) for n in range(7))))
    asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods)
    assert "default/p4 and 2 more)" in run(*asked).stdout
    assert "default/p5, default/p6)" in run(*asked, "-o", "wide").stdout


def test_victims_and_notes_are_in_the_table(written: Written) -> None:
    objects = [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}), pod("x", {WHOLE: "1"}, on="n")]
    path = written("inventory.json", inventory(*objects))
    asking = pod("p", {WHOLE: "1"}, priority=9, schedulingGates=[{"name": "g"}])
    pods = written("pods.yaml", lot(asking))
    output = run("simulate", "cluster", "--cluster", path, "--pods", pods).stdout
    assert "1 of 1 pods fit; 1 are evicted for them" in output
    assert (
        "Note: not modelled here, kube-scheduler may decide otherwise: scheduling gate g: the component "
        "that set it has to remove it (default/p)" in output
    )
    assert output.splitlines()[-1].endswith("default/x")


@pytest.mark.parametrize(("order", "placed"), [("file", "first"), ("priority", "second")])
def test_the_order_is_that_of_the_file_unless_asked(written: Written, order: str, placed: str) -> None:
    path = written("inventory.json", inventory(gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})))
    never: Json = {"preemptionPolicy": "Never"}
    pods = lot(pod("first", {WHOLE: "1"}, **never), pod("second", {WHOLE: "1"}, priority=5, **never))
    result = run(
        *("simulate", "cluster", "--cluster", path, "--order", order, "-o", "json"),
        *("--pods", written("pods.yaml", pods)),
    )
    items = json.loads(result.stdout)["items"]
    assert [item["pod"] for item in items if item["node"]] == [f"default/{placed}"]


# 3.40 US dollars for an A100-80GB.
NEW = lot(pod("one", {WHOLE: "1"}), pod("two", {WHOLE: "2"}))


@pytest.fixture
def half_full(written: Written) -> Path:
    nodes = [gpu_node(name, [gpu(0), gpu(1)]) for name in "ab"]
    return written("half-full.json", inventory(*nodes, pod("held", {WHOLE: "1"}, on="b")))


def test_policies_are_compared(half_full: Path, written: Written, tmp_path: Path) -> None:
    pods = written("pods.yaml", NEW + "---\n" + lot(pod("mig", {"nvidia.com/mig-1g.10gb": "1"})))
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods)
    output, _, legend = run(*asked, "--policy", "best-fit,first-fit", "-o", "wide").stdout.rpartition("\n\n")
    assert legend == "ALLOCATED and FRAGMENTED: of all GPUs, with the running pods. VALUE/H: USD per hour.\n"
    note, _, *rows = output.splitlines()
    assert note == "Note: 1 pod is left out: MIG instances"
    assert [re.split(r"  +", row) for row in rows] == [
        [
            "POLICY",
            "PODS PLACED",
            "GPUS PLACED",
            "ALLOCATED %",
            "ALLOCATED VALUE/H",
            "FRAGMENTED %",
            "NOT PLACED",
        ],
        ["best-fit", "2 of 2", "3.00", "100.00", "13.60", "0.00"],
        ["first-fit", "1 of 2", "1.00", "50.00", "6.80", "16.67", "default/two"],
    ]
    assert run(*asked, "--policy", "best-fit", "-o", "name").stdout == "policy/best-fit\n"
    assert run(*asked, "--policy", "default").stdout == run(*asked).stdout, "alone it is no comparison"
    done = run(*asked, "--policy", "best-fit,first-fit", "-o", "json", "--out", tmp_path / "out")
    assert (done.exit_code, done.stdout) == (3, "")
    comparison = json.loads((tmp_path / "out").read_text())
    assert (comparison["kind"], comparison["notModelled"]) == (
        "PolicyComparison",
        ["1 pod is left out: MIG instances"],
    )
    assert [item["notPlaced"] for item in comparison["items"]] == [[], ["default/two"]]


def test_a_policy_of_a_file_and_its_mistakes(half_full: Path, written: Written, tmp_path: Path) -> None:
    text = (
        "from scheduler_ext.sim.policies.published import BestFit\nclass Mine(BestFit):\n"
        "    def evaluate(self, kind, nodes):\n        return super().evaluate(kind, nodes)\n"
    )
    mine = tmp_path / "mine.py"
    mine.write_text(text)
    pods = written("pods.yaml", NEW)
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods, "-o", "json", "--policy", mine)
    (item,) = json.loads(run(*asked).stdout)["items"]
    assert (item["policy"], item["podsPlaced"]) == ("mine", 2)
    mine.write_text(text.replace("return super()", "return supper()"))
    assert error_of(run(*asked)) == f"{mine}, line 4: NameError: name 'supper' is not defined"
