"""why, nodes, node and pods: answered by a running extender through a port-forward, and without one."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from scheduler_ext.cli import answers
from tests.cli.commands import run
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, names_body, node, pod
from tests.server.process.product import Product

WHOLE = "nvidia.com/gpu"
OURS = "/api/v1/namespaces/gpu-scheduler/pods"
DEVICES = "devices.gpu.scheduler-ext.io/"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases/gpu-scheduler"
MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-a", "profile": "3g.40gb", "start": 0, "size": 4},
        {"uuid": "MIG-b", "profile": "1g.10gb", "start": 4, "size": 1, "holder": holder("small")},
    ],
}


def objects() -> list[Json]:
    elsewhere = pod("theirs", {WHOLE: "1"}, on="busy")
    elsewhere["metadata"]["namespace"] = "research"
    return [
        *(gpu_node("busy", [gpu(0, holders=[holder("theirs") | {"namespace": "research"}])]),),
        node("busy", {WHOLE: "1"}),
        gpu_node("sick", [gpu(0, "GPU-s", health={"state": "Unhealthy", "reason": "XID 79"})]),
        node("sick", {WHOLE: "1"}),
        gpu_node("mig", [gpu(0, "GPU-m", mig=MIG)]),
        node("mig", {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"}),
        gpu_node(
            "shared",
            [
                gpu(
                    0,
                    "GPU-h",
                    memory={"totalMiB": 80000, "usedMiB": 30000, "unaccountedMiB": 10000},
                    holders=[holder("part") | {"memoryMiB": 20000}],
                )
            ],
        ),
        node("shared", {SHARE: "72000"}, labels={"gpu.scheduler-ext.io/sharing": "memory"}),
        *(elsewhere, pod("small", {"nvidia.com/mig-1g.10gb": "1"}, on="mig")),
        pod(
            "part", {SHARE: "20000"}, on="shared", annotations={"devices.gpu.scheduler-ext.io/main": "GPU-h"}
        ),
        pod("waits", {WHOLE: "1"}),
        pod("fits", {"nvidia.com/mig-3g.40gb": "1"}),
    ]


@dataclass
class World:
    """An API server with the objects, and an extender that its port-forward leads to, where there is one."""

    server: ApiServer
    kubeconfig: Path
    product: Product | None = None

    def run(self, *arguments: str) -> tuple[int, str, str]:
        done = run(*arguments, "--kubeconfig", self.kubeconfig)
        return done.exit_code, done.stdout, done.stderr

    def json(self, *arguments: str) -> Json:
        answer: Json = json.loads(self.run(*arguments, "-o", "json")[1])
        return answer


def extender_pod(name: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "gpu-scheduler"},
        "spec": {"containers": [{"name": "kube-scheduler"}, {"name": "extender"}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    path = tmp_path_factory.mktemp("live") / "inventory.json"
    path.write_bytes(inventory(*objects()))
    with Product(inventory=path) as process:
        process.ready()
        answer = process.post("filter", names_body(pod("waits", {WHOLE: "1"}), ["busy", "sick"]))
        assert answer.status == 200
        yield process


@pytest.fixture
def without(tmp_path: Path) -> Iterator[World]:
    with ApiServer() as server:
        for path, kind in ((NODES, "Node"), (GPU_NODES, "GPUNode"), (PODS, "Pod")):
            server.store.put_all(path, [each for each in objects() if each["kind"] == kind])
        yield World(server, server.kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture
def beside(without: World, product: Product) -> World:
    """Two extenders; the second holds the Lease."""

    def hook(request: Request) -> Answer | None:
        if request.path == OURS and "labelSelector" in request.query:
            found = {"items": [extender_pod("gpu-scheduler-a"), extender_pod("gpu-scheduler-b")]}
            return Answer(200, json.dumps(found).encode())
        if request.path == LEASE:
            return Answer(200, b'{"spec": {"holderIdentity": "gpu-scheduler-b_5d0f"}}')
        return None

    without.server.hook = hook
    without.server.ports["gpu-scheduler", "gpu-scheduler-b", 8890] = product.inspect
    without.product = product
    return without


@pytest.fixture(params=["beside", "without"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(request.param)
    return found


def test_why_a_pod_waits(world: World) -> None:
    code, out, _ = world.run("why", "waits", "-n", "default")
    assert code == 3
    assert "Pod default/waits asks nvidia.com/gpu=1" in out
    assert "Nearest: busy has 0 of 1 nvidia.com/gpu free; would fit if a pod of another namespace" in out
    assert "What would help:\n  - It fits on busy as soon as" in out
    assert "theirs" not in out


def test_only_the_extender_reports_past_decisions(beside: World) -> None:
    _, out, err = beside.run("why", "waits")
    assert re.search(r"^Asked once at 20[-0-9]{8}T[:0-9]{8}Z: of 2 nodes 0 fitted; 1 ", out, re.MULTILINE)
    assert err == ""


def test_without_an_extender_the_objects_answer_and_a_note_says_so(without: World) -> None:
    code, out, err = without.run("why", "pod/waits")
    assert (code, "Asked" in out) == (3, False)
    assert err.startswith("Note: answered from the cluster's objects, because no extender is available: ")


def test_a_pod_that_fits_now_and_one_that_has_its_node(world: World) -> None:
    code, out, _ = world.run("why", "fits")
    assert (code, "It waits, and fits now; best: mig." in out) == (0, True)
    code, out, _ = world.run("why", "part")
    assert (code, "It is on node shared with GPU-h.\n" in out) == (0, True)


def test_why_a_pod_is_where_it_is_without_a_decision_that_is_remembered(world: World) -> None:
    lines = world.run("why", "small")[1].splitlines()
    assert lines[1:] == [
        "It is on node mig with MIG-b.",
        "No decision is recorded. If the pod were created again now, 1 of 4 nodes would fit; "
        "this one is the best",
    ]
    wide = world.run("why", "small", "-o", "wide")[1]
    assert re.search(r"^mig +fits, is here ", wide, re.MULTILINE)
    assert world.json("why", "small")["holds"] == [{"container": None, "uuid": "MIG-b"}]


def test_why_a_pod_is_where_it_would_not_go_again(without: World) -> None:
    without.server.store.put(NODES, node("mig", {"nvidia.com/mig-1g.10gb": "1"}, unschedulable=True))
    out = without.run("why", "small")[1]
    assert "No decision is recorded. It would not fit there again: node(s) were unschedulable" in out


@pytest.mark.parametrize("arguments", [["why", "waits"], ["nodes", "--from", "extender"]])
@pytest.mark.parametrize("said", [b"<html>log in</html>", b"[]"], ids=["a page", "a list"])
def test_a_server_that_is_no_api_server_is_reported(
    without: World, arguments: list[str], said: bytes
) -> None:
    without.server.hook = lambda request: Answer(200, said)
    code, _, err = without.run(*arguments)
    assert (code, "no JSON object came" in err) == (1, True), err


def test_why_of_a_pod_that_another_scheduler_is_to_place(without: World) -> None:
    without.server.store.put(PODS, pod("stranger", {WHOLE: "1"}, schedulerName="default-scheduler"))
    told = "its schedulerName is default-scheduler, which has not asked about it"
    note = f"Note: {told}; the extender serves gpu-scheduler"
    assert note in without.run("why", "stranger")[1].splitlines()
    assert told in without.run("pods", "-o", "wide")[1]


def test_a_pod_that_asks_no_gpu_or_has_ended_waits_for_none(without: World) -> None:
    ended = pod("ended", {WHOLE: "1"})
    ended["status"] = {"phase": "Failed"}
    for each in (pod("plain", {}), ended):
        without.server.store.put(PODS, each)
        name = each["metadata"]["name"]
        code, _, err = without.run("why", name)
        assert (code, f"pod default/{name}: there is no such pod" in err) == (1, True)


def test_why_names_the_pod(world: World) -> None:
    code, out, _ = world.run("why", "waits", "-o", "name")
    assert (code, out) == (3, "pod/waits\n")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_why_as_data(world: World, form: str) -> None:
    code, out, _ = world.run("why", "waits", "-o", form)
    told = json.loads(out) if form == "json" else yaml.safe_load(out)
    assert (code, told["kind"], told["fits"], told["boundTo"]) == (3, "Explanation", False, None)


def test_nodes(world: World) -> None:
    assert world.run("nodes", "-o", "name")[1].splitlines() == [
        "node/busy",
        "node/mig",
        "node/shared",
        "node/sick",
    ]
    _, out, _ = world.run("nodes")
    titles = ["NODE", "STATE", "SOURCE", "GPUS", "SICK", "CORDONED", "UNATTRIBUTED", "MODEL", "FREE MIB"]
    assert re.split(r"   +", out.splitlines()[0])[:9] == titles
    assert "GPU-h" in world.run("nodes", "-o", "wide")[1]
    assert [item["node"] for item in world.json("nodes")["items"]] == ["busy", "mig", "shared", "sick"]


def test_a_node_with_its_bars_slots_and_holders(world: World) -> None:
    code, out, _ = world.run("node", "shared")
    assert code == 0
    # 20,000 of 80,000 promised, 10,000 used by unknown holders.
    assert f"[{'#' * 10}{'!' * 5}{'.' * 25}] 42,000 of 80,000 MiB free" in out
    assert "default/part (main): 20,000 MiB" in out
    _, out, _ = world.run("node", "node/mig")
    lines = [line.split() for line in out.splitlines()]
    assert ["3g.40gb", "slots", "0-3", "free", "MIG-a"] in lines
    assert ["1g.10gb", "slot", "4", "held", "MIG-b", "default/small"] in lines
    assert out.count("default/small") == 1
    _, out, _ = world.run("node", "sick")
    assert "GPU 0  A100-80GB  GPU-s  UNHEALTHY" in out
    assert f"  [{' ' * 40}] 0 of 81,920 MiB free" in out, "neither in the bar nor in numbers is it free"


def test_gpus_that_pods_hold_without_the_agent_having_seen_which(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(*_unattributed()))
    _, out, _ = inventory_of(path)
    rows = {line.split()[0]: re.split(r"   +", line) for line in out.splitlines()}
    assert (rows["eight"][6], rows["eight"][8]) == ("4", f"{4 * 81920} of {8 * 81920}")
    assert (rows["sliced"][6], rows["sliced"][9]) == ("1", "1x1g.10gb")
    assert "Note: eight: at least 4 GPUs held, devices unknown" in out
    assert "Note: sliced: at least 1 × 1g.10gb held, devices unknown" in out
    _, out, _ = inventory_of(path, "-o", "wide")
    lines = [line.split() for line in out.splitlines() if line.startswith("eight")]
    assert {(line[-5], line[-4]) for line in lines} == {("≥0", "≤81920")}
    assert out.count("≤2x1g.10gb") == 1


def inventory_of(path: Path, *arguments: str) -> tuple[int, str, str]:
    done = run("inventory", "--inventory", path, *arguments)
    return done.exit_code, done.stdout, done.stderr


def _unattributed() -> list[Json]:
    instances = [{"uuid": f"MIG-{at}", "profile": "1g.10gb", "start": at, "size": 1} for at in range(2)]
    sliced = gpu(0, "GPU-m", mig={"enabled": True, "instances": instances})
    return [
        gpu_node("eight", [gpu(index, f"GPU-{index}") for index in range(8)]),
        node("eight", {WHOLE: "8"}),
        pod("train", {WHOLE: "4"}, on="eight"),
        gpu_node("sliced", [sliced], migStrategy="mixed"),
        node("sliced", {"nvidia.com/mig-1g.10gb": "2"}),
        pod("notebook", {"nvidia.com/mig-1g.10gb": "1"}, on="sliced"),
    ]


def test_a_node_whose_held_gpus_are_not_known(without: World) -> None:
    for each in _unattributed():
        kind = {"Node": NODES, "GPUNode": GPU_NODES, "Pod": PODS}[each["kind"]]
        without.server.store.put(kind, each)
    _, out, _ = without.run("node", "eight")
    assert "Note: at least 4 GPUs held, devices unknown" in out
    assert out.count(f"[{'?' * 40}] at most 81,920 of 81,920 MiB free, may be held") == 8
    assert "4 nvidia.com/gpu of default/train" in out
    _, out, _ = without.run("node", "sliced")
    assert out.count(" free? ") == 2
    told = without.json("node", "eight")
    assert sum(each["memory"]["freeMiB"] for each in told["devices"]) == 4 * 81920
    assert told["unattributed"][0]["count"] == 4


def test_a_node_in_numbers_and_by_name(world: World) -> None:
    out = world.run("node", "shared", "-o", "wide")[1]
    assert "requested 20,000 MiB, in use 30,000 MiB, unaccounted 10,000 MiB, reserved 0 MiB" in out
    assert world.run("node", "node/shared", "-o", "name")[1] == "node/shared\n"


def test_a_node_as_data(world: World) -> None:
    told = world.json("node", "shared")
    assert (told["kind"], told["node"]) == ("GPUNodeHoldings", "shared")
    assert [each["name"] for each in told["holdings"]["devices"]["GPU-h"]["holdings"]] == ["part"]


def test_pods(world: World) -> None:
    _, out, _ = world.run("pods")
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert set(rows) == {"fits", "part", "small", "waits"}
    assert "Bound" in rows["part"]
    assert "GPU-h" in rows["part"]
    assert "MIG-b" in rows["small"]
    assert "Waiting" in rows["waits"]
    assert rows["waits"].endswith("Insufficient nvidia.com/gpu per device"), "of the node that is nearest"
    _, out, _ = world.run("pods", "-A", "-o", "wide")
    assert "research" in out
    assert "busy has 0 of 1 nvidia.com/gpu free" in out
    assert "MOST NODES" in out
    commonest = next(each for each in world.json("pods")["items"] if each["name"] == "waits")["commonest"]
    assert f"{commonest['nodes']} of {commonest['of']}: {commonest['reason']}" in out
    assert world.run("pods", "-n", "research", "-o", "name")[1] == "pod/theirs\n"
    assert world.run("pods", "-n", "empty")[2].endswith("No pods with GPUs in namespace empty\n")


@pytest.mark.parametrize("arguments", [["-A", "-n", "research"], ["-n", "research", "-A"]])
def test_all_namespaces_are_all_beside_one_as_for_kubectl(world: World, arguments: list[str]) -> None:
    code, out, _ = world.run("pods", *arguments, "-o", "name")
    assert (code, out.split()) == (0, ["pod/fits", "pod/part", "pod/small", "pod/waits", "pod/theirs"])
    assert world.run("pods", *arguments)[1].startswith("NAMESPACE ")


@pytest.mark.parametrize("arguments", [["-n", "research"], ["-A"], ["--all-namespaces", "--namespace", "x"]])
@pytest.mark.parametrize("command", [["nodes"], ["node", "busy"]], ids=["nodes", "node"])
def test_a_namespace_is_without_effect_on_nodes(
    without: World, command: list[str], arguments: list[str]
) -> None:
    told = without.run(*command)
    assert (told[0], "busy" in told[1]) == (0, True)
    assert without.run(*command, *arguments) == told
    assert "Accepted as by kubectl and ignored" in " ".join(run(command[0], "--help").stdout.split())


def test_the_namespace_is_that_of_the_context(without: World) -> None:
    config = json.loads(without.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "research"
    without.kubeconfig.write_text(json.dumps(config))
    assert without.run("pods", "-o", "name")[1] == "pod/theirs\n"


def test_the_kubeconfig_is_the_one_that_kubectl_reads(
    without: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{without.kubeconfig}")
    assert run("nodes", "-o", "name").stdout.startswith("node/busy")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run("nodes")
    assert (done.exit_code, "no kubeconfig: give --kubeconfig, or set KUBECONFIG" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        pytest.param(["why", "nobody"], 1, "pod default/nobody: there is no such pod", id="no such pod"),
        pytest.param(
            ["node", "nowhere"], 1, "node nowhere: no node of this name has GPUs", id="no such node"
        ),
        pytest.param(["why"], 2, "Missing argument 'POD'", id="no pod"),
        pytest.param(
            ["why", "default/waits"],
            2,
            "'default/waits' is no name of a pod; -n chooses its namespace",
            id="a namespace in the name",
        ),
    ],
)
def test_questions_that_cannot_be_answered(
    world: World, arguments: list[str], code: int, problem: str
) -> None:
    told = world.run(*arguments)
    assert (told[0], problem in told[2]) == (code, True)


def test_an_extender_that_does_not_listen_is_skipped_or_reported(beside: World) -> None:
    beside.server.ports.clear()
    code, _, err = beside.run("nodes")
    assert (code, "pod gpu-scheduler/gpu-scheduler-b, port 8890: " in err) == (0, True)
    assert "connection refused" in err
    code, _, err = beside.run("nodes", "--from", "extender")
    assert (code, "no extender is available" in err) == (1, True)


def test_an_extender_that_is_silent_is_passed_over(beside: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_FIND_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        beside.server.ports["gpu-scheduler", "gpu-scheduler-b", 8890] = silent.getsockname()
        code, out, err = beside.run("nodes", "-o", "name")
    assert (code, out.splitlines()[0]) == (0, "node/busy")
    assert err == (
        "Note: answered from the cluster's objects, because no extender is available: "
        "pod gpu-scheduler/gpu-scheduler-b, port 8890: no answer in time\n"
    )


def test_names_do_not_act_on_the_terminal(without: World) -> None:
    hostile = pod("x", {WHOLE: "1"})
    hostile["metadata"] |= {"name": "x\x1b[2J\u202e", "namespace": "default"}
    without.server.store.put(PODS, hostile)
    for arguments in (["pods"], ["pods", "-o", "name"], ["pods", "-o", "wide"]):
        out = without.run(*arguments)[1]
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_the_queue(world: World) -> None:
    code, out, _ = world.run("queue")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == [
        *("POS", "NAMESPACE", "POD", "PRIORITY", "STATE", "NODE", "WAITING", "START", "REASON")
    ]
    rows = {line.split()[2]: line for line in lines[1:] if line[:1].isdecimal()}
    assert rows["fits"].split()[:6] == ["1", "default", "fits", "0", "waiting", "-"]
    assert " now " in rows["fits"]
    assert " unknown " in rows["waits"]
    assert "1 start is unknown: the end of the pod in its way is unknown" in out
    assert world.run("queue", "-o", "name")[1].splitlines() == ["pod/fits", "pod/waits"]
    assert "START UNKNOWN BECAUSE" in world.run("queue", "-o", "wide")[1]
    assert world.run("queue", "-n", "research")[2].endswith("No pods wait for GPUs in namespace research\n")
    told = world.json("queue")
    assert (told["kind"], told["total"]) == ("QueueList", 2)


def test_the_queue_says_what_is_not_known(beside: World) -> None:
    _, out, err = beside.run("queue")
    assert "Note: planning is off (nominate.enabled): no pod has a planned node, and" in out
    assert "Note: past run times are not remembered (queue.runTimes is 0): only stated limits count" in out
    assert err == ""


def test_the_queue_without_an_extender(without: World) -> None:
    _, out, err = without.run("queue")
    assert "Note: without an extender, neither planned nodes nor past run times are known" in out
    assert err.startswith("Note: answered from the cluster's objects")
