"""The planner on the real kube-scheduler: pods get a place before it asks, and it binds them there."""

from __future__ import annotations

import json

from tests.e2e.cluster.api import eventually
from tests.e2e.planner.planner_lab import ONE, PLANNED, PlannerLab


def test_pods_are_nominated_and_bound_where_they_were_planned(lab: PlannerLab) -> None:
    for stem in "abc":
        lab.add_whole(stem, 4)
    lab.publish()

    def bound() -> float:
        return lab.installation.metric("gpu_extender_nominations_total", outcome="bound")

    before = bound()
    with lab.held():
        names = lab.create_all([lab.pod(ONE) for _ in range(12)])
        planned = {name: lab.await_nominated(name) for name in names}
        meta = lab.get(names[0])["metadata"]
        writers = {
            each["manager"]
            for each in meta["managedFields"]
            if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {})
        }
        assert writers == {"scheduler-ext-planner"}
        assert json.loads(meta["annotations"][PLANNED])["node"] == planned[names[0]]
    assert {name: lab.await_node(name) for name in names} == planned
    assert sorted(map(list(planned.values()).count, set(planned.values()))) == [4, 4, 4]
    eventually(lambda: bound() == before + 12, "the outcomes are counted")
