"""A node without some of its pods, by subtraction, is the node that would be found without them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle import Decision
from scheduler_ext.core.departures import Departures
from scheduler_ext.core.node import NodeInfo
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.state import resolve
from scheduler_ext.core.table import build_snapshot
from tests.core.asked import whole
from tests.core.preempt_strategies import mig_nodes, mixed_nodes, share_nodes, whole_nodes
from tests.strategies import RESOURCES, node_infos, requests

infos = st.one_of(
    node_infos(),
    *(kind.map(lambda pair: pair[0]) for kind in (whole_nodes(), mig_nodes(), share_nodes(), mixed_nodes())),
)


def departures(info: NodeInfo, request: GpuRequest) -> Departures:
    return Departures(info, info.pods, request, Policy(), RESOURCES, 10)


def without(info: NodeInfo, gone: tuple[int, ...]) -> NodeInfo:
    return replace(
        info,
        pods=tuple(
            replace(pod, departed=True) if i in gone and pod.holds else pod for i, pod in enumerate(info.pods)
        ),
    )


def some_of(info: NodeInfo) -> st.SearchStrategy[tuple[int, ...]]:
    holding = [i for i, pod in enumerate(info.pods) if pod.holds]
    return st.sets(st.sampled_from(holding)).map(sorted).map(tuple) if holding else st.just(())


@given(infos, st.data())
def test_subtracting_what_pods_hold_is_as_if_they_had_left(info: NodeInfo, data: st.DataObject) -> None:
    all_of_it = departures(info, whole())
    for _ in range(3):
        gone = data.draw(some_of(info))
        event(f"gone: {min(3, len(gone))}")
        expected = resolve(without(info, gone), RESOURCES, 10)
        found = all_of_it.node_without(gone)
        assert found.state == expected.state
        assert found.uuids == expected.uuids


@given(infos, requests(), st.data())
def test_a_request_fits_as_filter_says(info: NodeInfo, request: GpuRequest, data: st.DataObject) -> None:
    sets = [data.draw(some_of(info)) for _ in range(3)]
    fits = []
    for gone in sets:
        snapshot = build_snapshot({"n": resolve(without(info, gone), RESOURCES, 10)}, 0)
        fits.append(bool(Decision(request, snapshot, Policy()).fits[snapshot.state_of[0]]))
    together = departures(info, request)
    assert together.first_fit(sets) == next((s for s, fit in zip(sets, fits, strict=True) if fit), None)
    assert [together.fits(gone) for gone in sets] == fits
    assert together.evaluations == len(set(sets))
