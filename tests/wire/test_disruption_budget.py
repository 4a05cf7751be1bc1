"""PodDisruptionBudgets as the API server writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.core.intree import Requirement
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.wire.selectors import PodDisruptionBudget, budget
from scheduler_ext.wire.watching import Decoder

DECODER = Decoder(PodDisruptionBudget)


def pdb(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "ml", "name": "train", "resourceVersion": "7"} | metadata,
        "spec": spec,
        "status": status,
    }


def read(one: dict[str, Any]) -> Budget:
    page = DECODER.page(json.dumps({"metadata": {"resourceVersion": "9"}, "items": [one]}).encode())
    assert not page.broken
    return budget(page.items[0])


def test_a_budget_as_its_controller_keeps_it() -> None:
    whole = pdb(
        {
            "minAvailable": "50%",
            "selector": {
                "matchLabels": {"app": "train"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
            },
        },
        {
            "conditions": [],
            "currentHealthy": 4,
            "desiredHealthy": 2,
            "disruptionsAllowed": 2,
            "disruptedPods": {"train-3": "2026-11-21T07:13:08Z"},
            "expectedPods": 4,
            "observedGeneration": 1,
        },
    )
    assert read(whole) == Budget(
        namespace="ml",
        name="train",
        selector=PodSelector({"app": "train"}, (Requirement("tier", "In", ("gold", "silver")),)),
        allowed=2,
        disrupted=frozenset({"train-3"}),
    )


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        pytest.param(None, None, id="no spec"),
        pytest.param({"selector": {}}, PodSelector({}), id="an empty selector"),
        pytest.param(
            {"selector": {"matchLabels": {"app": None}}},
            PodSelector({"app": ""}),
            id="a null value, as in Go",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists", "values": None}]}},
            PodSelector({}, (Requirement("app", "Exists", ()),)),
            id="an expression without values",
        ),
    ],
)
def test_selectors(spec: Any, selector: PodSelector | None) -> None:
    assert read(pdb(spec)).selector == selector


@pytest.mark.parametrize("status", [None, {"disruptionsAllowed": None, "disruptedPods": None}])
def test_before_its_controller_has_spoken_it_allows_nothing(status: Any) -> None:
    found = read(pdb(status=status))
    assert (found.allowed, found.disrupted) == (0, frozenset())


def test_an_unreadable_budget_is_one_broken_object() -> None:
    broken = pdb(status={"disruptionsAllowed": 2**31})
    page = DECODER.page(json.dumps({"metadata": {}, "items": [pdb(), broken]}).encode())
    assert len(page.items) == 1
    (found,) = page.broken
    assert found.name == "ml/train"
    assert found.problem.startswith("status.disruptionsAllowed")
