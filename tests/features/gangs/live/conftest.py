"""A server on which extenders plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.features.gangs.live import gang_planning as gang_planning_module
from scheduler_ext.features.gangs.live import gang_writes as gang_writes_module
from scheduler_ext.features.gangs.live import planning as planning_module
from scheduler_ext.features.gangs.planning import outcomes as outcomes_module
from tests.cluster.api.api_server import ApiServer
from tests.cluster.fixtures import impatient, server, transport
from tests.cluster.following import eventually
from tests.features.gangs.live.planned import Planned

__all__ = ["impatient", "planned", "server", "transport"]


@pytest.fixture
def planned(
    server: ApiServer, transport: Transport, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Planned]:
    """Extenders that look and plan again after milliseconds."""
    monkeypatch.setattr(live_module, "_TICK_S", 0.02)
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 0.002)
    monkeypatch.setattr(planning_module, "_STEP_EVERY_S", 0.002)
    monkeypatch.setattr(planning_module, "_LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(gang_planning_module, "_EVERY_S", 0.02)
    monkeypatch.setattr(gang_planning_module, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(gang_writes_module, "_WRITTEN_S", 0.1)
    monkeypatch.setattr(gang_writes_module, "Backoff", lambda: Backoff(0.01, 0.04))
    monkeypatch.setattr(outcomes_module, "_FIRST_S", 0.05)
    built = Planned(server, transport)
    yield built
    server.faults.lift()
    for live in built.lives:
        live.stop()
    eventually(lambda: not any(thread.name.startswith("watch-") for thread in threading.enumerate()))
