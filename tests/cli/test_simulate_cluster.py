"""scheduler-ext simulate cluster: its forms, exit codes, order, and refused files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import FORMS, WHOLE, Written, error_of, run
from tests.kube_objects import SHARE, Json, gpu, gpu_node, inventory, node, pod


def lot(*pods: Json) -> str:
    return yaml.safe_dump_all(pods)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_all_fit(cluster: Path, written: Written, form: str) -> None:
    pods = written("pods.yaml", lot(pod("share", {SHARE: "30000"}), pod("one", {WHOLE: "1"})))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    simulation = FORMS[form](result.stdout)
    assert simulation["kind"] == "Simulation"
    assert [(item["pod"], item["reason"], item["victims"]) for item in simulation["items"]] == [
        ("default/share", None, []),
        ("default/one", None, []),
    ]
    assert simulation["items"][0]["devices"] == [
        {"container": "main", "uuid": "GPU-0", "profile": None, "start": None, "memoryMiB": 30000}
    ]


def test_some_do_not_fit(cluster: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(pod("p", {WHOLE: "1"}), pod("large", {WHOLE: "64"})))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods)
    assert (result.exit_code, result.stderr) == (3, "")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["1 of 2 pods fit", "Value of the GPUs that they take: 3.40 USD per hour"]
    (row,) = (line for line in lines if line.startswith("default/large"))
    assert re.split(r"   +", row)[1:] == [
        "none",
        "Insufficient nvidia.com/gpu per device",
        "needs 64, has 8 nvidia.com/gpu",
    ]


def test_names_are_those_of_the_pods_that_get_a_place_in_order(
    cluster: Path, written: Written, tmp_path: Path
) -> None:
    elsewhere = pod("b", {WHOLE: "1"})
    elsewhere["metadata"]["namespace"] = "web"
    pods = written("pods.yaml", lot(elsewhere, pod("large", {WHOLE: "64"}), pod("a", {WHOLE: "1"})))
    asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", "name")
    result = run(*asked)
    assert (result.exit_code, result.stdout) == (3, "pod/b\npod/a\n")
    out = tmp_path / "names"
    assert run(*asked, "--out", out).stdout == ""
    assert out.read_text() == result.stdout


def test_wide_shows_the_nearest_node_the_mig_instances_and_the_value(cluster: Path, written: Written) -> None:
    large, instance = pod("large", {WHOLE: "64"}), pod("instance", {"nvidia.com/mig-1g.10gb": "1"})
    pods = written("pods.yaml", lot(large, instance, pod("whole", {WHOLE: "1"})))
    asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods)
    plain, wide = (run(*asked, "-o", form).stdout.splitlines()[-4:] for form in ("table", "wide"))
    begins = wide[0].index("NEAREST NODE")
    assert [line[:begins].rstrip() for line in wide] == plain
    assert [re.split(r"  +", line[begins:]) for line in wide] == [
        ["NEAREST NODE", "MIG INSTANCES", "VALUE/H"],
        ["labels-1", "-"],
        ["", "1x1g.10gb", "3.40"],
        ["", "-", "3.40"],
    ]


def test_wide_names_all_the_pods_of_a_note(cluster: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(*(pod(f"p{n}", schedulingGates=[{"name": "g"}]) for n in range(7))))
    asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods)
    assert "default/p4 and 2 more)" in run(*asked).stdout
    assert "default/p5, default/p6)" in run(*asked, "-o", "wide").stdout


@pytest.mark.parametrize("policy", ["default", "default,first-fit"])
def test_misspellings_are_noted_once(cluster: Path, written: Written, policy: str) -> None:
    annotations = {"gpu.scheduler-ext.io/minmemory": "40Gi"}
    pods = written("pods.yaml", lot(*(pod(name, {WHOLE: "1"}, annotations=annotations) for name in "ab")))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "--policy", policy)
    assert result.exit_code == 0
    (note,) = result.stderr.splitlines()
    assert note.startswith("Note: annotation gpu.scheduler-ext.io/minmemory: unknown, does nothing; did you")
    assert note.endswith("gpu.scheduler-ext.io/min-memory? (default/a, default/b)")


def test_a_cluster_without_nodes_is_reported(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory())
    pods = written("pods.yaml", lot(pod("p", {WHOLE: "1"})))
    result = run("simulate", "cluster", "--cluster", path, "--pods", pods)
    assert error_of(result).startswith(f"{path}: no Node and no GPUNode in it; ")


def test_victims_and_notes_are_in_the_table(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "inventory.json"
    objects = [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}), pod("x", {WHOLE: "1"}, on="n")]
    path.write_bytes(inventory(*objects))
    asking = pod("p", {WHOLE: "1"}, priority=9, schedulingGates=[{"name": "g"}])
    pods = written("pods.yaml", lot(asking))
    output = run("simulate", "cluster", "--cluster", path, "--pods", pods).stdout
    assert "1 of 1 pods fit; 1 are evicted for them" in output
    assert (
        "Note: not modelled here, kube-scheduler may decide otherwise: scheduling gates (default/p)" in output
    )
    assert output.splitlines()[-1].endswith("default/x")


@pytest.mark.parametrize(("order", "placed"), [("file", "first"), ("priority", "second")])
def test_the_order_is_that_of_the_file_unless_asked(
    tmp_path: Path, written: Written, order: str, placed: str
) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})))
    never: Json = {"preemptionPolicy": "Never"}
    pods = lot(pod("first", {WHOLE: "1"}, **never), pod("second", {WHOLE: "1"}, priority=5, **never))
    result = run(
        *("simulate", "cluster", "--cluster", path, "--order", order, "-o", "json"),
        *("--pods", written("pods.yaml", pods)),
    )
    items = json.loads(result.stdout)["items"]
    assert [item["pod"] for item in items if item["node"]] == [f"default/{placed}"]


@pytest.mark.parametrize("form", ["json", "table"])
def test_the_result_goes_to_a_file(cluster: Path, written: Written, tmp_path: Path, form: str) -> None:
    pods, out = written("pods.yaml", lot(pod("p", {WHOLE: "1"}))), tmp_path / "out"
    asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", form)
    assert run(*asked, "--out", out).stdout == ""
    assert out.read_text() == run(*asked).stdout


def test_pods_come_from_standard_input(cluster: Path) -> None:
    listed = json.dumps({"kind": "List", "items": [pod("p", {WHOLE: "1"})]}).encode()
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", "-", "-o", "json", stdin=listed)
    assert [item["pod"] for item in json.loads(result.stdout)["items"]] == ["default/p"]


def test_names_do_not_act_on_the_terminal(cluster: Path, written: Written) -> None:
    asking = pod("p\x1b[2J", {WHOLE: "1"}, schedulingGates=[{"name": "g"}])
    pods = written("pods.yaml", lot(asking))
    for form in ("table", "wide", "name"):
        asked = ("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", form)
        out = run(*asked).stdout
        assert ("p\\x1b[2J" in out, "\x1b" in out) == (True, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("kind: [", "neither YAML nor JSON", id="broken YAML"),
        pytest.param("", "empty", id="an empty file"),
        pytest.param("{kind: List, items: []}", "no Pod in it", id="no pods"),
        pytest.param("{kind: Service}", "no Pod in it; a Service has no pod template", id="a Service"),
        pytest.param(lot(pod("a"), pod("a")), "Pod default/a is in the file twice", id="a pod twice"),
        pytest.param(
            lot(pod("busy", {WHOLE: "1"})),
            "Pod default/busy is on node a100-2 already; give the pods that are to come only",
            id="a pod that runs",
        ),
    ],
)
def test_pod_files_that_cannot_be_used(cluster: Path, written: Written, text: str, problem: str) -> None:
    path = written("pods.yaml", text)
    message = error_of(run("simulate", "cluster", "--cluster", cluster, "--pods", path))
    assert message.startswith(f"{path}: ")
    assert problem in message


def test_files_that_are_not_there_are_named(cluster: Path, written: Written, tmp_path: Path) -> None:
    pods = written("pods.yaml", lot(pod("p")))
    gone = "No such file or directory"
    assert (
        error_of(run("simulate", "cluster", "--cluster", "/no.yaml", "--pods", pods)) == f"/no.yaml: {gone}"
    )
    assert error_of(run("simulate", "cluster", "--cluster", cluster, "--pods", "/no")) == f"/no: {gone}"
    out = tmp_path / "nowhere" / "out.json"
    message = error_of(run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "--out", out))
    assert message == f"--out {out}: cannot be written: {gone}"


def test_one_cluster_is_asked_for(cluster: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(pod("p")))
    for given in ((), ("--cluster", cluster, "--kubeconfig", "config")):
        result = run("simulate", "cluster", "--pods", pods, *given)
        assert result.exit_code == 2
        assert "give one of --cluster, --kubeconfig" in result.stderr


COMPARED = [
    gpu_node("a", [gpu(0), gpu(1)]),
    gpu_node("b", [gpu(0), gpu(1)]),
    pod("held", {WHOLE: "1"}, on="b"),
]
# 3.40 US dollars for an A100-80GB.
NEW = lot(pod("one", {WHOLE: "1"}), pod("two", {WHOLE: "2"}))


@pytest.fixture
def half_full(tmp_path: Path) -> Path:
    path = tmp_path / "half-full.json"
    path.write_bytes(inventory(*COMPARED))
    return path


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_policies_are_compared(half_full: Path, written: Written, form: str) -> None:
    pods = written("pods.yaml", NEW)
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods, "-o", form)
    result = run(*asked, "--policy", "default,first-fit")
    assert (result.exit_code, result.stderr) == (3, "")
    comparison = FORMS[form](result.stdout)
    assert (comparison["kind"], comparison["notModelled"]) == ("PolicyComparison", [])
    assert [
        {**item, "fragmentationPercent": None, "allocatedValuePerHour": None} for item in comparison["items"]
    ] == [
        {
            "policy": policy,
            "pods": 2,
            "podsPlaced": placed,
            "gpusPlaced": gpus,
            "allocatedPercent": allocated,
            "allocatedValuePerHour": None,
            "fragmentationPercent": None,
            "notPlaced": missing,
        }
        for policy, placed, gpus, allocated, missing in (
            ("default", 2, 3.0, 100.0, []),
            ("first-fit", 1, 1.0, 50.0, ["default/two"]),
        )
    ]


def test_a_pod_that_is_left_out_is_not_placed(half_full: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(pod("one", {WHOLE: "1"}), pod("mig", {"nvidia.com/mig-1g.10gb": "1"})))
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods, "--policy", "default,fgd")
    answer = run(*asked, "-o", "json")
    assert [item["podsPlaced"] for item in json.loads(answer.stdout)["items"]] == [1, 1]
    assert answer.exit_code == 3


def test_a_comparison_is_a_table(half_full: Path, written: Written) -> None:
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


def test_a_comparison_exits_0_if_every_policy_places_all_pods(half_full: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(pod("one", {WHOLE: "1"})))
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods)
    assert run(*asked, "--policy", "default,fgd").exit_code == 0


def test_the_default_policy_alone_is_no_comparison(half_full: Path, written: Written) -> None:
    pods = written("pods.yaml", NEW)
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods)
    assert run(*asked, "--policy", "default").stdout == run(*asked).stdout


def test_a_comparison_takes_priorities_first(half_full: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(*(pod(name, {WHOLE: "2"}, priority=n) for n, name in enumerate("ab"))))
    asked = ("simulate", "cluster", "--cluster", half_full, "--pods", pods, "-o", "json", "--policy", "fgd")
    for order, missing in (("file", "default/b"), ("priority", "default/a")):
        assert json.loads(run(*asked, "--order", order).stdout)["items"][0]["notPlaced"] == [missing]


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


def test_a_comparison_of_running_pods_is_refused(half_full: Path, written: Written) -> None:
    pods = written("pods.yaml", lot(pod("held", {WHOLE: "1"})))
    message = error_of(run("simulate", "cluster", "--cluster", half_full, "--pods", pods, "--policy", "fgd"))
    assert message.startswith(f"{pods}: Pod default/held is on node b already")


def test_a_comparison_needs_gpus(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "none.json"
    path.write_bytes(inventory(node("cpu-1")))
    pods = written("pods.yaml", NEW)
    message = error_of(run("simulate", "cluster", "--cluster", path, "--pods", pods, "--policy", "fgd"))
    assert message == f"{path}: no node has a GPU that can be simulated"


def test_gangs_have_a_column_and_their_nearest_miss(cluster: Path, written: Written) -> None:
    def member(gang: str, number: int, size: int) -> Json:
        names = {"gpu.scheduler-ext.io/gang": gang, "gpu.scheduler-ext.io/gang-size": str(size)}
        return pod(f"{gang}-{number}", {WHOLE: "1"}, annotations=names)

    large = [member("large", number, 40) for number in range(40)]
    pods = written("pods.yaml", lot(member("pair", 0, 2), *large, member("pair", 1, 2)))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", "wide")
    assert (result.exit_code, result.stderr) == (3, "")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["2 of 42 pods fit", "1 of 2 gangs fit"]
    (row,) = (line for line in lines if line.startswith("default/large-7 "))
    assert re.search(r"\blarge +none +Insufficient .* \d+ of 40 members fit; \d+ × nvidia.com/gpu short", row)
