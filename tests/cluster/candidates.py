"""Candidates of an election on one server, that try on command, by a clock that stands still."""

from __future__ import annotations

from typing import Any

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.own_lease import Election
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json

NAMESPACE, NAME = "gpu-scheduler", "gpu-extender"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Clock:
    """A monotonic clock that moves on command only."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Candidates:
    """Candidates by name, on one server and one clock, that try on command."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self.clock = Clock()
        self.turns: list[tuple[str, bool]] = []
        self.all: dict[str, Election] = {}

    def stand(self, name: str) -> Election:
        """A new candidate."""

        def turned(active: bool) -> None:
            self.turns.append((name, active))

        built = Election(self.transport, NAMESPACE, NAME, name, turned, monotonic=self.clock)
        self.all[name] = built
        return built

    def active(self) -> str:
        return "".join(name for name, one in self.all.items() if one.active)

    def each(self, *names: str) -> str:
        """They try one after the other; who is active then."""
        for name in names or tuple(self.all):
            self.all[name].attempt()
        return self.active()

    def lease(self) -> Json:
        found: Json = self.server.store.get(LEASES, NAME, NAMESPACE).object()
        return found

    def edit(self, **spec: Any) -> None:
        """A user edits the Lease by hand."""
        self.server.store.update(
            LEASES, NAME, lambda before: before | {"spec": before["spec"] | spec}, NAMESPACE
        )
