"""Kubeconfigs are read as kubectl reads them, and a fault in one is reported on one line."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import WHOLE, error_of, run
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import GFD_H100, Json, node

TOKEN = "secret"
PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
CREDENTIAL = {"kind": "ExecCredential", "apiVersion": PLUGIN["apiVersion"], "status": {"token": TOKEN}}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(tokens={TOKEN}) as running:
        running.store.put(NODES, node("n", {WHOLE: "8"}, labels=GFD_H100))
        yield running


def config(server: ApiServer, name: str, *, user: Json | None = None, current: bool = True) -> Json:
    """A cluster, a user and a context of this name."""
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server.url}}],
        "users": [{"name": name, "user": {"token": TOKEN} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
    }
    return value | ({"current-context": name} if current else {})


def nodes(*arguments: str | Path) -> tuple[int, str]:
    done = run("nodes", "--from", "cluster", "-o", "name", *arguments)
    return done.exit_code, done.stdout


DEAD = ApiServer()


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        pytest.param(["none", "alive"], [], id="the first names no current context: the second does"),
        pytest.param(["dead", "alive"], ["--context", "alive"], id="a context of the second file"),
        pytest.param(["split", "clusters"], [], id="a context of the first, its cluster of the second"),
        pytest.param(["missing", "alive"], [], id="a file that is not there among them"),
        pytest.param(["alive", "same"], [], id="one name in both: as it stands in the first"),
    ],
)
def test_several_files_are_read_as_one(
    server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    arguments: list[str],
) -> None:
    alive = config(server, "alive")
    contents = {
        "alive": alive,
        "none": config(DEAD, "dead", current=False),
        "dead": config(DEAD, "dead"),
        "same": config(DEAD, "alive"),
        "split": {key: value for key, value in alive.items() if key not in ("clusters", "users")},
        "clusters": {key: value for key, value in alive.items() if key in ("clusters", "users")},
    }
    for name, value in contents.items():
        (tmp_path / name).write_text(json.dumps(value))
    monkeypatch.setenv("KUBECONFIG", ":".join(str(tmp_path / name) for name in files))
    assert nodes(*arguments) == (0, "node/n\n")


def test_paths_in_a_file_start_where_that_file_is(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "token").write_text(TOKEN)
    (elsewhere / "config").write_text(json.dumps(config(server, "alive", user={"tokenFile": "token"})))
    (tmp_path / "first").write_text(json.dumps(config(DEAD, "dead", current=False)))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'first'}:{elsewhere / 'config'}")
    assert nodes() == (0, "node/n\n")


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def test_a_credential_plugin_gives_the_token(server: ApiServer, tmp_path: Path) -> None:
    command = program(tmp_path, f"echo '{json.dumps(CREDENTIAL)}'")
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config(server, "a", user={"exec": PLUGIN | {"command": command}})))
    assert nodes("--kubeconfig", path) == (0, "node/n\n")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param(None, "No such file or directory", id="it is not there"),
        pytest.param("echo no session >&2; exit 3", "exec: process returned 3. no session", id="it fails"),
        pytest.param("echo hello", "exec: failed to decode process output", id="it says no JSON"),
        pytest.param(
            f"echo '{json.dumps(CREDENTIAL | {'status': {}})}'", "missing token", id="it gives no credentials"
        ),
    ],
)
def test_a_credential_plugin_that_gives_none_is_one_error(
    server: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str | None, problem: str
) -> None:
    command = program(tmp_path, script) if script is not None else "/nope/aws"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config(server, "a", user={"exec": PLUGIN | {"command": command}})))
    for arguments in (["nodes"], ["inventory"]):
        told = error_of(run(*arguments, "--kubeconfig", path))
        assert told.startswith(f"kubeconfig {path}: no credentials of {command}: ")
        assert problem in told
        assert "[Errno" not in told
    assert server.log.count() == 0
    # Log lines of the client are not repeated.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "arguments", "problem"),
    [
        pytest.param("", [], "no current-context; give --context", id="it is empty"),
        pytest.param(
            "users:\n- user:\n    token: SECRET: oops\n",
            [],
            "{path}: no YAML, line 3",
            id="a slip beside a token",
        ),
        pytest.param("SECRET", [], "{path}: no kubeconfig", id="a bare token"),
        pytest.param(
            "current-context: [a]\n", [], "{path}: current-context: no name", id="a list for a name"
        ),
        pytest.param(
            "contexts: [{name: a, context: b}]\n",
            [],
            "{path}: contexts: 'a' is no mapping",
            id="a context that is a word",
        ),
        pytest.param(
            "current-context: a\ncontexts: [{name: b}]\n",
            ["--context", ""],
            "no context 'a' in it; there are: b",
            id="an empty --context is the current one",
        ),
        pytest.param(
            "contexts: [{}]\n", [], "{path}: contexts: an entry without a name", id="an entry has no name"
        ),
    ],
)
def test_faults_of_a_kubeconfig(tmp_path: Path, content: str, arguments: list[str], problem: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    told = error_of(run("nodes", "--kubeconfig", path, *arguments))
    assert told == f"kubeconfig {path}: {problem.format(path=path)}"


def test_where_none_of_those_named_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(json.dumps(config(DEAD, "dead")))
    monkeypatch.setenv("KUBECONFIG", "/nowhere:/nor/here")
    told = error_of(run("nodes"))
    assert told == "kubeconfig /nowhere:/nor/here: No such file or directory; $KUBECONFIG names it"
