"""Refusals that an autoscaler does not see."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.filters.memory import FreeMemory
from scheduler_ext.core.filters.model import Model
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.new_nodes import CURES, NewNodes
from scheduler_ext.features.autoscaling.blind_rejections import BlindRejections
from scheduler_ext.wire.config import Configuration
from tests.explain.explaining import mig
from tests.extender.preempting import extender_on, until
from tests.extender.test_new_nodes import WHOLE, wishes
from tests.kube_objects import gpu, gpu_node, names_body, node, pod
from tests.server.followed import Followed
from tests.server.test_gpu_metrics import metrics_of, scraped


def test_refusals_count_by_the_best_verdict_on_the_refusing_nodes() -> None:
    extender = extender_on(
        *(gpu_node("held", [gpu(0)]), node("held", {WHOLE: "1"}), pod("other", {WHOLE: "1"}, on="held")),
        *(gpu_node("none", [gpu(0, mig=mig())], migStrategy="mixed"), node("none", {WHOLE: "1"})),
        *(gpu_node("t4", [gpu(0, model="T4")]), node("t4", {WHOLE: "1"})),
    )
    blind = BlindRejections(extender.new_nodes)
    asking = wishes({WHOLE: "1"}, model="A100")
    blind.answered("filter", extender.filter(names_body(asking, ["held", "none", "t4"]), until()))
    blind.read()
    assert counted(blind) == {
        ("Insufficient nvidia.com/gpu per device", "curable"): 1,
        ("node(s) didn't match the requested GPU model", "incurable"): 1,
    }
    blind.answered("filter", extender.filter(names_body(asking, ["none"]), until()))
    blind.read()
    assert counted(blind)["Insufficient nvidia.com/gpu per device", "incurable"] == 1


def test_a_name_that_is_no_node_here_is_unknown() -> None:
    extender = extender_on(gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}))
    blind = BlindRejections(extender.new_nodes)
    blind.answered("filter", extender.filter(names_body(pod("p", {WHOLE: "1"}), ["stranger"]), until()))
    blind.read()
    assert counted(blind) == {("node(s) had no fresh GPU inventory", "unknown"): 1}


def counted(blind: BlindRejections) -> dict[Any, int]:
    return {labels: count for labels, count in dict(blind.rejections).items() if count}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            Answer(b"", 3, 0, {Model.reason.text: 2, FreeMemory.reason.text: 1}),
            {Model.reason.text, FreeMemory.reason.text},
            id="refused everywhere: once for each reason",
        ),
        pytest.param(Answer(b"", 3, 1, {Model.reason.text: 2}), set(), id="one node is enough"),
    ],
)
def test_rejections_that_an_autoscaler_does_not_see(answer: Answer, expected: set[str]) -> None:
    blind = BlindRejections(NewNodes(Configuration().sizing()))
    blind.answered("filter", answer)
    blind.answered("prioritize", answer)
    # Without the basis of the answer, nothing is known of new nodes.
    assert dict(blind.rejections) == {(reason, "unknown"): 1 for reason in expected}
    found = scraped(metrics_of(Followed()))["gpu_extender_autoscaler_blind_rejections_total"]
    assert len(found) == (len(REASONS) - 1) * len(CURES)
