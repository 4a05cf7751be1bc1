"""The nomination that a planner writes."""

import json

from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.features.gangs.wire.nomination import nomination
from scheduler_ext.wire.planned_annotation import read_planned

PLACE = PlannedNode("n1", 1_795_000_000.25)


def test_a_nomination_has_the_place() -> None:
    body = json.loads(nomination("ml", "p", "uid-p", PLACE))
    assert body["status"] == {"nominatedNodeName": "n1"}
    assert read_planned(body["metadata"].pop("annotations")) == PLACE
    assert body["metadata"] == {"namespace": "ml", "name": "p", "uid": "uid-p"}


def test_a_withdrawal_gives_up_both_fields() -> None:
    body = json.loads(nomination("ml", "p", "uid-p", None))
    assert (body["status"], body["metadata"]["annotations"]) == ({}, {})
