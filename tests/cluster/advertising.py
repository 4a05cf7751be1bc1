"""An advertiser of a server, and the amounts on its nodes."""

from __future__ import annotations

from scheduler_ext.cluster.advertise import Advertiser, Seen
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.kube import Node
from scheduler_ext.wire.node_info import node_record
from scheduler_ext.wire.watching import Decoder
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, node


class Advertising:
    """An advertiser of a server that has the nodes a, b and c, which advertise nothing yet."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.active = True
        self.advertiser = Advertiser(transport, lambda: self.active, ResourceNames(), 10)
        for name in "abc":
            server.store.put(NODES, node(name, labels={"team": "x"}))

    def seen(self, name: str) -> Seen:
        """The amounts on the nodes, as a watch would deliver them."""
        line = b'{"type":"MODIFIED","object":%s}' % self.server.store.get(NODES, name).body
        found = Decoder(Node).event(line).object
        assert isinstance(found, Node)
        return node_record(found, ResourceNames()).advertised

    def stands(self, name: str, amount: int | None) -> None:
        """Wait for this amount, and deliver it."""
        eventually(lambda: self.seen(name) == (amount, amount))
        self.advertiser.update(name, amount, (amount, amount))

    def set(self, name: str, amount: str) -> None:
        """Another client writes an amount."""

        def change(before: dict[str, dict[str, dict[str, str]]]) -> dict[str, dict[str, dict[str, str]]]:
            status = {key: before["status"][key] | {SHARE: amount} for key in ("capacity", "allocatable")}
            return before | {"status": before["status"] | status}

        self.server.store.update(NODES, name, change)

    def written(self) -> list[str]:
        """The written nodes."""
        return [request.path.split("/")[4] for request in self.server.log.all(writes(NODES))]
