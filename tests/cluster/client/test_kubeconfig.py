"""The search for a cluster, and the error if there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_ext.cluster.client.transport import JSON, Transport, UnreachableError, UnsentError
from scheduler_ext.core.errors import ClusterError
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_server import ApiServer


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="no file"),
        pytest.param("kind: [", id="no YAML"),
        pytest.param("", id="nothing in it"),
        pytest.param("apiVersion: v1\nkind: Config\n", id="no cluster in it"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_on_one_line(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterError, match=f"^kubeconfig {path}: ..") as error:
        Transport.from_kubeconfig(path)
    assert "\n" not in str(error.value)


def test_a_context_that_is_not_there(server: ApiServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path / "kubeconfig")
    with pytest.raises(ClusterError, match="other"):
        Transport.from_kubeconfig(path, "other")


def test_outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match=r"^not in a cluster: .*--kubeconfig$"):
        Transport.in_cluster()


def test_credentials_that_cannot_be_renewed_are_no_answer(server: ApiServer, transport: Transport) -> None:
    def renew(*_: object) -> None:
        raise OSError("no such program")

    transport._configuration.api_key["BearerToken"] = "Bearer old"
    transport._configuration.refresh_api_key_hook = renew  # type: ignore[assignment]
    with pytest.raises(UnreachableError, match="no such program"):
        transport.send("POST", NODES, {}, JSON)
    assert server.log.count() == 0


def test_a_plugin_that_fails_when_its_token_has_expired(server: ApiServer, tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    status = {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"}
    credential = json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})
    once = tmp_path / "once"
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\ntest -e {once} && exit 3\ntouch {once}\necho '{credential}'\n")
    plugin.chmod(0o700)
    path = server.kubeconfig(tmp_path / "kubeconfig")
    config = json.loads(path.read_text())
    config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": str(plugin)}}
    path.write_text(json.dumps(config))
    transport = Transport.from_kubeconfig(path)
    with pytest.raises(UnsentError, match=f"^no credentials of {plugin}: exec: process returned 3$"):
        transport.get(NODES)
    assert server.log.count() == 0
