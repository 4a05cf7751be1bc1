"""An API server, and a client for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster import reflector as reflector_module
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.candidates import Candidates
from tests.cluster.following import Followed, eventually
from tests.cluster.living import Living
from tests.kube_objects import SHARE, node, pod


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def transport(server: ApiServer, tmp_path: Path) -> Iterator[Transport]:
    built = Transport.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
    yield built
    built.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reflectors that try again after milliseconds."""
    monkeypatch.setattr(reflector_module, "Backoff", lambda: Backoff(0.01, 0.04))


@pytest.fixture
def followed(server: ApiServer, transport: Transport, impatient: None) -> Iterator[Followed]:
    server.store.put_all(NODES, [node("a"), node("b")])
    built = Followed(server, transport)
    yield built
    server.faults.lift()
    built.reflector.stop(60)
    assert not built.reflector.is_alive


@pytest.fixture
def candidates(server: ApiServer, transport: Transport) -> Candidates:
    """Two of them, a and b."""
    built = Candidates(server, transport)
    built.stand("a")
    built.stand("b")
    return built


@pytest.fixture
def bindings(server: ApiServer, transport: Transport) -> Bindings:
    """The calls, on a server that has a node a and a pod one."""
    server.store.put(NODES, node("a"))
    server.store.put(PODS, pod("one", {SHARE: "4096"}, annotations={"team": "x"}))
    return Bindings(transport)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live inventories that publish within milliseconds."""
    monkeypatch.setattr(live_module, "_TICK_S", 0.02)
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 0.002)


@pytest.fixture
def living(server: ApiServer, transport: Transport, impatient: None, quick: None) -> Iterator[Living]:
    """After its stop no thread of it runs."""
    built = Living(server, transport)
    yield built
    server.faults.lift()
    built.live.stop()
    # A stop waits for seconds only; on a busy machine a thread may need more to notice it.
    eventually(lambda: not any(thread.is_alive for thread in (built.live, *built.live._reflectors)))
