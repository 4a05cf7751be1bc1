"""The active extender writes the advertised amounts of nodes, again where they change, never in a storm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler_ext.cluster import advertise as advertise_module
from scheduler_ext.cluster.advertise import Advertised, Advertiser
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.kube import NodeObject
from scheduler_ext.wire.node_info import node_record
from scheduler_ext.wire.watching import Decoder
from tests.cluster.api.api_faults import After, Hang, Refuse, Reset
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.core.reported import device
from tests.core.reported import node as reported
from tests.kube_objects import SHARE, Json, node

ROOM = 81920 - 8192
MANY = [f"n{i}" for i in range(40)]


class Advertising:
    """An advertiser of a server that has the nodes a, b and c, which advertise nothing yet."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.active = True
        self.advertiser = Advertiser(transport, lambda: self.active, ResourceNames(), 10)
        server.store.put_all(NODES, [node(name, labels={"team": "x"}) for name in "abc"])

    def seen(self, name: str) -> Advertised:
        """The amounts on the nodes, as a watch would deliver them."""
        line = b'{"type":"MODIFIED","object":%s}' % self.server.store.get(NODES, name).body
        found = Decoder(NodeObject).event(line).object
        assert isinstance(found, NodeObject)
        return node_record(found, ResourceNames()).advertised

    def stands(self, name: str, amount: int | None) -> None:
        """Wait for this amount, and deliver it."""
        eventually(lambda: self.seen(name) == (amount, amount))
        self.advertiser.update(name, amount, (amount, amount))

    def set(self, name: str, amount: str) -> None:
        """Another client writes an amount."""

        def change(before: Json) -> Json:
            status = {key: before["status"][key] | {SHARE: amount} for key in ("capacity", "allocatable")}
            return before | {"status": before["status"] | status}

        self.server.store.update(NODES, name, change)

    def written(self) -> list[str]:
        """The written nodes."""
        return [request.path.split("/")[4] for request in self.server.log.all(writes(NODES))]


@pytest.fixture
def advertising(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Advertising]:
    monkeypatch.setattr(advertise_module, "_AGAIN_S", 0.02)
    monkeypatch.setattr(advertise_module, "_ASK_S", 0.01)
    monkeypatch.setattr(advertise_module, "_UNCONFIRMED_S", (0.05, 0.2))
    monkeypatch.setattr(advertise_module, "Backoff", lambda *waits: Backoff(*(waits or (0.01, 0.04))))
    built = Advertising(server, transport)
    yield built
    server.faults.lift()
    built.advertiser.stop()
    for thread in built.advertiser._threads:
        if thread.is_alive():
            thread.join(60)
        assert not thread.is_alive()


def test_the_amount_is_written_to_capacity_and_allocatable_only(advertising: Advertising) -> None:
    before = advertising.server.store.get(NODES, "a").object()
    advertising.advertiser.start()
    advertising.advertiser.update("a", 81_000, (None, None))
    advertising.stands("a", 81_000)
    after = advertising.server.store.get(NODES, "a").object()
    for key in ("capacity", "allocatable"):
        assert after["status"][key].pop(SHARE) == "81000"
    del before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]
    assert after == before
    request = advertising.server.log.all(writes(NODES))[0]
    assert (request.method, request.path) == ("PATCH", f"{NODES}/a/status")
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.json() == {"status": {"capacity": {SHARE: "81000"}, "allocatable": {SHARE: "81000"}}}
    eventually(lambda: advertising.advertiser.writes.total() >= 1)
    assert advertising.advertiser.wrong == 0


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param(7, (None, None), id="missing"),
        pytest.param(7, (0, 7), id="zero in capacity"),
        pytest.param(0, (None, None), id="nothing, where that is what there is"),
        pytest.param(None, (8, 8), id="an amount on a node that is no longer of shares"),
    ],
)
def test_faulty_fields_are_written(advertising: Advertising, wanted: int | None, seen: Advertised) -> None:
    advertising.set("a", "99")
    advertising.advertiser.start()
    advertising.advertiser.update("a", wanted, seen)
    advertising.stands("a", wanted)


def test_a_late_word_from_before_the_write_changes_nothing(
    advertising: Advertising, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advertise_module, "_AGAIN_S", 60.0)
    monkeypatch.setattr(advertise_module, "_UNCONFIRMED_S", (60.0, 60.0))
    advertising.advertiser.start()
    advertising.advertiser.update("a", 7, (None, None))
    eventually(lambda: advertising.advertiser.writes.total() == 1)
    for _ in range(20):
        advertising.advertiser.update("a", 7, (None, None))
    advertising.advertiser.update("a", 7, (7, 7))
    for _ in range(20):
        # Another writer of other amounts is not answered at its own pace.
        advertising.advertiser.update("a", 7, (8, 8))
    advertising.advertiser.update("b", 7, (None, None))
    advertising.stands("b", 7)
    assert advertising.written() == ["a", "b"]


def test_a_standby_writes_nothing_until_it_is_active(advertising: Advertising) -> None:
    advertising.active = False
    advertising.advertiser.start()
    advertising.advertiser.update("a", 7, (None, None))
    advertising.advertiser.update("b", 8, (None, None))
    assert advertising.advertiser._due() is None
    assert advertising.written() == []
    advertising.active = True
    advertising.stands("a", 7)
    advertising.stands("b", 8)


def test_a_forbidden_writer_tries_one_node_from_time_to_time(
    advertising: Advertising, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = advertising.server.faults.place(Refuse(403, "Forbidden", "may not"), writes(NODES), times=None)
    for name in "abc":
        advertising.advertiser.update(name, 7, (None, None))
    advertising.advertiser.start()
    eventually(lambda: refusal.hits >= 4)
    (refused,) = (record.getMessage() for record in caplog.records)
    assert refused.startswith("what nodes advertise is not written, trying again: 403 Forbidden")
    assert advertising.advertiser.writes.total() == 0
    refusal.lift()
    for name in "abc":
        advertising.stands(name, 7)
    eventually(lambda: advertising.advertiser.writes.total() >= 3)
    assert advertising.advertiser.failures.total() == refusal.hits


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(422, "Invalid", "denied by a policy"), id="a policy"),
        pytest.param(Refuse(503, "ServiceUnavailable", "no"), id="no server"),
        pytest.param(Reset(), id="a connection that is reset"),
        pytest.param(After(Reset()), id="an answer that is lost"),
    ],
)
def test_a_failed_write_is_tried_again_and_logged_once(
    advertising: Advertising, fault: Refuse | Reset | After, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    advertising.server.faults.place(fault, writes(NODES), times=3)
    advertising.advertiser.start()
    advertising.advertiser.update("a", 7, (None, None))
    eventually(lambda: advertising.advertiser.failures.total() == 3)
    eventually(lambda: advertising.advertiser.writes.total() >= 1)
    advertising.stands("a", 7)
    # The advertiser counts before it logs.
    eventually(lambda: len(caplog.records) >= 2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "written again" in caplog.text


def test_a_node_that_is_gone_is_let_go(advertising: Advertising) -> None:
    advertising.advertiser.start()
    advertising.advertiser.update("gone", 7, (None, None))
    eventually(lambda: advertising.advertiser.failures.total() == 1)
    eventually(lambda: advertising.advertiser.wrong == 0)
    advertising.active = False
    advertising.advertiser.update("a", 7, (None, None))
    advertising.advertiser.leave("a")
    assert advertising.advertiser.wrong == 0


SHARED = NodeInfo("a", report=reported(device(0)).report, allocatable={}, share_node=True, freshness="Stale")


@pytest.mark.parametrize(
    ("info", "amount"),
    [
        pytest.param(SHARED, ROOM, id="a node of shares"),
        pytest.param(replace(SHARED, share_node=False), None, id="one that is no more"),
        pytest.param(replace(SHARED, report=None), 5, id="without a report what stands there stays"),
    ],
)
def test_the_state_of_a_node_decides(advertising: Advertising, info: NodeInfo, amount: int | None) -> None:
    advertising.set("a", "5")
    advertising.advertiser.update("a", 9, (5, 5))
    advertising.advertiser.follow(info, (5, 5))
    advertising.advertiser.start()
    # The other is written later.
    advertising.advertiser.update("b", 1, (None, None))
    advertising.stands("b", 1)
    assert advertising.seen("a") == (amount, amount)


class TestManyAtOnce:
    """Several are written together while all goes well."""

    @pytest.fixture(autouse=True)
    def many(self, advertising: Advertising, monkeypatch: pytest.MonkeyPatch) -> None:
        """Forty more nodes, and one that was written without trouble."""
        # No event shows the amount, which is not written again for that.
        monkeypatch.setattr(advertise_module, "_UNCONFIRMED_S", (60.0, 60.0))
        advertising.server.store.put_all(NODES, map(node, MANY))
        advertising.advertiser.start()
        advertising.advertiser.update("a", 7, (None, None))
        eventually(lambda: advertising.advertiser.writes.total() == 1)
        advertising.server.log.clear()

    def tell_all(self, advertising: Advertising) -> None:
        for name in MANY:
            advertising.advertiser.update(name, 7, (0, 0))

    def test_not_more_than_eight_and_no_node_twice(self, advertising: Advertising) -> None:
        hanging = advertising.server.faults.place(Hang(), writes(NODES), times=None)
        self.tell_all(advertising)
        eventually(lambda: len(advertising.written()) == 8)
        for amount in range(8, 20):
            for name in MANY:
                # Right for a moment, and wrong again: another event of the same node.
                advertising.advertiser.update(name, 7, (7, 7))
                advertising.advertiser.update(name, amount, (0, 0))
        assert advertising.advertiser._due() is None
        assert len(set(advertising.written())) == len(advertising.written()) == 8
        hanging.lift()
        for name in MANY:
            advertising.stands(name, 19)

    def test_the_first_of_all_is_written_alone(self, advertising: Advertising) -> None:
        """A writer without the right learns it once."""
        advertising.server.faults.place(Refuse(503), writes(NODES), times=1)
        advertising.server.faults.place(Hang(), writes(NODES), times=None)
        advertising.advertiser.update("b", 7, (0, 0))
        eventually(lambda: advertising.advertiser.failures.total() == 1)
        self.tell_all(advertising)
        # The refused one, and the next.
        eventually(lambda: len(advertising.written()) == 2)
        assert advertising.advertiser._due() is None
        assert len(advertising.written()) == 2

    @pytest.mark.parametrize("code", [403, 503])
    def test_a_refusal_of_several_is_one(
        self, advertising: Advertising, code: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        refusal = advertising.server.faults.place(Refuse(code), writes(NODES), times=8)
        self.tell_all(advertising)
        eventually(lambda: refusal.left == 0)
        eventually(lambda: advertising.advertiser.writes.total() == 1 + len(MANY))
        assert advertising.advertiser.failures.total() == 8
        assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
