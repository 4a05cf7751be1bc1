"""scheduler-ext defrag: its forms, its exit codes, and its sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from tests.cli.commands import WHOLE, Written, run
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.defrag.planning import MIG_HALF, mig_node, owned, whole_node, whole_pod
from tests.explain.explaining import mig
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod

KINDS = {"Node": NODES, "GPUNode": GPU_NODES, "Pod": PODS}
CONFIGURED: Json = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
OBJECTS = [
    *whole_node("a", 2, "x"),
    *whole_node("b", 2, "y"),
    whole_pod("x", "a"),
    whole_pod("y", "b", priority=5),
    pod("w", {WHOLE: "2"}),
    pod("v", {WHOLE: "8"}),
]


@pytest.fixture
def fragmented(tmp_path: Path) -> Path:
    path = tmp_path / "fragmented.json"
    path.write_bytes(inventory(*OBJECTS))
    return path


def answered(*args: str | Path, status: int = 0) -> Json:
    result = run("defrag", *args, "-o", "json")
    assert result.exit_code == status, result.output
    answer: Json = json.loads(result.stdout)
    return answer


@pytest.mark.parametrize("name", ["default/w", "w"])
def test_a_plan_for_a_waiting_pod(fragmented: Path, name: str) -> None:
    answer = answered("--for", name, "--inventory", fragmented)
    assert answer["fits"] is True
    assert answer["pods"][0] | {"node": "a", "moves": 1, "reason": None} == answer["pods"][0]
    (move,) = answer["moves"]
    assert move["pod"] == "default/x"
    assert move["owner"] == {"kind": "ReplicaSet", "name": "web"}
    assert move["from"] == {"node": "a", "devices": ["GPU-a-0"], "sharing": "none"}
    assert move["to"]["node"] == "b"
    assert move["frees"] == {WHOLE: 1}
    assert move["holds"] == [{"node": "a", "for": "default/w"}]
    assert answer["fragmentation"]["after"] == {"unallocatedGpus": 0.0, "unusableGpus": 0.0}
    assert (answer["movable"], answer["execution"]) == (2, None)


@pytest.mark.parametrize(
    ("asked", "status", "verdict"),
    [
        pytest.param(["--for", "2"], 0, "2 free GPUs on one node: fits on node a after 1 move.", id="N"),
        pytest.param(["--for", "v"], 3, "Pod default/v: no plan. Nearest now: ", id="no plan"),
    ],
)
def test_verdicts(fragmented: Path, asked: list[str], status: int, verdict: str) -> None:
    result = run("defrag", *asked, "--inventory", fragmented)
    assert result.exit_code == status
    assert any(line.startswith(verdict) for line in result.stdout.splitlines()), result.stdout


@pytest.mark.parametrize(
    ("labels", "nearest"),
    [
        pytest.param(
            {
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
                "nvidia.com/gpu.count": "7",
                "nvidia.com/mig.strategy": "single",
            },
            "node a offers MIG instances in place of GPUs.",
            id="MIG instances by labels",
        ),
        pytest.param({}, "node a offers MIG instances in place of GPUs.", id="MIG instances of a report"),
    ],
)
def test_parts_of_gpus_are_no_whole_ones(tmp_path: Path, labels: dict[str, str], nearest: str) -> None:
    objects = [node("a", {WHOLE: "4"}, labels=labels)]
    if not labels:
        cut = mig(("1g.10gb", 0, 1), ("1g.10gb", 1, 1))
        objects.append(gpu_node("a", [gpu(0, mig=cut)], migStrategy="single"))
    path = tmp_path / "parts.json"
    path.write_bytes(inventory(*objects))
    result = run("defrag", "--for", "1", "--inventory", path)
    assert result.exit_code == 3, result.stdout
    assert result.stdout.startswith(f"1 free GPU on one node: no plan. Nearest now: {nearest}")


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("nvidia.com/gpu", 0),
        ("node.kubernetes.io/not-ready", 3),
        ("karpenter.sh/disrupted", 3),
        ("ToBeDeletedByClusterAutoscaler", 3),
        ("gpu.scheduler-ext.io/starting", 3),
    ],
)
def test_gpus_of_nodes_that_start_or_end_are_not_free(tmp_path: Path, key: str, status: int) -> None:
    report, there = whole_node("a", 2)
    there["spec"] = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    path = tmp_path / "tainted.json"
    path.write_bytes(inventory(report, there))
    assert run("defrag", "--for", "2", "--inventory", path).exit_code == status


def test_free_gpus_are_those_that_the_cluster_has(tmp_path: Path) -> None:
    labels = {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}
    path = tmp_path / "amd.json"
    path.write_bytes(inventory(node("a", {"amd.com/gpu": "8"}, labels=labels)))
    said = run("defrag", "--for", "8", "--inventory", path)
    assert said.stdout == "8 free GPUs on one node: fits already, on node a; no move is needed.\n"


@pytest.mark.parametrize("name", ["²", "٣", "9" * 5000])
def test_what_is_no_number_is_a_name(fragmented: Path, name: str) -> None:
    result = run("defrag", "--for", name, "--inventory", fragmented)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "there is no such pod that waits" in result.stderr


def test_without_a_plan_the_cheapest_set_that_did_not_suffice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "full.json"
    path.write_bytes(inventory(*whole_node("a", 2, "x"), whole_pod("x", "a"), pod("w", {WHOLE: "2"})))
    said = run("defrag", "--for", "w", "--inventory", path).stdout
    assert "without default/x, but default/x would find no other place" in said


def test_why_other_pods_stay_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    bare = pod("x", {WHOLE: "1"}, on="a")
    path.write_bytes(inventory(*whole_node("a", 2, "x"), bare, pod("w", {WHOLE: "2"})))
    said = run("defrag", "--for", "w", "--inventory", path).stdout
    assert "even if all pods that may be moved left" in said
    assert "1 may not be moved: each has no controller that would create it again" in said


def test_the_value_at_risk_has_the_prices_of_costs(tmp_path: Path, written: Written) -> None:
    path = tmp_path / "mig.json"
    moved, asking = owned(pod("x", {MIG_HALF: "1"}, on="m")), pod("w", {MIG_HALF: "2"})
    path.write_bytes(inventory(*mig_node("m", "x"), *mig_node("n", "y"), moved, asking))
    config = written("config.yaml", CONFIGURED | {"cost": {"perUnit": 2.0, "currency": "EUR"}})
    answer = answered("--for", "w", "--inventory", path, "--config", config)
    paid = json.loads(run("cost", "--inventory", path, "--config", config, "-o", "json").stdout)
    # x and y hold one of two instances each.
    assert [2 * move["valueAtRisk"] for move in answer["moves"]] == [paid["total"]["allocated"]]
    assert answer["currency"] == paid["currency"] == "EUR"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param(
            {"spec": {"schedulingGates": [{"name": "quota"}]}},
            "pod default/w goes on waiting until its scheduling gates are gone",
            id="scheduling gates",
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
    with ApiServer() as server:
        for each in [*OBJECTS[:-2], *whole_node("c", 2, "z"), whole_pod("z", "c"), waiting]:
            server.store.put(KINDS[each["kind"]], each)
        options = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"), "--min-age", "0s")
        planned = answered("--for", "w", *options)
        assert len(planned["moves"]) == 1
        assert any(each.startswith(note) for each in planned["notes"])
        refused = run("defrag", "--for", "w", "--execute", *options)
        assert (refused.exit_code, refused.stdout.count("FREES")) == (1, 1)
        assert f"nothing was moved: {note}" in refused.stderr
        assert not server.log.all(lambda request: request.method != "GET")


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        pytest.param([], 2, "nothing to make room for: give one of --for, -f", id="nothing"),
        pytest.param(["--for", "w", "-f", "x"], 2, "--for and -f are too many", id="both"),
        pytest.param(["--for", "0"], 2, "--for 0: give 1 to 1024 GPUs", id="no GPU"),
        pytest.param(["--for", "w", "--execute"], 2, "--execute: needs a live cluster", id="a file"),
        pytest.param(["--for", "x"], 1, "pod default/x is on node a already", id="a running pod"),
    ],
)
def test_errors(fragmented: Path, args: list[str], status: int, message: str) -> None:
    result = run("defrag", *args, "--inventory", fragmented)
    assert result.exit_code == status
    assert message in result.stderr


def live(server: ApiServer, *more: tuple[str, Json]) -> None:
    for each in OBJECTS:
        server.store.put(KINDS[each["kind"]], each)
    for path, each in more:
        server.store.put(path, each)


def test_budgets_of_a_live_cluster_count(tmp_path: Path) -> None:
    budget: dict[str, Any] = {
        "metadata": {"name": "all", "namespace": "default", "uid": "b"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    with ApiServer() as server:
        live(server)
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        options = ("--for", "w", "--kubeconfig", kubeconfig, "--min-age", "0s")
        assert answered(*options)["fits"] is True
        server.store.put("/apis/policy/v1/poddisruptionbudgets", budget)
        assert answered(*options, status=3)["staying"] == [
            {"reason": "has a PodDisruptionBudget that allows no disruption now", "pods": 2}
        ]


def test_a_run_is_refused_where_another_holds_room_also_without_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test server reviews no rights, and has no /version.
    held = "node a holds room for default/w until 2099-01-01T00:00:00Z"
    monkeypatch.setattr("scheduler_ext.cli.defrag.missing_rights", lambda *_: [])
    monkeypatch.setattr("scheduler_ext.defrag.live_rooms.LiveRooms.left", lambda *_: [held])
    room = [{"for": "default/w", "until": "2099-01-01T00:00:00Z"}]
    report, there = whole_node("a", 2)
    report["metadata"]["annotations"] = {HELD_ANNOTATION: json.dumps(room)}
    with ApiServer() as server:
        for each in (report, there, pod("w", {WHOLE: "2"}), pod("v", {WHOLE: "2"})):
            server.store.put(KINDS[each["kind"]], each)
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
