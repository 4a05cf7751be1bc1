"""An unreachable cluster: one clear error, no note of an answer, and no second try."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from scheduler_ext.cli import answers
from scheduler_ext.cluster.client import transport as transport_module
from tests.cli.commands import WHOLE, error_of, run
from tests.cluster.api.api_faults import Hang, Refuse, Reset
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu, gpu_node, node

NOTE = "Note: answered from the cluster's objects, because no extender is available: "


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        running.store.put(NODES, node("n", {WHOLE: "1"}))
        running.store.put(GPU_NODES, gpu_node("n", [gpu(0)]))
        yield running


@pytest.fixture
def strangers_certificate() -> Iterator[int]:
    """The port of a server with an unknown certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                # Another server answered, and the test is over.
                return
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

        greeting = threading.Thread(target=greet)
        greeting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        greeting.join()


@pytest.mark.parametrize("source", ["auto", "extender", "cluster"])
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        pytest.param("https://127.0.0.1:1", "127.0.0.1:1: Connection refused", id="no listener"),
        pytest.param(
            "https://nowhere.invalid:6443",
            "nowhere.invalid:6443: the name of this host is not known",
            id="a name that is not known",
        ),
        pytest.param(
            "https://127.0.0.1:{tls}",
            "certificate verify failed: unable to get local issuer certificate",
            id="a certificate of another host",
        ),
    ],
)
def test_a_server_that_cannot_be_reached(
    tmp_path: Path, strangers_certificate: int, source: str, address: str, problem: str
) -> None:
    path = ApiServer().kubeconfig(tmp_path / "kubeconfig")
    url = address.format(tls=strangers_certificate)
    path.write_text(path.read_text().replace(ApiServer().url, url))
    assert error_of(run("nodes", "--kubeconfig", path, "--from", source)) == f"kubeconfig {path}: {problem}"


def test_a_silent_server_is_asked_once(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_FIND_S", 0.1)
    monkeypatch.setattr(transport_module, "READ_S", 0.1)
    hanging = server.faults.place(Hang())
    # The command ends before the user loses patience.
    late = threading.Timer(10.0, hanging.lift)
    late.start()
    path = server.kubeconfig(tmp_path / "kubeconfig")
    problem = error_of(run("nodes", "--kubeconfig", path))
    late.cancel()
    hanging.lift()
    assert problem == f"kubeconfig {path}: 127.0.0.1:{server.port}: no answer in time"
    assert server.log.count() == 1


def test_a_server_that_ends_the_connection(server: ApiServer, tmp_path: Path) -> None:
    server.faults.place(Reset())
    path = server.kubeconfig(tmp_path / "kubeconfig")
    problem = error_of(run("nodes", "--kubeconfig", path))
    assert problem == f"kubeconfig {path}: the connection was closed before there was an answer"


def test_the_note_comes_with_an_answer_alone(server: ApiServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path / "kubeconfig")
    done = run("nodes", "--kubeconfig", path)
    assert (done.exit_code, done.stderr.startswith(NOTE)) == (0, True)
    server.faults.place(Refuse(403, "Forbidden", "may not list nodes"), lists(NODES))
    problem = error_of(run("nodes", "--kubeconfig", path))
    assert problem == f"kubeconfig {path}: 403 Forbidden: may not list nodes"
