"""The waiting pods by state, and the age of the plan, in /metrics."""

from __future__ import annotations

from scheduler_ext.features.gangs.planning.plan import Entry, Plan, State
from scheduler_ext.features.gangs.queue.metrics import QueueMetrics


def samples(plan: Plan | None) -> dict[str, float]:
    families = QueueMetrics(lambda: plan, lambda: 1010.0).collect()
    return {
        each.labels.get("state", each.name.removeprefix("gpu_extender_")): each.value
        for family in families
        for each in family.samples
    }


def test_every_state_has_a_number() -> None:
    entries = [Entry(name, "ml", name, State.WAITING) for name in "ab"]
    entries.append(Entry("c", "ml", "c", State.NOMINATED))
    found = samples(Plan(1000.0, entries))
    assert found.pop("plan_age_seconds") == 10.0
    assert found.keys() == {state.value for state in State}
    assert {state: number for state, number in found.items() if number} == {"waiting": 2, "nominated": 1}


def test_a_planner_that_has_not_planned_yet_has_no_age() -> None:
    assert "plan_age_seconds" not in samples(Plan())


def test_without_a_planner_there_is_no_series() -> None:
    assert samples(None) == {}
