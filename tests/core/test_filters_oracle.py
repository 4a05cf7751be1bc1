"""Every vectorised filter answers what a plain loop over one node answers, on random clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import event, given

from scheduler_ext.core.criterion import View
from scheduler_ext.core.cycle import FITS, Decision
from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.node import NodeInfo, NodeState
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.reasons import REASONS
from scheduler_ext.core.request import GpuRequest
from tests import oracle
from tests.strategies import clusters, requests, snapshot_of


def first_refusing(state: NodeState, request: GpuRequest) -> str | None:
    return next((name for name, passes in oracle.FILTERS.items() if not passes(state, request)), None)


def test_every_filter_has_an_oracle_in_the_same_order() -> None:
    assert list(oracle.FILTERS) == [criterion.name for criterion in FILTERS]


def test_filters_ask_in_the_order_in_which_reasons_are_listed() -> None:
    order = [REASONS.index(criterion.reason) for criterion in FILTERS]
    assert order == sorted(order)


@given(clusters(), requests())
def test_every_filter_agrees_with_its_oracle(cluster: Sequence[NodeInfo], request: GpuRequest) -> None:
    snapshot = snapshot_of(cluster)
    view = View(request, snapshot)
    # What a filter says of a node that an earlier one refused means nothing.
    asked = np.ones(len(snapshot.states), np.bool_)
    for criterion in FILTERS:
        expected = [oracle.FILTERS[criterion.name](state, request) for state in snapshot.states]
        passed = criterion.passes(view) if criterion.applies(request) else view.everywhere(True)
        wrong = [
            state
            for state, mine, theirs, counts in zip(snapshot.states, passed, expected, asked, strict=True)
            if counts and bool(mine) != theirs
        ]
        assert not wrong, criterion.name
        asked &= passed
    event(f"fits somewhere: {bool(asked.any())}")


@given(clusters(), requests())
def test_a_verdict_is_the_first_filter_that_refuses(cluster: Sequence[NodeInfo], request: GpuRequest) -> None:
    snapshot = snapshot_of(cluster)
    decision = Decision(request, snapshot, Policy())
    reason_of = {criterion.name: criterion.reason for criterion in FILTERS}
    for code, state in zip(decision.verdict.tolist(), snapshot.states, strict=True):
        refusing = first_refusing(state, request)
        assert (None if code == FITS else REASONS[code - 1]) == (refusing and reason_of[refusing])


@given(clusters(), requests())
def test_a_refusing_filter_can_say_what_was_closest(cluster: Sequence[NodeInfo], request: GpuRequest) -> None:
    snapshot = snapshot_of(cluster)
    for node in snapshot.nodes.values():
        refusing = first_refusing(node.state, request)
        for criterion in FILTERS:
            if criterion.name == refusing:
                miss = criterion.miss(request, node)
                assert miss.criterion == criterion.name
                assert miss.device is None or miss.device in node.uuids
                assert miss.needed != miss.have
