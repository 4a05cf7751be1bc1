"""Every vectorised filter equals a plain loop over one node, on random clusters."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes, nearest_miss
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import FILTERS, REASONS
from scheduler_ext.core.node.node import NodeInfo, NodeState
from scheduler_ext.core.request.request import GpuRequest
from tests import oracle
from tests.strategies import clusters, several_requests, snapshot_of


def first_refusing(state: NodeState, request: GpuRequest) -> str | None:
    return next((name for name, passes in oracle.FILTERS.items() if not passes(state, request)), None)


def test_every_filter_has_an_oracle_in_the_same_order() -> None:
    assert list(oracle.FILTERS) == [criterion.name for criterion in FILTERS]


def test_filters_ask_in_the_order_in_which_reasons_are_listed() -> None:
    order = [REASONS.index(criterion.reason) for criterion in FILTERS]
    assert order == sorted(order)


@given(clusters(), several_requests)
def test_a_verdict_is_the_first_filter_that_refuses(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    snapshot = snapshot_of(cluster)
    reason_of = {criterion.name: criterion.reason for criterion in FILTERS}
    for request in asked:
        decision = filter_nodes(request, snapshot, SchedulingPolicy())
        event(f"fits somewhere: {bool(decision.fits.any())}")
        for code, state in zip(decision.verdict.tolist(), snapshot.states, strict=True):
            refusing = first_refusing(state, request)
            assert (None if code == FITS else REASONS[code - 1]) == (refusing and reason_of[refusing])


@given(clusters(), several_requests)
def test_a_refusing_filter_can_name_the_nearest_miss(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    for node in snapshot_of(cluster).nodes.values():
        for request in asked:
            refusing = first_refusing(node.state, request)
            if refusing is not None:
                miss = nearest_miss(request, node)
                assert miss is not None
                assert miss.criterion == refusing
                assert miss.device is None or miss.device in node.uuids
                assert miss.needed != miss.have
