"""A cluster with a namespace `lab`, whose pods may be reclaimed, and `prod`, whose pods may not."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.features.idle.reclaim import reclaimer as reclaimer_module
from tests.cluster.api.api_server import ApiServer
from tests.cluster.fixtures import impatient, living, quick, server, transport
from tests.features.idle.reclaim.reclaiming import Cluster

__all__ = ["at_once", "cluster", "few", "impatient", "living", "quick", "server", "transport"]


@pytest.fixture
def cluster(server: ApiServer, transport: Transport) -> Cluster:
    return Cluster(server, transport)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look writes about three pods at most."""
    monkeypatch.setattr(reclaimer_module, "_MOST", 3)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose budget refused its eviction is tried again at the next look."""
    monkeypatch.setattr(reclaimer_module, "AGAIN_S", 0.0)
