"""Many nodes with wrong amounts at once: several are written together while all goes well."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster import advertise as advertise_module
from tests.cluster.advertising import Advertising
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import writes
from tests.cluster.following import eventually
from tests.kube_objects import node

MANY = [f"n{i}" for i in range(40)]


@pytest.fixture(autouse=True)
def many(advertising: Advertising, monkeypatch: pytest.MonkeyPatch) -> Advertising:
    """Forty more nodes, and one that was written without trouble."""
    # No event shows the amount, which is not written again for that.
    monkeypatch.setattr(advertise_module, "_UNCONFIRMED_S", (60.0, 60.0))
    for name in MANY:
        advertising.server.store.put(NODES, node(name))
    advertising.advertiser.start()
    advertising.advertiser.update("a", 7, (None, None))
    eventually(lambda: advertising.advertiser.writes.total() == 1)
    advertising.server.log.clear()
    return advertising


def tell_all(advertising: Advertising) -> None:
    for name in MANY:
        advertising.advertiser.update(name, 7, (0, 0))


def test_not_more_than_eight_and_no_node_twice(advertising: Advertising) -> None:
    hanging = advertising.server.faults.place(Hang(), writes(NODES), times=None)
    tell_all(advertising)
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


def test_the_first_of_all_is_written_alone(advertising: Advertising) -> None:
    """A writer without the right learns it once."""
    advertising.server.faults.place(Refuse(503), writes(NODES), times=1)
    advertising.server.faults.place(Hang(), writes(NODES), times=None)
    advertising.advertiser.update("b", 7, (0, 0))
    eventually(lambda: advertising.advertiser.failures.total() == 1)
    tell_all(advertising)
    # The refused one, and the next.
    eventually(lambda: len(advertising.written()) == 2)
    assert advertising.advertiser._due() is None
    assert len(advertising.written()) == 2


@pytest.mark.parametrize("code", [403, 503])
def test_a_refusal_of_several_is_one(
    advertising: Advertising, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = advertising.server.faults.place(Refuse(code), writes(NODES), times=8)
    tell_all(advertising)
    eventually(lambda: refusal.left == 0)
    eventually(lambda: advertising.advertiser.writes.total() == 1 + len(MANY))
    assert advertising.advertiser.failures.total() == 8
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
