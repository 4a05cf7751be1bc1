"""The lists of decisions and of waiting pods."""

from __future__ import annotations

import json

import pytest

from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.explain.recorded import decision_row
from scheduler_ext.explain.sentences import asks
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, waiting
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, inventory, names_body, node, pod

WHOLE = "nvidia.com/gpu"
NODES = [gpu_node("small", [gpu(0)]), node("small", {WHOLE: "1"})]
NAMES = ["small"]


def extender() -> Extender:
    config = Configuration()
    made = Extender(config)
    made.replace_nodes(assemble(read_objects(inventory(*NODES)), config.resource_names()).values())
    return made


def ask(asked: Extender, asking: Json) -> None:
    answer = asked.filter(names_body(asking, NAMES), float("inf"))
    asked.record.answered("filter", answer)
    passed = json.loads(answer.body)["NodeNames"]
    if passed:
        asked.record.answered("prioritize", asked.prioritize(names_body(asking, passed), float("inf")))


def pending(*pods: Json) -> list[PendingPod]:
    return waiting(read_objects(inventory(*pods)), ResourceNames())


def test_a_pod_that_fits_shows_its_best_node_and_the_scores() -> None:
    asked = extender()
    ask(asked, pod("p", {WHOLE: "1"}))
    (entry,) = asked.record.recent()
    row = decision_row(entry)
    assert (row["asked"], row["fitting"], row["best"], row["reason"], row["bound"]) == (
        1,
        1,
        "small",
        None,
        None,
    )
    json.dumps(row)


def test_a_pod_that_fits_no_node_shows_the_reasons() -> None:
    asked = extender()
    ask(asked, pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100"}))
    row = decision_row(asked.record.recent()[0])
    assert (row["fitting"], row["reason"]) == (0, "node(s) didn't match the requested GPU model")


@pytest.mark.parametrize(
    ("asking", "text"),
    [
        pytest.param(
            pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100,A100"}),
            "1 × nvidia.com/gpu, model H100 or A100",
            id="the models it would take",
        ),
    ],
)
def test_the_request_of_a_waiting_pod(asking: Json, text: str) -> None:
    (each,) = pending(asking)
    assert asks(each.pod.request) == text
