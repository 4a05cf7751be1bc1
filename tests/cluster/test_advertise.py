"""The active extender writes the advertised amounts of nodes, again where they change, never in a storm."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster import advertise as advertise_module
from scheduler_ext.cluster.advertise import Seen
from scheduler_ext.core.node.node import NodeInfo
from tests.cluster.advertising import Advertising
from tests.cluster.api.api_faults import After, Refuse, Reset
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.following import eventually
from tests.core.reported import device
from tests.core.reported import node as reported
from tests.kube_objects import SHARE

ROOM = 81920 - 8192


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
        pytest.param(7, (0, 0), id="zero, as a kubelet sets it"),
        pytest.param(7, (0, 7), id="zero in capacity"),
        pytest.param(7, (8, 8), id="another amount"),
        pytest.param(0, (None, None), id="nothing, where that is what there is"),
        pytest.param(None, (8, 8), id="an amount on a node that is no longer of shares"),
    ],
)
def test_faulty_fields_are_written(advertising: Advertising, wanted: int | None, seen: Seen) -> None:
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


def all_writes(advertising: Advertising) -> list[Request]:
    return advertising.server.log.all(writes(NODES))


def amount(request: Request) -> str:
    found: str = request.json()["status"]["capacity"][SHARE]
    return found


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


class TestFollow:
    """From the state of a node to the written amount."""

    def follow(self, advertising: Advertising, info: NodeInfo, seen: Seen) -> list[Request]:
        advertising.advertiser.follow(info, seen)
        advertising.advertiser.start()
        # The other is written later, if at all.
        advertising.advertiser.update("b", 1, (None, None))
        advertising.stands("b", 1)
        return [request for request in all_writes(advertising) if "/a/" in request.path]

    def info(self, *, share_node: bool = True) -> NodeInfo:
        return NodeInfo(
            "a", report=reported(device(0)).report, allocatable={}, share_node=share_node, freshness="Stale"
        )

    def test_a_node_of_shares(self, advertising: Advertising) -> None:
        assert self.follow(advertising, self.info(), (None, None))
        assert advertising.seen("a") == (ROOM, ROOM)

    def test_one_that_is_no_more(self, advertising: Advertising) -> None:
        advertising.set("a", "5")
        assert self.follow(advertising, self.info(share_node=False), (5, 5))
        assert advertising.seen("a") == (None, None)

    def test_without_a_report_what_stands_there_stays(self, advertising: Advertising) -> None:
        seen = (5, 5)
        info = NodeInfo("a", allocatable={}, share_node=True)
        advertising.advertiser.update("a", 9, seen)
        assert not self.follow(advertising, info, seen)
