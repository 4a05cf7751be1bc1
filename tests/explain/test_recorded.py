"""The lists of decisions and of waiting pods."""

from __future__ import annotations

import json

from scheduler_ext.explain.recorded import decision_row
from scheduler_ext.explain.sentences import request_in_words
from tests.explain.test_replay import running
from tests.extender.preempting import whole_node
from tests.extender.test_record import ask
from tests.kube_objects import ANNOTATION, pod

WHOLE = "nvidia.com/gpu"


def test_a_decision_has_its_best_node_or_the_reason() -> None:
    there = running(*whole_node("n", None))
    wishes = {"fits": {}, "waits": {ANNOTATION + "model": "H100"}}
    for name, wish in wishes.items():
        ask(there.extender, pod(name, {WHOLE: "1"}, annotations=wish), ["n"])
    rows = {row["name"]: row for row in map(decision_row, there.extender.record.recent())}
    json.dumps(rows)
    keys = ("asked", "fitting", "best", "reason", "bound")
    assert {name: tuple(row[key] for key in keys) for name, row in rows.items()} == {
        "fits": (1, 1, "n", None, None),
        "waits": (1, 0, None, "node(s) didn't match the requested GPU model", None),
    }


def test_a_request_in_words_has_the_models_that_it_would_take() -> None:
    wants = pod("p", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100,A100"})
    (waiting,) = running(*whole_node("n", None), wants).pending()
    assert request_in_words(waiting.pod.request) == "1 × nvidia.com/gpu, model H100 or A100"
