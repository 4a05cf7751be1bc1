"""A server on which extenders plan ahead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.planning import planning as planning_module
from tests.cluster.api.api_server import ApiServer
from tests.cluster.living import Living
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
