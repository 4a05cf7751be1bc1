"""preempt over a real server, where kube-scheduler accepts unproposed victims."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extender.preempting import asks_shares, on_share, preempt_body, share_node, uids
from tests.kube_objects import inventory, names_body
from tests.server.process.product import Product

pytestmark = pytest.mark.process

OBJECTS = (
    *share_node("split", 2),
    on_share("a", 50_000, "split", 0, 1),
    on_share("b", 50_000, "split", 1, 2),
    *share_node("high", 1),
    on_share("c", 50_000, "high", 0, 500),
)
URGENT = asks_shares("urgent", 40_000, priority=100)
CONFIG = """\
apiVersion: config.scheduler-ext.io/v1alpha1
kind: ExtenderConfiguration
preemption: {emptyVictims: true}
"""
SMALL = "Insufficient GPU memory on one device"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory: Path = tmp_path_factory.mktemp("preempt")
    (directory / "inventory.json").write_bytes(inventory(*OBJECTS))
    (directory / "config.yaml").write_text(CONFIG)
    with Product(inventory=directory / "inventory.json", config=directory / "config.yaml") as process:
        yield process.ready()


def test_a_node_where_preemption_would_help_is_shown_with_its_victims(server: Product) -> None:
    """The node's sum has room, so that only the extender knows that a pod has to leave."""
    reply = server.post("filter", names_body(URGENT, ["split", "high"])).json()
    assert reply["NodeNames"] == []
    assert reply["FailedNodes"] == {"split": SMALL}
    assert reply["FailedAndUnresolvableNodes"] == {"high": SMALL}
    proposed = preempt_body(URGENT, {"split": uids()})
    assert server.post("preempt", proposed).json() == {"NodeNameToMetaVictims": {"split": uids("a")}}


def test_a_node_without_victims_is_left_out(server: Product) -> None:
    proposed = preempt_body(URGENT, {"split": uids("a"), "high": uids("c"), "nosuch": uids("a")})
    assert list(server.post("preempt", proposed).json()["NodeNameToMetaVictims"]) == ["split"]


def test_an_impossible_number_of_violations_is_the_callers_fault(server: Product) -> None:
    refused = server.post("preempt", preempt_body(URGENT, {"split": uids("a", violations=2**64)}))
    assert refused.status == 400
    assert "NodeNameToMetaVictims.split.NumPDBViolations" in json.loads(refused.body)["error"]
