"""Decisions on an overlay equal decisions on a table built from the same nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes, select_candidates
from scheduler_ext.core.cycle.overlay import Overlay, filter_overlay, with_nodes
from scheduler_ext.core.cycle.placement import Sizing, place_nominated, share_devices
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.nominated import nodes_with_nominated_pods
from scheduler_ext.core.preemption.dry_run import without
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.asked import mig, share, t4
from tests.core.dra.published import WHOLE
from tests.core.reported import ONE_G, SHARE, bound, device, node, sliced, wants
from tests.core.scores.test_claimed_parts_oracle import HELD_GI, infos_of, nodes_of_gpus
from tests.strategies import RESOURCES, bound_pods, clusters, several_requests, snapshot_of, workloads

SIZING = Sizing(SchedulingPolicy(max_candidates=3), RESOURCES, 10)
# Two GPUs of two sizes; the one with less room for shares comes first and represents the node.
UNEVEN = node(device(0), device(1, memory=Memory(81920, 1000)), cpu_milli=64_000)
# One MIG instance, held by a pod.
CUT = node(
    device(0, mig=sliced(("1g.10gb", 4), holders={4: Holder(uid="uid-m")})),
    pods=(bound("m", wants(1, ONE_G)),),
    report={"mig_strategy": "mixed"},
)
THREE_G = (("3g.40gb", 1),)
SHARES = st.lists(st.tuples(st.sampled_from((0, 1)), st.sampled_from((500, 2_000, 30_000))), max_size=3)


@st.composite
def lopsided(draw: DrawFn) -> tuple[NodeInfo, ...]:
    """Nodes that change with arriving or leaving pods: in size, or in the cost of MIG instances."""

    def one(name: str) -> NodeInfo:
        if draw(st.booleans()):
            return replace(CUT, name=name)
        shares = (
            bound(f"s{i}", wants(mib, SHARE), devices={"main": (f"GPU-{gpu}",)})
            for i, (gpu, mib) in enumerate(draw(SHARES))
        )
        return replace(UNEVEN, name=name, pods=tuple(shares))

    return tuple(one(name) for name in ("b", "a", "c")[: draw(st.integers(1, 3))])


@st.composite
def unsettled(draw: DrawFn) -> tuple[NodeInfo, ...]:
    """A cluster on which pods are assumed and nominated, the nominated ones with their GPUs."""
    infos = draw(st.one_of(clusters(), lopsided()))
    return tuple(draw(_unsettled(info, 0 if i else 1)) for i, info in enumerate(infos))


@st.composite
def _unsettled(draw: DrawFn, info: NodeInfo, least: int) -> NodeInfo:
    uuids = tuple(device.uuid for device in info.report.devices) if info.report is not None else ()
    waiting = draw(st.lists(st.sampled_from(("w0", "w1")), min_size=least, max_size=2, unique=True))
    nominated = tuple(replace(draw(bound_pods(name, uuids)), devices={}, finished=False) for name in waiting)
    assumed = frozenset(pod.uid for pod in info.pods if draw(st.booleans()))
    return place_nominated(replace(info, nominated=nominated, assumed=assumed), SIZING)


def laid(base: Snapshot, infos: Mapping[str, NodeInfo]) -> tuple[Overlay, Snapshot]:
    """The overlay of these nodes, and the snapshot of a table of the same ones."""
    own = {name: SIZING.resolved(info) for name, info in infos.items()}
    again = build_snapshot({**base.nodes, **own}, base.generation, forecast=base.expected)
    overlay = with_nodes(base, own)
    if overlay.counts_alike:
        # Scarcity and value are by the base, whose idle GPUs differ by those of some pods.
        known = dict(zip(base.models, base.scarcity.tolist(), strict=True))
        again.__dict__["idle_part"] = base.idle_part
        again.__dict__["scarcity"] = np.array([known[model] for model in again.models])
    return overlay, again


def decided(base: Snapshot, overlay: Overlay, request: GpuRequest) -> list[Decision]:
    """On the joined columns; and, where it holds, the decision on the base extended by the replaced nodes."""
    decisions = [filter_nodes(request, overlay, SIZING.policy)]
    if overlay.counts_alike:
        decisions.append(filter_overlay(filter_nodes(request, base, SIZING.policy), overlay))
    return decisions


def assert_same(decision: Decision, again: Decision) -> None:
    """The same for every node, for an unknown name, and for the cluster."""
    names = [*again.snapshot.nodes, "nobody"]
    here, there = (of.snapshot.state_of[of.snapshot.rows(names)] for of in (decision, again))
    assert decision.verdict[here].tolist() == again.verdict[there].tolist()
    np.testing.assert_array_equal(decision.totals[here], again.totals[there])
    assert decision.exhausted == again.exhausted
    assert [score for score, _, _ in decision.scored.terms] == [score for score, _, _ in again.scored.terms]
    assert [weight for _, weight, _ in decision.scored.terms] == [
        weight for _, weight, _ in again.scored.terms
    ]
    for (_, _, value), (_, _, other) in zip(decision.scored.terms, again.scored.terms, strict=True):
        # Scores of nodes that do not fit are undefined.
        fits = again.fits[there]
        np.testing.assert_allclose(value[here][fits], other[there][fits], atol=1e-9)
    assert decision.obstacles[here].tolist() == again.obstacles[there].tolist()
    best = [select_candidates(of, of.snapshot.rows(names), 3).tolist() for of in (decision, again)]
    assert best[0] == best[1]
    for name, mine, theirs in zip(names[:-1], here.tolist(), there.tolist(), strict=False):
        there_node, here_node = again.snapshot.nodes[name], decision.snapshot.nodes[name]
        assert here_node == there_node
        assert decision.nearest_miss(name) == again.nearest_miss(name)
        if decision.fits[mine]:
            assert share_devices(here_node, mine, decision) == share_devices(there_node, theirs, again)


@given(
    unsettled(),
    workloads(),
    several_requests,
    st.sampled_from(("w0", "w1", "p0", "uid-s0", "stranger")),
    st.sampled_from((0, -7, 7, 100)),
    st.data(),
)
def test_an_overlay_equals_a_table_of_the_same_nodes(
    infos: tuple[NodeInfo, ...],
    workload: Workload,
    asked: list[GpuRequest],
    uid: str,
    priority: int,
    data: DataObject,
) -> None:
    base = snapshot_of(infos, workload=workload)
    otherwise = nodes_with_nominated_pods((base.nodes[name].info for name in base.unsettled), uid, priority)
    # As in the explanation of a pod that has its node.
    left = base.nodes[data.draw(st.sampled_from(sorted(base.nodes)))].info
    gone = data.draw(st.sampled_from((None, *left.pods)))
    if gone is not None:
        otherwise[left.name] = without(otherwise.get(left.name, left), [gone])
    overlay, again = laid(base, otherwise)
    event(f"nodes seen otherwise: {min(3, len(otherwise))}, counted alike: {overlay.counts_alike}")
    for request in asked:
        for decision in decided(base, overlay, request):
            assert_same(decision, filter_nodes(request, again, SIZING.policy))


@given(st.lists(nodes_of_gpus, min_size=1, max_size=4), st.sampled_from((0, 0, 1)), workloads(), st.data())
def test_an_overlay_of_shared_gpus_equals_a_table_of_the_same_nodes(
    nodes: list[list[tuple[tuple[str, int], bool, int]]], gpus: int, workload: Workload, data: DataObject
) -> None:
    before, (part,) = infos_of(nodes, "10Gi")
    held = [[(*each[:2], data.draw(st.sampled_from(HELD_GI))) for each in node] for node in nodes]
    after, _ = infos_of(held, "10Gi")
    replaced = data.draw(st.integers(1, len(nodes)))
    base = snapshot_of(before, workload=workload)
    overlay, again = laid(base, {info.name: info for info in after[:replaced]})
    event(f"counted alike: {overlay.counts_alike}")
    units = (UnitRequest(part, 1, by_claim=True), *([UnitRequest(WHOLE, gpus)] if gpus else []))
    request = GpuRequest(units=units)
    for decision in decided(base, overlay, request):
        assert_same(decision, filter_nodes(request, again, SIZING.policy))


FREE = without(CUT, CUT.pods)


@pytest.mark.parametrize(
    ("info", "changed", "asking"),
    [
        pytest.param(
            UNEVEN,
            replace(UNEVEN, pods=(bound("w", wants(30_000, SHARE), devices={"main": ("GPU-0",)}),)),
            share(1_000, cpu_milli=1_000),
            id="a GPU of another size stands for the node",
        ),
        pytest.param(CUT, FREE, mig("1g.10gb"), id="the first free instance costs something"),
        pytest.param(FREE, CUT, mig("1g.10gb"), id="the last free instance cost something"),
    ],
)
def test_where_a_node_counts_differently_all_nodes_are_decided_again(
    info: NodeInfo, changed: NodeInfo, asking: GpuRequest
) -> None:
    classes = {TaskClass(8000, gpus=2): 2, TaskClass(gpus=1, models=("T4",)): 1, TaskClass(mig=THREE_G): 1}
    small = node(t4(0), cpu_milli=16_000)
    infos = [replace(each, name=name) for each, name in ((info, "n"), (small, "small"))]
    base = snapshot_of(infos, workload=Workload.of(classes))
    overlay, again = laid(base, {"n": changed})
    assert not overlay.counts_alike
    (decision,) = decided(base, overlay, asking)
    assert_same(decision, filter_nodes(asking, again, SIZING.policy))
    np.testing.assert_allclose(overlay.scarcity, again.scarcity)


def test_an_overlay_takes_nothing_from_the_snapshot_below() -> None:
    base = snapshot_of([replace(UNEVEN, name=name) for name in ("n", "other")])
    before = [base.state_of.tolist(), base.node.count.tolist(), dict(base.nodes)]
    overlay, _ = laid(base, {"n": CUT})
    assert filter_nodes(share(1_000), overlay, SIZING.policy).fits.any()
    assert [base.state_of.tolist(), base.node.count.tolist(), dict(base.nodes)] == before
    assert overlay.nodes["n"].info is CUT
    assert list(overlay.nodes.values())[1] is base.nodes["other"]
    assert "nobody" not in overlay.nodes
    assert len(overlay.nodes) == 2
