"""The planner on the real kube-scheduler: pods get a place before it asks, and it binds them there."""

from __future__ import annotations

import json

from tests.e2e.cluster.api import eventually
from tests.e2e.planner.planner_lab import ONE, PLANNED, PlannerLab


def test_pods_are_nominated_and_bound_where_they_were_planned(lab: PlannerLab) -> None:
    for stem in "abc":
        lab.add_whole(stem, 4)
    lab.publish()
    before = lab.outcomes(outcome="bound")
    with lab.held():
        names = lab.create_all([lab.pod(ONE) for _ in range(12)])
        planned = {name: lab.await_nominated(name) for name in names}
        assert lab.managers(names[0]) == {"scheduler-ext-planner"}
        written = json.loads(lab.get(names[0])["metadata"]["annotations"][PLANNED])
        assert written["node"] == planned[names[0]]
    assert {name: lab.await_node(name) for name in names} == planned
    assert sorted(map(list(planned.values()).count, set(planned.values()))) == [4, 4, 4]
    eventually(lambda: lab.outcomes(outcome="bound") == before + 12, "the outcomes are counted")
