"""The place that a planner has written on a pod."""

from __future__ import annotations

import json

import pytest

from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION, planned_text, read_planned
from scheduler_ext.wire.pod.cached_pod import pending_pod
from tests.kube_objects import pod
from tests.wire.decoded_pods import decoded

PLACE = PlannedNode("n1", 1_795_000_000.25)


def test_what_is_written_is_read_again() -> None:
    assert read_planned({PLANNED_ANNOTATION: planned_text(PLACE)}) == PLACE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("n1", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param('{"node": "n1"}', id="no time"),
        pytest.param('{"node": "n1", "until": "soon"}', id="a time that is none"),
        pytest.param('{"node": 1, "until": "2026-11-28T00:00:00Z"}', id="a node that is no name"),
    ],
)
def test_other_texts_are_no_plan(text: str) -> None:
    assert read_planned({PLANNED_ANNOTATION: text}) is None
    assert read_planned({}) is None


@pytest.mark.parametrize(
    ("nominated", "planned", "ours"),
    [
        pytest.param("n1", "n1", True, id="by the planner"),
        pytest.param("n2", "n1", False, id="by another component, after the planner"),
        pytest.param("n2", None, False, id="by another component"),
        pytest.param(None, "n1", False, id="a nomination that was removed"),
        pytest.param(None, None, False, id="none"),
    ],
)
def test_whose_nomination_it_is(nominated: str | None, planned: str | None, ours: bool) -> None:
    made = pod("p", {"nvidia.com/gpu": "1"})
    made["status"]["nominatedNodeName"] = nominated
    if planned is not None:
        until = "2026-11-28T00:00:00.5Z"
        made["metadata"]["annotations"][PLANNED_ANNOTATION] = json.dumps({"node": planned, "until": until})
    found = pending_pod(decoded(made), ResourceNames())
    assert found.is_planned == ours
