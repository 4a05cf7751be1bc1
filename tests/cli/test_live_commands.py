"""why, nodes, node and pods: of a running extender through a port-forward, and without one."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.cli import answers
from tests.cli.commands import CLUSTER, WHOLE, run, serving
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.explain.test_replay import running
from tests.extender.preempting import whole_node
from tests.extender.test_record import ask
from tests.kube_objects import Json, inventory, names_body, node, pod
from tests.server.process.product import Product

OURS = "/api/v1/namespaces/gpu-scheduler/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler/leases/gpu-scheduler"
NOTE = "Note: answered from the cluster's objects, because no extender is available: "
COMMANDS = ("nodes", "node node/mig-1", "pods", "why waits")


class World:
    """An API server with the cluster, where an extender may be found."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.kubeconfig = server.kubeconfig(folder / "kubeconfig")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        done = run(*arguments, "--kubeconfig", self.kubeconfig)
        return done.exit_code, done.stdout, done.stderr

    def json(self, *arguments: str) -> Json:
        answer: Json = json.loads(self.run(*arguments, "-o", "json")[1])
        return answer


@pytest.fixture
def without(tmp_path: Path) -> Iterator[World]:
    with serving(*CLUSTER) as server:
        yield World(server, tmp_path)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    path = tmp_path_factory.mktemp("live") / "inventory.json"
    path.write_bytes(inventory(*CLUSTER))
    with Product(inventory=path) as process:
        process.ready()
        waits = next(each for each in CLUSTER if each["metadata"]["name"] == "waits")
        nodes = [each["metadata"]["name"] for each in CLUSTER if each["kind"] == "Node"]
        assert process.post("filter", names_body(waits, nodes)).status == 200
        yield process


def extender_pod(name: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "gpu-scheduler"},
        "spec": {"containers": [{"name": "kube-scheduler"}, {"name": "extender"}]},
        "status": {"phase": "Running"},
    }


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
    return without


# Only an extender knows these, or they differ by the time.
_OWN = {
    "recorded",
    "generation",
    "planning",
    "runTimes",
    "asks",
    "filters",
    "ageSeconds",
    "start",
    "waitingSeconds",
}


def shared(value: object) -> object:
    """What an extender and the cluster's objects both know."""
    if isinstance(value, dict):
        return {key: shared(each) for key, each in value.items() if key not in _OWN}
    return [shared(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", COMMANDS)
def test_an_extender_and_the_objects_say_the_same(beside: World, command: str) -> None:
    say_the_same(beside, command)


def say_the_same(beside: World, command: str) -> None:
    """A command answers from both sources alike."""
    words = command.split()
    of_extender, of_objects = (beside.json(*words, "--from", source) for source in ("extender", "cluster"))
    assert shared(of_extender) == shared(of_objects)
    found = beside.run(*words, "-o", "name")
    assert (found[0], found[1] != "", found[2]) == (3 if "waits" in command else 0, True, "")
    assert beside.run(*words, "-o", "name", "--from", "cluster") == found


def test_only_the_extender_reports_past_decisions(beside: World) -> None:
    _, out, err = beside.run("why", "waits")
    assert re.search(r"^Asked once at 20[-0-9]{8}T[:0-9]{8}Z: of 7 nodes 0 fitted; 5 ", out, re.MULTILINE)
    assert err == ""
    assert beside.run("why", "nobody")[0] == 1
    _, out, err = beside.run("why", "pod/waits", "--from", "cluster")
    assert ("Asked" in out, err) == (False, "")


def test_why_a_pod_is_where_it_is(without: World) -> None:
    code, out, err = without.run("why", "part")
    assert (code, out.splitlines()[1], err.startswith(NOTE)) == (
        0,
        "It is on node shared-1 with GPU-s0.",
        True,
    )
    code, out, _ = without.run("why", "fits")
    assert (code, "It waits, and fits now; best: mig-1" in out) == (0, True)
    code, out, _ = without.run("why", "busy", "-o", "wide")
    assert re.search(r"^a100-2 +fits, is here ", out, re.MULTILINE)
    assert without.json("why", "busy")["holds"] == [{"container": None, "uuid": "GPU-b0"}]
    without.server.store.put(NODES, node("a100-2", {WHOLE: "1"}, unschedulable=True))
    assert "It would not fit there again: " in without.run("why", "busy")[1]


def test_why_of_a_pod_that_is_gone(without: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the note on it, then the decision, and an error."""
    there = running(*whole_node("n", None))
    ask(there.extender, pod("former", {WHOLE: "9"}), ["n"])
    there.gone = {"uid-former"}
    told = there.explainer().of_name("default", "former")
    monkeypatch.setattr(answers.FromObjects, "pod", lambda *_: told)
    code, out, err = without.run("why", "former", "--from", "cluster")
    note, asks, then, *_ = out.splitlines()
    assert note.startswith("Note: no pod default/former waits for GPUs or holds any now; ")
    assert asks == "Pod default/former asks nvidia.com/gpu=9"
    assert then == "If the pod were created again now:"
    assert (code, err.count("\n"), "there is no such pod" in err) == (1, 1, True)
    assert without.run("why", "former", "-o", "name", "--from", "cluster")[:2] == (1, "")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ("why nobody", 1, "pod default/nobody: there is no such pod"),
        ("why ended", 1, "pod default/ended: there is no such pod"),
        ("node nowhere", 1, "node nowhere: no node of this name has GPUs"),
        ("why default/waits", 2, "-n chooses its namespace"),
    ],
)
def test_questions_that_cannot_be_answered(without: World, arguments: str, code: int, problem: str) -> None:
    without.server.store.put(PODS, pod("ended", {WHOLE: "1"}, phase="Failed"))
    told = without.run(*arguments.split())
    assert (told[0], problem in told[2]) == (code, True)


class TestNamespaces:
    def test_of_pods(self, without: World) -> None:
        assert without.run("pods", "-n", "research", "-o", "name")[1] == "pod/theirs\n"
        assert without.run("pods", "-n", "research", "-A") == without.run("pods", "-A")
        assert not without.run("pods")[1].startswith("NAMESPACE")
        assert without.run("pods", "-n", "empty")[2].endswith("No pods with GPUs in namespace empty\n")
        config = json.loads(without.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "research"
        without.kubeconfig.write_text(json.dumps(config))
        assert without.run("pods", "-o", "name")[1] == "pod/theirs\n"

    @pytest.mark.parametrize("command", [["nodes"], ["node", "mig-1"]])
    def test_without_effect_on_nodes(self, without: World, command: list[str]) -> None:
        assert without.run(*command, "-A", "-n", "x") == without.run(*command)


class TestNoExtender:
    @pytest.mark.parametrize("arguments", [["why", "waits"], ["nodes", "--from", "extender"]])
    @pytest.mark.parametrize("said", [b"<html>log in</html>", b"[]"], ids=["a page", "a list"])
    def test_no_api_server(self, without: World, arguments: list[str], said: bytes) -> None:
        without.server.hook = lambda request: Answer(200, said)
        code, _, err = without.run(*arguments)
        assert (code, "no JSON object came" in err) == (1, True), err

    def test_no_listener(self, beside: World) -> None:
        beside.server.ports.clear()
        code, _, err = beside.run("nodes")
        assert (code, err.startswith(f"{NOTE}pod gpu-scheduler/gpu-scheduler-b, port 8890: ")) == (0, True)
        code, _, err = beside.run("nodes", "--from", "extender")
        assert (code, "no extender is available" in err) == (1, True)

    def test_silence(self, beside: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(answers, "_FIND_S", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            beside.server.ports["gpu-scheduler", "gpu-scheduler-b", 8890] = silent.getsockname()
            code, out, err = beside.run("nodes", "-o", "name")
        assert (code, out.splitlines()[0]) == (0, "node/a100-1")
        assert err == f"{NOTE}pod gpu-scheduler/gpu-scheduler-b, port 8890: no answer in time\n"


def test_a_bar_has_a_mark_for_each_use_of_memory(without: World) -> None:
    """20,000 of 80,000 MiB are promised, and 10,000 used by unknown holders."""
    _, out, _ = without.run("node", "shared-1", "-o", "wide")
    assert f"[{'#' * 10}{'!' * 5}{'.' * 25}] 42,000 of 80,000 MiB free" in out
    assert "requested 20,000 MiB, in use 30,000 MiB, unaccounted 10,000 MiB, reserved 0 MiB" in out
    assert "default/part (main): 20,000 MiB" in out
    _, out, _ = without.run("node", "a100-1")
    assert "GPU 1  A100-80GB  GPU-a1  UNHEALTHY" in out
    assert f"  [{' ' * 40}] 0 of 81,920 MiB free" in out, "neither in the bar nor in numbers is it free"
    _, out, _ = without.run("node", "unseen-1")
    assert out.count(f"[{'?' * 40}] at most 81,920 of 81,920 MiB free, may be held") == 2
    assert without.run("node", "labels-1")[1].count("one of several, known by labels") == 8
