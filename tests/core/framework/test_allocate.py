"""The GPU of each share: exact where possible, always within the GPU's room, in bounded time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.framework import allocate
from scheduler_ext.core.framework.allocate import (
    Cost,
    ShareFit,
    fit_shares,
    place_exactly,
    tightest,
)
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareRequest
from tests import oracle
from tests.gpu_strategies import STRATEGIES
from tests.strategies import clusters, requests, share_asks, snapshot_of


def emptiest(_before: Ints, after: Ints) -> Floats:
    return -after.astype(np.float64)


def first(_before: Ints, after: Ints) -> Floats:
    return np.zeros(after.shape)


COSTS = (tightest, emptiest, first)
room_mib = st.one_of(st.just(-1), st.integers(0, 12))


@st.composite
def rooms(draw: st.DrawFn) -> list[list[int]]:
    """Room per state and slot, small numbers that sums of shares meet exactly."""
    slots = draw(st.integers(1, 5))
    return draw(st.lists(st.lists(room_mib, min_size=slots, max_size=slots), min_size=1, max_size=6))


@st.composite
def small_shares(draw: st.DrawFn) -> ShareRequest:
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    started = sorted(draw(st.lists(st.integers(0, len(sizes)), max_size=2)))
    init = tuple(InitShare(f"init-{k}", draw(st.integers(1, 12)), tuple(range(k))) for k in started)
    return ShareRequest(tuple((f"c{i}", mib) for i, mib in enumerate(sizes)), init)


def shares_of(running: Sequence[int], init: Sequence[tuple[int, int]] = ()) -> ShareRequest:
    """Each init container is (its size, the number of sidecars before it)."""
    return ShareRequest(
        tuple((f"c{i}", mib) for i, mib in enumerate(running)),
        tuple(InitShare(f"i{i}", mib, tuple(range(sidecars))) for i, (mib, sidecars) in enumerate(init)),
    )


def columns(states: Sequence[Sequence[int]]) -> Ints:
    return np.array(states, np.int32).T


def everywhere(states: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(len(states), np.bool_)


@given(rooms(), small_shares(), st.sampled_from(COSTS))
def test_shares_fit_exactly_where_some_placement_exists_and_within_the_room_in_every_phase(
    states: list[list[int]], shares: ShareRequest, cost: Cost
) -> None:
    fit = ShareFit(columns(states), shares).place(everywhere(states), cost)
    expected = [oracle.place(room, shares) is not None for room in states]
    event(f"fit: {sum(expected)} of {len(expected)}")
    assert fit.fits.tolist() == expected
    assert fit_shares(columns(states), shares, everywhere(states)).tolist() == expected
    for i, room in enumerate(states):
        where = [int(slots[i]) for slots in fit.slots]
        if not fit.fits[i]:
            assert set(where) == {-1}
            continue
        for slot, mib in enumerate(room):
            load = oracle.peak_mib(shares, where, slot)
            assert fit.load_mib[slot, i] == load
            assert load <= max(mib, 0)


@given(rooms(), small_shares(), st.sampled_from(COSTS), st.data())
def test_a_state_that_is_not_asked_about_gets_nothing_and_changes_nothing(
    states: list[list[int]], shares: ShareRequest, cost: Cost, data: st.DataObject
) -> None:
    where = np.array([data.draw(st.booleans()) for _ in states])
    asked = ShareFit(columns(states), shares).place(where, cost)
    of_all = ShareFit(columns(states), shares).place(everywhere(states), cost)
    assert asked.fits.tolist() == (of_all.fits & where).tolist()
    for some, every in zip(asked.slots, of_all.slots, strict=True):
        assert some.tolist() == np.where(where, every, -1).tolist()


@given(st.lists(room_mib, min_size=1, max_size=6), small_shares())
def test_the_search_alone_is_exact(room: list[int], shares: ShareRequest) -> None:
    found = place_exactly(room, shares, [10**6])
    assert (found is not None) == (oracle.place(room, shares) is not None)
    if found is not None:
        for slot, mib in enumerate(room):
            assert oracle.peak_mib(shares, found, slot) <= max(mib, 0)


@pytest.mark.parametrize(
    ("room", "sizes", "init"),
    [
        pytest.param([90, 80, 50], [50, 50, 30, 30, 60], None, id="all GPUs, where best fit fails"),
        pytest.param([40], [10], InitShare("init", 30, (0,)), id="an init container, beside another"),
    ],
)
def test_shares_may_fill_a_node_exactly(room: list[int], sizes: list[int], init: InitShare | None) -> None:
    running = tuple((f"c{i}", mib) for i, mib in enumerate(sizes))
    shares = ShareRequest(running, (init,) if init is not None else ())
    assert fit_shares(columns([room]), shares, everywhere([room]), [10_000]).tolist() == [True]


def test_shares_that_best_fit_places_exactly_need_no_search() -> None:
    shares = shares_of((20, 60, 40, 50))
    assert fit_shares(columns([[80, 90]]), shares, everywhere([0]), [0]).tolist() == [True]


@pytest.mark.parametrize(
    ("room", "running", "init", "fits"),
    [
        pytest.param((10,), (11,), (), False, id="one MiB too many does not fit"),
        pytest.param(
            (7, 6), (4, 3, 3, 3), (), True, id="best fit puts 4 into 6 and fails, the search succeeds"
        ),
        pytest.param((10, 5), (5, 5), ((10, 1),), True, id="a sidecar makes way for the init container"),
        pytest.param(
            (10, 6), (3, 4), ((10, 1),), True, id="also to the GPU that has as much left as another"
        ),
    ],
)
def test_shares_of_a_pod_are_placed_together(
    room: tuple[int, ...], running: tuple[int, ...], init: tuple[tuple[int, int], ...], fits: bool
) -> None:
    shares = shares_of(running, init)
    for cost in COSTS:
        assert ShareFit(columns([room]), shares).place(everywhere([room]), cost).fits.tolist() == [fits]


@pytest.mark.parametrize(
    ("cost", "slot"),
    [
        pytest.param(tightest, 1, id="best fit takes the fullest GPU that has room"),
        pytest.param(emptiest, 2, id="spreading takes the emptiest"),
    ],
)
def test_one_share_goes_where_it_costs_least(cost: Cost, slot: int) -> None:
    fit = ShareFit(columns([(4, 6, 9)]), ShareRequest((("c", 5),))).place(everywhere([0]), cost)
    assert [slots.tolist() for slots in fit.slots] == [[slot]]


@pytest.mark.parametrize(
    ("room", "running", "init", "slots"),
    [
        pytest.param((10, 4), (6,), ((4, 0),), [0, 0], id="its app's GPU, though another is tighter"),
        pytest.param((10, 4), (1, 6), ((3, 1),), [0, 0], id="also beside a sidecar"),
        pytest.param((10, 4), (5,), ((8, 0), (4, 0)), [0, 0, 0], id="that of an init container before"),
        pytest.param((10, 4), (10,), ((4, 0), (10, 0)), [0, 0, 0], id="all of its app's GPU"),
        pytest.param((10, 3), (3,), ((7, 0),), [0, 0], id="the app has its init container's"),
        pytest.param((10, 3), (1, 3), ((6, 1),), [0, 0], id="also where that is beside a sidecar"),
        pytest.param(
            (10, 6), (10, 4), ((6, 0),), [1, 0], id="of two GPUs of its app the one that has as much"
        ),
    ],
)
def test_a_gpu_that_the_pod_holds_anyway_comes_first(
    room: tuple[int, ...], running: tuple[int, ...], init: tuple[tuple[int, int], ...], slots: list[int]
) -> None:
    """kube-scheduler counts the larger of init containers and app: on two GPUs the pod would hold both."""
    shares = shares_of(running, init)
    for cost in COSTS:
        fit = ShareFit(columns([room]), shares).place(everywhere([room]), cost)
        # From the last continuing one: a sidecar goes where it costs least.
        assert [int(slot[0]) for slot in fit.slots][len(running) - 1 :] == slots


def test_of_places_that_hold_the_same_in_total_those_of_the_cost_stay() -> None:
    """A sidecar goes to the emptiest GPU: beside the init container the pod would hold no less."""
    rooms = [(6, 6), (4, 7)]
    fit = ShareFit(columns(rooms), shares_of((2, 3), ((5, 1),))).place(everywhere(rooms), emptiest)
    sidecar, app, init = (slot.tolist() for slot in fit.slots)
    assert (sidecar, app, init) == ([1, 0], [0, 1], [0, 1])


def test_shares_that_best_fit_places_fit_under_every_cost_even_without_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocate, "MAX_SEARCH_STEPS", 0)
    # Spreading would put 6 on the GPU of 10 and leave no room for the second 5.
    shares = ShareRequest((("a", 5), ("b", 5), ("c", 6)))
    fit = ShareFit(columns([(10, 6)]), shares).place(everywhere([0]), emptiest)
    assert [slots.tolist() for slots in fit.slots] == [[0], [0], [1]]


def test_an_init_container_needs_no_search_where_only_the_app_is_in_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocate, "MAX_SEARCH_STEPS", 0)
    shares = ShareRequest((("app", 8),), (InitShare("init", 10, ()),))
    assert ShareFit(columns([(10,)]), shares).place(everywhere([0])).fits.tolist() == [True]


def test_an_exhausted_budget_refuses() -> None:
    shares = ShareRequest((("a", 4), ("b", 3), ("c", 3), ("d", 3)))
    assert place_exactly((7, 6), shares, [3]) is None
    assert place_exactly((7, 6), shares, [100]) is not None


@pytest.mark.parametrize(
    ("running", "percent", "init", "init_mib", "states"),
    [
        pytest.param(64, 93, 64, 70_000, 10, id="sidecars that leave no GPU to many init containers"),
        pytest.param(64, 97, 0, 0, 300, id="as many shares as a pod may have, on 300 states"),
    ],
)
def test_a_hostile_pod_gets_no_more_search_than_there_is_budget(
    monkeypatch: pytest.MonkeyPatch, running: int, percent: int, init: int, init_mib: int, states: int
) -> None:
    left: list[int] = []

    def watched(room: Sequence[int], shares: ShareRequest, steps: list[int]) -> tuple[int, ...] | None:
        found = place_exactly(room, shares, steps)
        left.append(steps[0])
        return found

    monkeypatch.setattr(allocate, "place_exactly", watched)
    rng = np.random.default_rng(7)
    room = rng.integers(70_000, 80_000, (16, states)).astype(np.int32)
    mean = int(room.sum(0).min()) * percent // 100 // running
    sizes = rng.integers(mean - 99, mean + 99, running).tolist()
    beside = tuple(range(running))
    shares = ShareRequest(
        tuple((f"c{i}", mib) for i, mib in enumerate(sizes)),
        # Only the last GPU may be in the way, after a search of all others.
        tuple(InitShare(f"i{i}", init_mib if i == init - 1 else 1, beside) for i in range(init)),
    )
    ShareFit(room, shares).place(np.ones(states, np.bool_), emptiest)
    # The last step may exceed the budget by one look at all GPUs and init containers.
    assert min(left, default=0) >= -(16 + init * (running + 16))


@given(clusters(), st.one_of(requests(), share_asks(4).map(lambda ask: GpuRequest(shares=ask))))
def test_a_node_fits_if_and_only_if_its_shares_have_gpus(
    cluster: Sequence[NodeInfo], request: GpuRequest
) -> None:
    snapshot = snapshot_of(cluster)
    for strategy in STRATEGIES:
        decision = filter_nodes(request, snapshot, SchedulingPolicy(strategy=strategy))
        fit = decision.scoring.fit
        assert (fit is None) == (request.shares is None)
        if fit is not None and request.shares is not None:
            assert fit.fits.tolist() == decision.fits.tolist()
            for i in np.flatnonzero(decision.fits):
                where = [int(slots[i]) for slots in fit.slots]
                for slot, device in enumerate(snapshot.states[i].slots):
                    load = oracle.peak_mib(request.shares, where, slot)
                    assert load == 0 or (device.healthy and load <= device.share_free_mib)
