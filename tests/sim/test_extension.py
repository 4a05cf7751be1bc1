"""Simulations where no feature adds to them."""

from __future__ import annotations

import pytest

from scheduler_ext.core.request.gang_request import GATE
from tests.extender.foreseeing import WHOLE
from tests.extender.preempting import whole_node
from tests.kube_objects import ANNOTATION, pod
from tests.sim.cluster.foreseeing import foreseen


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_ext.sim.extension.installed", lambda: ())


def test_the_pods_of_a_gang_are_placed_like_others() -> None:
    gang = {ANNOTATION + "gang": "train", ANNOTATION + "gang-size": "2"}
    gated = pod("gated", {WHOLE: "1"}, annotations=gang, schedulingGates=[{"name": GATE}])
    items = foreseen([gated, pod("more", {WHOLE: "1"}, annotations=gang)], *whole_node("n", None))
    assert [(item["node"], item["gang"]) for item in items] == [("n", None), (None, None)]
    # Nothing removes its gate.
    assert [GATE in " ".join(item["notModelled"]) for item in items] == [True, False]
