"""Names that a shell completes: from the kubeconfig and its cluster, and none where these fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from scheduler_ext.cli import kubeconfigs
from scheduler_ext.main import main
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, node

PODS = {"team": ["train-1", "train-2", "web"], "other": ["train-9"]}


def listed(names: list[str]) -> Answer:
    items: list[Json] = [{"metadata": {"name": name}} for name in names]
    return Answer(200, json.dumps({"kind": "PartialObjectMetadataList", "items": items}).encode())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may exceed the time limit of completion."""
    monkeypatch.setattr(kubeconfigs, "_TIMEOUT_S", 60.0)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    def hook(request: Request) -> Answer | None:
        if request.path == "/api/v1/namespaces":
            return listed(["default", "gpu-scheduler", *PODS])
        for namespace, names in PODS.items():
            if request.path == f"/api/v1/namespaces/{namespace}/pods":
                return listed(names)
        return None

    with ApiServer(hook=hook) as running:
        running.store.put_all(NODES, [node("gpu-1"), node("gpu-2"), node("cpu-1")])
        yield running


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig with a context of the namespace team, and one of an unreachable server."""
    path = server.kubeconfig(tmp_path / "kubeconfig")
    config = json.loads(path.read_text())
    config["contexts"][0]["context"]["namespace"] = "team"
    config["contexts"].append({"name": "away", "context": {"cluster": "away", "user": "test"}})
    config["clusters"].append({"name": "away", "cluster": {"server": "http://127.0.0.1:1"}})
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def completed(line: str) -> list[str]:
    *before, incomplete = line.split(" ")
    found = ShellComplete(main, {}, "scheduler-ext", "").get_completions(before, incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("why ", PODS["team"]),
        ("why tr", ["train-1", "train-2"]),
        ("why -n other tr", ["train-9"]),
        ("node gpu", ["gpu-1", "gpu-2"]),
        ("pods -n t", ["team"]),
        ("capacity -n t", ["team"]),
        ("nodes --extender-namespace g", ["gpu-scheduler"]),
        ("nodes --context ", ["test", "away"]),
        ("inventory --context a", ["away"]),
        ("why --context away ", []),
        ("why --context typo ", []),
        ("nodes --kubeconfig /nowhere --context ", []),
    ],
)
def test_names(kubeconfig: Path, line: str, names: list[str]) -> None:
    """Of a server that is away, a context that there is not, and a file that there is not: none."""
    assert completed(line) == names


def test_without_any_kubeconfig_there_is_nothing() -> None:
    assert completed("why ") == completed("nodes --context ") == []


def test_a_refused_list_completes_nothing(server: ApiServer, kubeconfig: Path) -> None:
    server.faults.place(Refuse(403, "Forbidden", "may not list nodes"))
    assert completed("node ") == []


def test_a_silent_server_is_not_waited_for(
    server: ApiServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfigs, "_TIMEOUT_S", 0.1)
    hanging = server.faults.place(Hang())
    assert completed("node ") == []
    hanging.lift()
