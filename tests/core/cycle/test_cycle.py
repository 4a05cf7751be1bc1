"""Laws of a decision for any cluster and request: verdicts, totals and points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import (
    BEST_POINTS,
    FITS,
    Decision,
    filter_nodes,
    points,
    select_candidates,
)
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest, ShareRequest, UnitRequest
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from tests.core.reported import device, node
from tests.strategies import (
    NODE_NAMES,
    clusters,
    node_infos,
    requests,
    several_requests,
    snapshot_of,
)

ONE_GPU = GpuRequest(units=(UnitRequest("nvidia.com/gpu", 1),))
HELD = (Holder(uid="someone"),)


def verdicts(decision: Decision) -> dict[str, int]:
    snapshot = decision.snapshot
    return {name: int(decision.verdict[snapshot.state_of[row]]) for name, row in snapshot.row_of.items()}


def totals(decision: Decision) -> dict[str, float]:
    snapshot = decision.snapshot
    return {name: float(decision.totals[snapshot.state_of[row]]) for name, row in snapshot.row_of.items()}


def returned(decision: Decision, names: Sequence[str], limit: int) -> set[str]:
    chosen = select_candidates(decision, decision.snapshot.rows(names), limit)
    return {name for name, here in zip(names, chosen, strict=True) if here}


@st.composite
def tied_clusters(draw: st.DrawFn) -> tuple[NodeInfo, ...]:
    """Nodes of four GPUs with none to all of them held: few distinct totals and many ties."""
    held = draw(st.lists(st.integers(0, 4), min_size=1, max_size=len(NODE_NAMES)))
    return tuple(
        replace(node(*(device(i, holders=HELD if i < n else ()) for i in range(4))), name=name)
        for n, name in zip(held, NODE_NAMES, strict=False)
    )


@given(tied_clusters(), st.integers(1, 14), st.randoms(use_true_random=False))
def test_filter_gives_back_the_best_k_and_names_decide_only_among_equals(
    cluster: Sequence[NodeInfo], limit: int, random: Random
) -> None:
    decision = filter_nodes(ONE_GPU, snapshot_of(cluster), SchedulingPolicy())
    names = [info.name for info in cluster] + ["nobody"]
    fitting = {name for name, code in verdicts(decision).items() if code == FITS}
    by_merit = sorted(fitting, key=lambda name: (-totals(decision)[name], name))
    expected = set(by_merit[:limit])
    assert returned(decision, names, limit) == expected
    random.shuffle(names)
    assert returned(decision, names, limit) == expected


def test_a_pod_with_soft_preferences_gets_all_nodes() -> None:
    names = ["a", "b", "c"]
    snapshot = snapshot_of([replace(node(device(0)), name=name) for name in names])
    for soft, count in ((False, 1), (True, 3)):
        decision = filter_nodes(replace(ONE_GPU, soft_preferences=soft), snapshot, SchedulingPolicy())
        assert len(returned(decision, names, 1)) == count


@given(clusters(), requests(), st.integers(0, 6))
def test_returned_rejected_and_withheld_are_all_names_and_share_none(
    cluster: Sequence[NodeInfo], request: GpuRequest, limit: int
) -> None:
    decision = filter_nodes(request, snapshot_of(cluster), SchedulingPolicy())
    names = [info.name for info in cluster]
    codes = verdicts(decision)
    given_back = returned(decision, names, limit)
    rejected = {name for name, code in codes.items() if code != FITS}
    withheld = set(names) - given_back - rejected
    assert not given_back & rejected
    assert all(1 <= codes[name] <= len(REASONS) for name in rejected)
    assert all(np.isfinite(totals(decision)[name]) for name in given_back | withheld)
    fitting = len(names) - len(rejected)
    all_of_them = not limit or request.soft_preferences
    assert len(given_back) == (fitting if all_of_them else min(limit, fitting))
    if withheld:
        worst = min(totals(decision)[name] for name in given_back)
        assert all(totals(decision)[name] <= worst for name in withheld)


_totals = st.lists(
    st.one_of(st.just(-np.inf), st.sampled_from((0.0, 0.5, 0.95, 1.0)), st.floats(-1.1, 1.0)), max_size=20
)


@given(_totals, st.sampled_from((0.0, 0.001, 0.1)))
def test_points_keep_order_and_equality_and_only_the_best_get_ten(
    found: list[float], resolution: float
) -> None:
    mapped = points(np.array(found, np.float64), resolution).tolist()
    best = max(found, default=-np.inf)
    assert len(mapped) == len(found)
    for total, got in zip(found, mapped, strict=True):
        assert 0 <= got <= BEST_POINTS
        alike = best - total < resolution or total == best
        assert (got == BEST_POINTS) == (np.isfinite(total) and alike)
        assert np.isfinite(total) or got == 0
        for other, others in zip(found, mapped, strict=True):
            assert others == got if other == total else (others <= got) == (other < total) or others == got


@pytest.mark.parametrize(
    ("totals", "resolution", "expected"),
    [
        pytest.param((0.9, 0.898, 0.8975, 0.1), 0.001, [10, 5, 5, 0], id="two steps are two, though small"),
        pytest.param(
            (0.95, 0.833, 0.83, 0.827, 0.824, 0.821, 0.818, 0.815, 0.812, 0.809, 0.1),
            0.001,
            [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
            id="an outlier on either side takes no points from the others",
        ),
    ],
)
def test_close_totals_get_equal_points(
    totals: tuple[float, ...], resolution: float, expected: list[int]
) -> None:
    assert points(np.array(totals), resolution).tolist() == expected


def test_points_use_the_whole_scale() -> None:
    assert points(np.array([0.1, 0.9, 0.5, 0.86, 0.1, -np.inf])).tolist() == [0, 10, 3, 6, 0, 0]
    assert points(np.array([0.3, 0.3])).tolist() == [10, 10]
    # Equal but for rounding, and not the best.
    assert points(np.array([-1.0, 0.1, np.nextafter(0.1, 0.0)])).tolist() == [0, 10, 5]
    assert points(np.arange(101.0))[[0, 50, 98, 99, 100]].tolist() == [0, 5, 9, 9, 10]


@given(clusters(), requests())
def test_neither_node_order_nor_neighbours_change_a_verdict(
    cluster: Sequence[NodeInfo], request: GpuRequest
) -> None:
    together = filter_nodes(request, snapshot_of(cluster), SchedulingPolicy())
    reversed_ = filter_nodes(request, snapshot_of(cluster[::-1]), SchedulingPolicy())
    assert verdicts(together) == verdicts(reversed_)
    assert totals(together) == pytest.approx(totals(reversed_), abs=1e-8)
    for info in cluster:
        alone = filter_nodes(request, snapshot_of([info]), SchedulingPolicy())
        assert verdicts(alone)[info.name] == verdicts(together)[info.name]


@given(clusters(), requests())
def test_totals_are_0_to_1_and_every_estimated_node_is_below_the_reported_ones(
    cluster: Sequence[NodeInfo], request: GpuRequest
) -> None:
    decision = filter_nodes(request, snapshot_of(cluster), SchedulingPolicy())
    found: dict[bool, list[float]] = {True: [], False: []}
    for name, total in totals(decision).items():
        assert np.isfinite(total) == (verdicts(decision)[name] == FITS)
        if np.isfinite(total):
            assert 0.0 <= total <= 1.0
            found[decision.snapshot.nodes[name].state.estimated].append(total)
    if request.asks_gpu and found[True] and found[False]:
        assert max(found[True]) < min(found[False])


@given(clusters(), requests(), st.sampled_from((0.01, 3.0, 1e6)))
def test_only_the_proportions_of_weights_count(
    cluster: Sequence[NodeInfo], request: GpuRequest, factor: float
) -> None:
    snapshot = snapshot_of(cluster)
    usual = filter_nodes(request, snapshot, SchedulingPolicy())
    scaled = filter_nodes(
        request, snapshot, SchedulingPolicy({name: w * factor for name, w in DEFAULT_WEIGHTS.items()})
    )
    assert sum(part for _, part, _ in usual.scored.terms) == pytest.approx(1.0)
    assert totals(usual) == pytest.approx(totals(scaled), abs=1e-8)


def test_a_weight_of_zero_drops_the_term() -> None:
    snapshot = snapshot_of([node(device(0))])
    weights = dict.fromkeys(DEFAULT_WEIGHTS, 0.0) | {"health": 2.0}
    assert [
        (score.name, part)
        for score, part, _ in filter_nodes(ONE_GPU, snapshot, SchedulingPolicy(weights)).scored.terms
    ] == [("health", 1.0)]
    assert filter_nodes(ONE_GPU, snapshot, SchedulingPolicy({})).scored.terms == []


@st.composite
def emptier(draw: st.DrawFn, info: NodeInfo) -> NodeInfo:
    """The same node with less used memory, and with smaller shares of pods and unknown holders."""

    def less(mib: int, least: int = 0) -> int:
        return max(least, mib * draw(st.sampled_from((0, 1, 3, 4))) // 4)

    def smaller(pod: BoundPod) -> BoundPod:
        shares = pod.request.shares
        if shares is None:
            return pod
        fewer = ShareRequest(
            tuple((name, less(mib, 1)) for name, mib in shares.running),
            tuple(replace(share, memory_mib=less(share.memory_mib, 1)) for share in shares.init),
        )
        return replace(pod, request=replace(pod.request, shares=fewer))

    def relieved(device: Device) -> Device:
        memory, holders = device.memory, device.holders
        return replace(
            device,
            memory=replace(
                memory,
                used_mib=less(memory.used_mib),
                unaccounted_mib=None if memory.unaccounted_mib is None else less(memory.unaccounted_mib),
            ),
            holders=tuple(
                h if h.memory_mib is None else replace(h, memory_mib=less(h.memory_mib, 1)) for h in holders
            ),
        )

    report = info.report and replace(info.report, devices=tuple(map(relieved, info.report.devices)))
    return replace(info, report=report, pods=tuple(map(smaller, info.pods)))


@given(st.data(), node_infos(), several_requests)
def test_adding_free_memory_never_makes_a_node_infeasible(
    data: st.DataObject, info: NodeInfo, asked: Sequence[GpuRequest]
) -> None:
    before = snapshot_of([info])
    fitting = [r for r in asked if verdicts(filter_nodes(r, before, SchedulingPolicy()))[info.name] == FITS]
    if fitting:
        after = snapshot_of([data.draw(emptier(info))])
        for request in fitting:
            assert verdicts(filter_nodes(request, after, SchedulingPolicy()))[info.name] == FITS


@given(clusters())
def test_an_invalid_request_is_refused_everywhere_with_its_reason(cluster: Sequence[NodeInfo]) -> None:
    decision = filter_nodes(InvalidRequest("count: is negative"), snapshot_of(cluster), SchedulingPolicy())
    assert {REASONS[code - 1] for code in verdicts(decision).values()} == {INVALID_REQUEST}
    assert set(totals(decision).values()) == {-np.inf}
    assert not returned(decision, [info.name for info in cluster], 0)


@given(clusters())
def test_a_pod_that_asks_no_gpu_fits_everywhere_equally_well(cluster: Sequence[NodeInfo]) -> None:
    asks_nothing = GpuRequest(models=("A100", "T4"), min_memory_mib=1, sharing="exclusive", priority=9)
    decision = filter_nodes(asks_nothing, snapshot_of(cluster), SchedulingPolicy())
    assert set(verdicts(decision).values()) == {FITS}
    assert set(totals(decision).values()) == {0.0}


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(replace(ONE_GPU, models=("A100", "T4")), id="whole GPUs of two models"),
        pytest.param(
            GpuRequest(shares=ShareRequest((("main", 1),)), models=("A100", "T4")), id="a share of two models"
        ),
    ],
)
@pytest.mark.parametrize(
    "infos", [pytest.param([], id="no node"), pytest.param([NodeInfo("a", report=Report(()))], id="no GPU")]
)
def test_a_cluster_without_gpus_is_decided_too(request_: GpuRequest, infos: list[NodeInfo]) -> None:
    decision = filter_nodes(request_, snapshot_of(infos), SchedulingPolicy())
    assert set(decision.totals.tolist()) == {-np.inf}


# A pod's annotations only restrict its nodes: they give it nothing.
OF_THE_POD = ("units", "shares", "priority", "cpu_milli", "by_container")


@given(clusters(), several_requests)
def test_a_pod_that_fits_with_annotations_fits_without(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    snapshot = snapshot_of(cluster)
    for request in asked:
        plain = replace(GpuRequest(), **{key: getattr(request, key) for key in OF_THE_POD})
        fits = filter_nodes(request, snapshot, SchedulingPolicy()).verdict == FITS
        assert not (fits & (filter_nodes(plain, snapshot, SchedulingPolicy()).verdict != FITS)).any()
