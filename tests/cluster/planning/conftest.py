"""A server on which extenders plan ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.planning import gang_planning as gang_planning_module
from scheduler_ext.cluster.planning import gang_writes as gang_writes_module
from scheduler_ext.cluster.planning import planning as planning_module
from scheduler_ext.core.planning import outcomes as outcomes_module
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.cluster.planning.gangs_followed import Cluster
from tests.cluster.planning.planned import Ahead


@pytest.fixture
def ahead(
    server: ApiServer, transport: Transport, living: Living, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ahead]:
    """`living` sets the pace of publications, and is not started."""
    monkeypatch.setattr(planning_module, "_STEP_EVERY_S", 0.002)
    monkeypatch.setattr(planning_module, "_LOOK_EVERY_S", 0.02)
    built = Ahead(server, transport)
    yield built
    server.faults.lift()
    for each in built.running:
        each.live.stop()


@pytest.fixture
def make(
    server: ApiServer, transport: Transport, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Cluster]]:
    monkeypatch.setattr(live_module, "_TICK_S", 0.02)
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 0.002)
    monkeypatch.setattr(gang_planning_module, "_EVERY_S", 0.02)
    monkeypatch.setattr(gang_planning_module, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(gang_writes_module, "_WRITTEN_S", 0.1)
    monkeypatch.setattr(outcomes_module, "_FIRST_S", 0.05)
    monkeypatch.setattr(gang_writes_module, "Backoff", lambda: Backoff(0.01, 0.04))
    made: list[Cluster] = []

    def cluster(*nodes: str) -> Cluster:
        made.append(Cluster(server, transport, *nodes))
        return made[-1]

    yield cluster
    server.faults.lift()
    for each in made:
        each.stop()
    eventually(lambda: not any(thread.name.startswith("watch-") for thread in threading.enumerate()))
