"""The plan that the queue, the page and the metrics show."""

from __future__ import annotations

from scheduler_ext.core.planning.plan import Entry, Plan, State


def test_a_plan_counts_pods_by_state() -> None:
    entries = [Entry(uid, "ml", uid, State.WAITING) for uid in "ab"]
    plan = Plan(1.0, (*entries, Entry("c", "ml", "c", State.NOMINATED, node="n1")))
    assert plan.counts() == {State.WAITING: 2, State.NOMINATED: 1}
