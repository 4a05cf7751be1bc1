"""PodDisruptionBudgets: their pods, and the count of violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_ext.core.intree import Requirement
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import (
    Budget,
    BudgetIndex,
    PodSelector,
    budgets_of,
    most_important_first,
    over_budget,
)
from tests.core.preemption import preempt_oracle
from tests.core.preemption.preempt_strategies import budgets, pods, unit
from tests.core.reported import WHOLE, bound, wants

WEB = {"app": "web"}


def pod(name: str = "a", **fields: object) -> BoundPod:
    return bound(name, wants(1, WHOLE), **({"labels": WEB} | fields))


def violations(leaving: Sequence[BoundPod], granted: Sequence[Budget]) -> int:
    ordered = most_important_first(leaving)
    return sum(over_budget(budgets_of(ordered, granted), [each.allowed for each in granted]))


def budget(selector: PodSelector | None = None, allowed: int = 0, **fields: object) -> Budget:
    return replace(Budget("ns", "pdb", selector or PodSelector(WEB), allowed), **fields)  # type: ignore[arg-type]


def expression(operator: str, *values: str, key: str = "app") -> PodSelector:
    return PodSelector({}, (Requirement(key, operator, values),))


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        pytest.param(PodSelector({}), {}, True, id="nothing asked is met by all"),
        pytest.param(expression("DoesNotExist"), WEB, False, id="it must not exist and does"),
        pytest.param(expression("Gt", "1"), {"app": "2"}, False, id="an operator of node affinity only"),
        pytest.param(expression("NotIn"), WEB, False, id="and then met by none"),
        pytest.param(
            PodSelector(WEB, (Requirement("tier", "Exists", ()),)),
            WEB,
            False,
            id="labels met, expression not",
        ),
    ],
)
def test_a_selector_means(selector: PodSelector, labels: dict[str, str], matches: bool) -> None:
    assert selector.matches(labels) is matches


@pytest.mark.parametrize(
    ("one", "covers"),
    [
        pytest.param(budget(namespace="other"), False, id="of another namespace"),
        pytest.param(replace(budget(), selector=None), False, id="without a selector: no pod's"),
        pytest.param(budget(PodSelector({})), True, id="an empty selector: everybody's in the namespace"),
    ],
)
def test_a_budget_covers_a_pod(one: Budget, covers: bool) -> None:
    assert one.covers(pod()) is covers


@pytest.mark.parametrize(
    ("leaving", "granted", "expected"),
    [
        pytest.param(
            [pod()], [budget(PodSelector({}))], 0, id="kube-scheduler passes over an empty selector"
        ),
        pytest.param(
            [pod("a", priority=1), pod("b", priority=9, labels=WEB | {"tier": "x"})],
            [budget(allowed=1), budget(PodSelector({"tier": "x"}), 0)],
            2,
            id="the most important leaves first, and takes its forbidden devices from the next",
        ),
    ],
)
def test_violations(leaving: list[BoundPod], granted: list[Budget], expected: int) -> None:
    assert violations(leaving, granted) == expected
    assert violations(leaving[::-1], granted) == expected


@given(st.lists(st.integers(0, 9), max_size=6, unique=True), budgets(), st.data())
def test_violations_are_counted_as_in_kube_scheduler(
    numbers: list[int], granted: Sequence[Budget], data: st.DataObject
) -> None:
    leaving = [data.draw(pods(f"p{i}", unit(WHOLE, 1))) for i in numbers]
    assert violations(leaving, granted) == preempt_oracle.violations(leaving, granted)


SELECTORS = st.one_of(
    st.none(),
    st.builds(
        PodSelector,
        st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        st.lists(
            st.builds(
                Requirement,
                st.sampled_from("ab"),
                st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
                st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    ),
)


@given(
    st.lists(st.tuples(st.sampled_from(("ns", "other")), SELECTORS), max_size=6),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
@example([("ns", expression("NotIn", "x", key="a")), ("ns", None)], {})
@example([("ns", expression("In", "x", "y", key="a")), ("ns", None)], {"a": "y"})
def test_the_index_finds_the_budgets_that_cover_a_pod(
    granted: list[tuple[str, PodSelector | None]], labels: dict[str, str]
) -> None:
    every = [Budget(namespace, f"b{i}", selector, 0) for i, (namespace, selector) in enumerate(granted)]
    one = pod(labels=labels)
    assert BudgetIndex(every).covering(one) == tuple(i for i, each in enumerate(every) if each.covers(one))


@pytest.mark.parametrize(
    "selector_of",
    [
        pytest.param(
            lambda app: PodSelector({"app": app, "part-of": "shop"}), id="labels, one of them common"
        ),
        pytest.param(lambda app: expression("In", app, f"{app}-canary"), id="an expression with In"),
    ],
)
def test_a_pod_is_compared_with_few_of_many_budgets(
    selector_of: Callable[[str], PodSelector], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    covers = Budget.covers

    def counted(self: Budget, one: BoundPod) -> bool:
        compared.append(one.name)
        return covers(self, one)

    monkeypatch.setattr(Budget, "covers", counted)
    index = BudgetIndex([budget(selector_of(f"app-{i}"), name=f"b{i}") for i in range(500)])
    for i in range(500):
        assert index.covering(pod(f"p{i}", labels={"app": f"app-{i}", "part-of": "shop"})) == (i,)
    assert len(compared) == 500
