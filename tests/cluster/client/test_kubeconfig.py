"""The search for a cluster, and the error if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_ext.cluster.client.transport import JSON, Transport, UnreachableError
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
