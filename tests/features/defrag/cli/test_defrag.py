"""scheduler-ext defrag: its forms, its exit codes, and its sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from tests.cli.commands import CONFIGURED, WHOLE, Written, error_of, run, saved, serving
from tests.explain.explaining import mig
from tests.features.defrag.planning import MIG_HALF, mig_node, whole_node, whole_pod
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, owned, pod

OBJECTS = [
    *whole_node("a", 2, "x"),
    *whole_node("b", 2, "y"),
    whole_pod("x", "a"),
    whole_pod("y", "b", priority=5),
    pod("w", {WHOLE: "2"}),
    pod("v", {WHOLE: "8"}),
]


@pytest.fixture
def fragmented(written: Written) -> Path:
    return written("fragmented.json", inventory(*OBJECTS))


def answered(*args: str | Path, status: int = 0) -> Json:
    result = run("defrag", *args, "-o", "json")
    assert result.exit_code == status, result.output
    answer: Json = json.loads(result.stdout)
    return answer


FULL = [*whole_node("a", 2, "x"), pod("w", {WHOLE: "2"})]
SINGLE = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    "nvidia.com/gpu.count": "7",
    "nvidia.com/mig.strategy": "single",
}
AMD = {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}
ENDING = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
NO_WHOLE_ONES = "1 free GPU on one node: no plan. Nearest now: node a offers MIG instances in place of GPUs."


@pytest.mark.parametrize(
    ("objects", "wanted", "status", "said"),
    [
        pytest.param(OBJECTS, "w", 0, "Pod default/w: fits on node a after 1 move.", id="a pod"),
        pytest.param(OBJECTS, "2", 0, "2 free GPUs on one node: fits on node a after 1 move.", id="GPUs"),
        pytest.param(OBJECTS, "v", 3, "Pod default/v: no plan. Nearest now: ", id="no plan"),
        pytest.param(
            [node("a", {"amd.com/gpu": "8"}, labels=AMD)],
            "8",
            0,
            "8 free GPUs on one node: fits already, on node a; no move is needed.",
            id="GPUs that the cluster has",
        ),
        pytest.param(
            [node("a", {WHOLE: "4"}, labels=SINGLE)], "1", 3, NO_WHOLE_ONES, id="MIG instances by labels"
        ),
        pytest.param(
            [
                node("a", {WHOLE: "4"}),
                gpu_node("a", [gpu(0, mig=mig(("1g.10gb", 0, 1), ("1g.10gb", 1, 1)))], migStrategy="single"),
            ],
            "1",
            3,
            NO_WHOLE_ONES,
            id="MIG instances of a report",
        ),
        pytest.param(
            whole_node("a", 2, taints=ENDING),
            "2",
            3,
            "2 free GPUs on one node: no plan.",
            id="a node that ends",
        ),
        pytest.param(
            [*FULL, whole_pod("x", "a")],
            "w",
            3,
            "without default/x, but default/x would find no other place",
            id="the cheapest set that did not suffice",
        ),
        pytest.param(
            [*FULL, pod("x", {WHOLE: "1"}, on="a")],
            "w",
            3,
            "1 may not be moved: each has no controller that would create it again",
            id="pods that stay are counted by their reasons",
        ),
    ],
)
def test_verdicts(written: Written, objects: list[Json], wanted: str, status: int, said: str) -> None:
    path = written("cluster.json", inventory(*objects))
    result = run("defrag", "--for", wanted, "--inventory", path)
    assert (result.exit_code, said in result.stdout) == (status, True), result.stdout


def test_the_age_of_a_saved_pod_ends_with_the_newest_report(written: Written) -> None:
    path = written("inventory.json", saved("2026-01-05T11:55:00Z"))
    answer = answered("--for", "2", "--inventory", path, status=3)
    assert answer["staying"] == [{"reason": "is younger than 600 s", "pods": 1}]


def test_a_mistake_in_a_pod_is_blamed_on_its_file(fragmented: Path, written: Written) -> None:
    path = written("pods.yaml", pod("bad", {WHOLE: "1", "cpu": "-1"}))
    problem = error_of(run("defrag", "--inventory", fragmented, "-f", path))
    assert problem.startswith(f"{path}: Pod default/bad: cpu: a negative amount")


def test_the_value_at_risk_has_the_prices_of_costs(written: Written) -> None:
    moved, asking = owned(pod("x", {MIG_HALF: "1"}, on="m")), pod("w", {MIG_HALF: "2"})
    path = written("mig.json", inventory(*mig_node("m", "x"), *mig_node("n", "y"), moved, asking))
    config = written("config.yaml", CONFIGURED | {"cost": {"perUnit": 2.0, "currency": "EUR"}})
    answer = answered("--for", "w", "--inventory", path, "--config", config)
    # An A100 counts 3.4, and x holds one of two instances.
    assert [move["valueAtRisk"] for move in answer["moves"]] == [3.4 / 2 * 2.0]
    assert answer["currency"] == "EUR"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param(
            {"spec": {"schedulingGates": [{"name": "quota"}]}},
            "pod default/w goes on waiting until its scheduling gates are gone",
            id="scheduling gates",
        ),
        pytest.param(
            {
                "metadata": {
                    "annotations": {
                        "gpu.scheduler-ext.io/gang": "train",
                        "gpu.scheduler-ext.io/gang-size": "2",
                    }
                }
            },
            "pod default/w starts with all 2 pods of gang default/train, and a plan is made for each pod by",
            id="a member of a gang",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "c"}},
            "preemption already makes room for pod default/w on node c",
            id="a pod for which others are being evicted",
        ),
        pytest.param(
            {"spec": {"schedulerName": "default-scheduler"}},
            "pod default/w may go on waiting: its schedulerName is default-scheduler, which has not asked",
            id="another scheduler",
        ),
    ],
)
def test_a_pod_that_moves_would_not_help_is_noted_and_moves_nothing(
    tmp_path: Path, change: Json, note: str
) -> None:
    waiting = pod("w", {WHOLE: "2"})
    for part, fields in change.items():
        waiting[part] = waiting.get(part, {}) | fields
    with serving(*OBJECTS[:-2], *whole_node("c", 2, "z"), whole_pod("z", "c"), waiting) as server:
        options = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"), "--min-age", "0s")
        planned = answered("--for", "w", *options)
        assert len(planned["moves"]) == 1
        assert any(each.startswith(note) for each in planned["notes"])
        refused = run("defrag", "--for", "w", "--execute", *options)
        assert (refused.exit_code, refused.stdout.count("FREES")) == (1, 1)
        assert f"nothing was moved: {note}" in refused.stderr
        assert not server.log.all(lambda request: request.method != "GET")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("", 2, "nothing to make room for: give one of --for, -f"),
        ("--for w -f x", 2, "--for and -f are too many"),
        ("--for 0", 2, "--for 0: give 1 to 1024 GPUs"),
        ("--for w --execute", 2, "--execute: needs a live cluster"),
        ("--for x", 1, "pod default/x is on node a already"),
        ("--for ²", 1, "there is no such pod that waits"),
        pytest.param(f"--for {'9' * 5000}", 1, "there is no such pod that waits", id="a very long number"),
    ],
)
def test_errors(fragmented: Path, arguments: str, status: int, message: str) -> None:
    result = run("defrag", *arguments.split(), "--inventory", fragmented)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr


def test_budgets_of_a_live_cluster_count(tmp_path: Path) -> None:
    budget: dict[str, Any] = {
        "metadata": {"name": "all", "namespace": "default", "uid": "b"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    with serving(*OBJECTS) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        options = ("--for", "w", "--kubeconfig", kubeconfig, "--min-age", "0s")
        (move,) = answered(*options)["moves"]
        assert move["from"]["devices"] == ["GPU-a-0"]
        server.store.put("/apis/policy/v1/poddisruptionbudgets", budget)
        assert answered(*options, status=3)["staying"] == [
            {"reason": "has a PodDisruptionBudget that allows no disruption now", "pods": 2}
        ]


def test_a_run_is_refused_where_another_holds_room_also_without_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test server reviews no rights, and has no /version.
    held = "node a holds room for default/w until 2099-01-01T00:00:00Z"
    monkeypatch.setattr("scheduler_ext.features.defrag.command.missing_rights", lambda *_: [])
    monkeypatch.setattr("scheduler_ext.features.defrag.live_rooms.LiveRooms.left", lambda *_: [held])
    room = [{"for": "default/w", "until": "2099-01-01T00:00:00Z"}]
    report, there = whole_node("a", 2)
    report["metadata"]["annotations"] = {HELD_ANNOTATION: json.dumps(room)}
    with serving(report, there, *(pod(name, {WHOLE: "2"}) for name in "wv")) as server:
        options = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
        planned = answered("--for", "v", *options, status=3)
        assert any("holds room on a for pod default/w" in note for note in planned["notes"])
        refused = run("defrag", "--for", "v", "--execute", *options)
    assert refused.exit_code == 1
    assert f"another run is under way: {held}" in refused.stderr


def test_features_of_the_waiting_pod_that_are_not_modelled_are_noted(
    fragmented: Path, written: Written
) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    asking = pod("new", {WHOLE: "2"})
    asking["spec"]["topologySpreadConstraints"] = [spread]
    notes = answered("-f", written("pod.yaml", asking), "--inventory", fragmented)["notes"]
    assert "not modelled here for pod default/new: topology spread constraints" in notes
